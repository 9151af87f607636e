package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// oddNames are names of one file each, however they look: none is a way up, a separator or a link.
var oddNames = []string{
	"\u2024\u2024", "\uff0e\uff0e", "\u2025", "..\u200b", "\u2024\u2024\u2215secret", "\uff0e\uff0e\uff0fsecret",
	"..\u2044outside\u2044secret",
	"..\\outside\\secret", "%2e%2e%2fsecret", "..%2foutside", "...", ". .", " ..", ".. ", "-rf", "--", "~", "$HOME",
	"`id`", "$(id)", ";id", "*", "a\nb", "a\tb", "\u202etxt.exe",
	"\u0430dmin", "\u212b", "A\u030a", "\u00c5", strings.Repeat("n", 255), strings.Repeat("\u00e9", 127),
}

// noNames cannot be names of files at all.
var noNames = []string{"", "a\x00b", "\x00", "../outside/secret\x00.txt", strings.Repeat("n", 4096),
	strings.Repeat("n", 256), strings.Repeat("d/", 2048) + "f", "ok/" + strings.Repeat("\u00e9", 2048)}

// examHostile gives a sandbox names and a disk that no one means well with.
func examHostile(t *testing.T, b sandbox.Backend) {
	t.Run("SBX-18 GUARD-12 an odd name is that of one file in the workspace, for files and for commands",
		func(t *testing.T) {
			t.Parallel()
			p := open(t, b)
			for _, name := range oddNames {
				must(t, p.sandbox.WriteFile(name, []byte("of "+name)))
			}
			for _, name := range oddNames {
				if data, err := os.ReadFile(filepath.Join(p.workspace, name)); err != nil || string(data) != "of "+name {
					t.Errorf("%q: got %q, %v", name, data, err)
				}
			}
			list, err := os.ReadDir(p.workspace)
			if err != nil || len(list) != len(oddNames) {
				t.Errorf("got %d files, %v, want %d: names were taken for one another", len(list), err, len(oddNames))
			}
			for _, name := range oddNames[:12] {
				var out safe
				exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"cat", "./" + name}, Stdout: &out})
				if err != nil || exit.Code != 0 || out.String() != "of "+name {
					t.Errorf("a command sees %q: %q, %+v, %v", name, out.String(), exit, err)
				}
			}
			p.untouched(t)
		})
	t.Run("SBX-18 GUARD-12 what is no name is refused, for files, directories, programs and arguments",
		func(t *testing.T) {
			t.Parallel()
			p := open(t, b)
			for _, name := range noNames {
				shown := name[:min(len(name), 20)]
				if err := p.sandbox.WriteFile(name, []byte("planted")); err == nil {
					t.Errorf("write %q of %d bytes: no error", shown, len(name))
				}
				if data, err := p.sandbox.ReadFile(name); err == nil {
					t.Errorf("read %q: got %q", shown, data)
				}
				if err := p.sandbox.Rename(name, "stolen"); err == nil {
					t.Errorf("rename %q: no error", shown)
				}
				if err := p.sandbox.Remove(name); err == nil {
					t.Errorf("remove %q: no error", shown)
				}
				for what, cmd := range map[string]sandbox.Cmd{"directory": {Args: []string{"true"}, Dir: name},
					"program": {Args: []string{name}}, "argument": {Args: []string{"cat", name}}} {
					if what == "directory" && name == "" {
						continue // it is the workspace
					}
					if exit, err := p.sandbox.Exec(within(t), cmd); err == nil && exit.Code == 0 {
						t.Errorf("%s %q of %d bytes: it went through", what, shown, len(name))
					}
				}
			}
			if out, _, exit := p.sh(t, "echo goes on"); out != "goes on\n" || exit.Code != 0 {
				t.Errorf("afterwards: got %q, %+v", out, exit)
			}
			p.untouched(t)
		})
	t.Run("SAFE-14 a full disk is an error, harms no file that was there, and is over when there is room",
		func(t *testing.T) {
			t.Parallel()
			fullDisk(t, b)
		})
}

func fullDisk(t *testing.T, b sandbox.Backend) {
	ws := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs",
		ws).CombinedOutput(); err != nil {
		untested(t, "a full disk: only root can mount a small one: %s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		// A process that another test has just forked holds open files here until it executes its program.
		if out, err := exec.Command("umount", "--lazy", ws).CombinedOutput(); err != nil {
			t.Errorf("unmount: %s", out)
		}
	})
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "full", Workspace: ws, Network: true})
	must(t, err)
	defer func() { must(t, sb.Destroy(context.Background())) }()
	p := workdir{sandbox: sb, workspace: ws}
	must(t, sb.WriteFile("kept", []byte("first")))
	if err := sb.WriteFile("kept", make([]byte, 4<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write more than there is room for: got %v, want ENOSPC", err)
	}
	if data, err := sb.ReadFile("kept"); err != nil || string(data) != "first" {
		t.Errorf("what was there: got %d bytes, %v", len(data), err)
	}
	if list, err := fs.ReadDir(sb.FS(), "."); err != nil || len(list) != 1 {
		t.Errorf("files written aside are left: %v, %v", list, err)
	}
	exit, err := sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", "head -c 4000000 /dev/zero > big"}})
	if away(b) { // it has room on its machine, and what it wrote has none on this one
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("bring back what there is no room for: got %+v, %v, want ENOSPC", exit, err)
		}
		p.sh(t, "rm big")
	} else {
		if err != nil || exit.Code == 0 {
			t.Errorf("a command wrote more than there is room for: %+v, %v", exit, err)
		}
		if err := sb.WriteFile("late", []byte(strings.Repeat("x", 1<<20))); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write on a full disk: got %v, want ENOSPC", err)
		}
		must(t, sb.Remove("big"))
	}
	for ctx := within(t); ; runtime.Gosched() { // the kernel may free the blocks of a removed file a moment later
		if err = sb.WriteFile("late", []byte("there is room")); ctx.Err() != nil || !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	must(t, err)
	if out, _, exit := p.sh(t, "cat kept late"); exit.Code != 0 || out != "firstthere is room" {
		t.Errorf("afterwards: got %q, %+v", out, exit)
	}
}
