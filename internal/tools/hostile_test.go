package tools_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// changing are calls that change one file of which they believe that it holds "inside\n".
func changing(path string) map[string]args {
	return map[string]args{
		"write":       {"path": path, "content": "changed\n"},
		"edit":        {"path": path, "old_string": "inside", "new_string": "changed"},
		"apply_patch": {"patch": "*** Begin Patch\n*** Update File: " + path + "\n-inside\n+changed\n*** End Patch"},
	}
}

// inTime is a call that must answer by itself.
func (b *bench) inTime(name string, a args) (r tool.Result, err error) {
	b.t.Helper()
	c := b.call(name, a)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, err = b.tool(name).Run(b.t.Context(), c)
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		b.t.Fatalf("%s %.200v does not end", name, a)
	}
	return r, err
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 WS-12 a file with a second name outside is not changed there", func(t *testing.T) {
		t.Parallel()
		for name := range changing("x") {
			b := newBench(t)
			outside := filepath.Join(filepath.Dir(b.dir), "outside.txt")
			if err := os.WriteFile(outside, []byte("inside\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(outside, filepath.Join(b.dir, "link.txt")); err != nil {
				t.Fatal(err)
			}
			b.good(name, changing("link.txt")[name])
			b.has("link.txt", "changed\n")
			if got, err := os.ReadFile(outside); err != nil || string(got) != "inside\n" {
				t.Errorf("%s changed the file outside: %q, %v", name, got, err)
			}
		}
	})
	t.Run("SAFE-12 what is no file is told at once, and stays", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe.png"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(b.dir, "dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"pipe", "pipe.png", "dir", "dir/.", "."} {
			calls := changing(path)
			calls["read"] = args{"path": path}
			if strings.HasPrefix(path, "pipe") {
				delete(calls, "write") // that puts a file in its place, and does not wait for a reader
			}
			for name, a := range calls {
				r, err := b.inTime(name, a)
				if err == nil && !r.Failed || len(r.Output) > 500 || err == nil && r.Output == "" {
					t.Errorf("%s of %s: %q, %v", name, path, r.Output, err)
				}
			}
		}
		if info, err := os.Lstat(filepath.Join(b.dir, "pipe")); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
			t.Errorf("the pipe is %v, %v", info, err)
		}
		b.good("write", changing("pipe")["write"])
		b.has("pipe", "changed\n")
	})
	t.Run("SAFE-12 hostile names are refused or taken as they are, and shown in one line", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for path, fits := range map[string]bool{
			"-rf": true, "--help": true, "a\nb": true, "ra\u202dtxt.exe": true, "\u0430dmin.go": true, "admin.go": true, " ": true, "a\\b": true, "*": true, "[a": true, "$(touch owned)": true,
			"\xff\xfe.txt": true, strings.Repeat("n", 255): true, strings.Repeat("n", 256): false, strings.Repeat("n", 4096): false,
			"a\x00b": false, "/etc/hostname2": false, "../up": false, "./../up": false, "..": false, "in/../../up": false,
		} {
			if !utf8.ValidString(path) {
				continue // no JSON has such a name; commands make them, see below
			}
			r, err := b.inTime("write", args{"path": path, "content": "inside\n"})
			if good := err == nil && !r.Failed; good != fits {
				t.Errorf("write of %.60q: %.200q, %v", path, r.Output, err)
			}
			if err == nil && strings.ContainsAny(strings.TrimSuffix(r.Output, "\n"), "\n\u202d\x00") {
				t.Errorf("write of %.60q is told as %q", path, r.Output)
			}
			if !fits {
				continue
			}
			contains(t, b.good("read", args{"path": path}), "inside")
			b.good("edit", args{"path": path, "old_string": "inside", "new_string": "needle of " + fmt.Sprint(len(path))})
		}
		b.good("bash", args{"command": `printf 'needle\n' > "$(printf 'bad\377name')"`})
		for name, got := range map[string]string{"glob": b.good("glob", args{"pattern": "*"}), "grep": b.good("grep", args{"pattern": "needle"})} {
			if !utf8.ValidString(got) {
				t.Errorf("%s: %q", name, got)
			}
			contains(t, got, "-rf", "--help", "a<U+000A>b", "ra<U+202D>txt.exe", "\u0430dmin.go", "$(touch owned)", "bad\uFFFDname")
		}
		if _, err := os.Stat(filepath.Join(b.dir, "owned")); err == nil {
			t.Error("a name was run")
		}
		for _, name := range []string{"up", "hostname2"} {
			if _, err := os.Stat(filepath.Join(filepath.Dir(b.dir), name)); err == nil {
				t.Errorf("%s was made outside", name)
			}
		}
	})
	t.Run("TOOL-10 SAFE-12 what changed since it was read is changed only where the text still stands", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a.txt", "one\ninside\nthree\n")
		b.good("read", args{"path": "a.txt"})
		b.put("a.txt", "one\nsomething else\nthree\n")
		for _, name := range []string{"edit", "apply_patch"} {
			if r := b.run(name, changing("a.txt")[name]); !r.Failed || len(r.Output) < 20 {
				t.Errorf("%s: %q", name, r.Output)
			}
			b.has("a.txt", "one\nsomething else\nthree\n")
		}
		b.put("a.txt", "zero\none\ninside\nthree\nfour\n")
		b.good("edit", changing("a.txt")["edit"])
		b.has("a.txt", "zero\none\nchanged\nthree\nfour\n")
	})
	t.Run("WS-12 SAFE-12 a folder that is swapped for a link leads no tool outside", func(t *testing.T) {
		t.Parallel()
		swapped(t)
	})
}

// swapped has edit, apply_patch, write, read and grep work on a file of a folder that is a link to the outside every
// other moment.
func swapped(t *testing.T) {
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.dir), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "f.txt")
	if err := os.WriteFile(secret, []byte("inside the secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("d/f.txt", "inside\n")
	if err := os.Symlink(outside, filepath.Join(b.dir, "l")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var swaps sync.WaitGroup
	swaps.Go(func() {
		at := func(name string) string { return filepath.Join(b.dir, name) }
		for ctx.Err() == nil { // each step may fail because the other side made the folder anew
			_ = os.Rename(at("d"), at("d2"))
			_ = os.Rename(at("l"), at("d"))
			_ = os.Rename(at("d"), at("l"))
			_ = os.Rename(at("d2"), at("d"))
		}
	})
	calls := changing("d/f.txt")
	calls["read"], calls["grep"] = args{"path": "d/f.txt"}, args{"pattern": "inside", "path": "d"}
	calls["back"] = args{"path": "d/f.txt", "old_string": "changed", "new_string": "inside"}
	for range 150 {
		for name, a := range calls {
			if name == "back" {
				name = "edit"
			}
			if r, _ := b.try(t.Context(), name, a); strings.Contains(r.Output, "the secret") {
				t.Errorf("%s shows the outside: %q", name, r.Output)
			}
		}
	}
	cancel()
	swaps.Wait()
	list, err := os.ReadDir(outside)
	if got, readErr := os.ReadFile(secret); err != nil || readErr != nil || string(got) != "inside the secret\n" || len(list) != 1 {
		t.Errorf("outside there is %v, %q, %v, %v", list, got, err, readErr)
	}
}

// crowd is a file system of very many files, made when they are looked at.
type crowd struct{ folders, files, listed int }

type member struct {
	name string
	dir  bool
}

func (m member) Name() string               { return m.name }
func (m member) IsDir() bool                { return m.dir }
func (m member) Type() fs.FileMode          { return map[bool]fs.FileMode{true: fs.ModeDir}[m.dir] }
func (m member) Mode() fs.FileMode          { return m.Type() }
func (m member) Info() (fs.FileInfo, error) { return m, nil }
func (m member) Size() int64                { return 1 }
func (m member) ModTime() time.Time         { return time.Time{} }
func (m member) Sys() any                   { return nil }

func (c *crowd) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func (c *crowd) Stat(name string) (fs.FileInfo, error) { return member{name, true}, nil }

func (c *crowd) ReadDir(name string) (list []fs.DirEntry, err error) {
	if name == "." {
		for i := range c.folders {
			list = append(list, member{fmt.Sprintf("d%06d", i), true})
		}
		return list, nil
	}
	for i := range c.files {
		list = append(list, member{fmt.Sprintf("f%06d.go", i), false})
	}
	c.listed += c.files
	return list, nil
}

// crowded is a sandbox with such files.
type crowded struct {
	sandbox.Sandbox
	files *crowd
}

func (c crowded) FS() fs.FS { return c.files }

func (c crowded) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, sandbox.ErrNotStarted
}

func TestCrowds(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 SAFE-12 a search among a million files ends, shows no more than its limit, and says how many it looked at", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		files := &crowd{folders: 1000, files: 1000}
		b.env.Sandbox = crowded{b.env.Sandbox, files}
		got := b.good("glob", args{"pattern": "**/*.go"})
		if n := strings.Count(got, "\n"); n > 510 {
			t.Errorf("%d lines", n)
		}
		contains(t, got, "truncated: 500 of 200000 files", "only the first 200000 files were searched")
		contains(t, b.good("glob", args{"pattern": "nowhere"}), "no file matches", "only the first 200000 files")
		contains(t, b.good("grep", args{"pattern": "x"}), "only the first 200000 files")
		if files.listed > 3*201_000 {
			t.Errorf("%d files were listed", files.listed)
		}
	})
}

func TestNoFiles(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 what cannot be read or written as a file is told as what it is, once, with what helps", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("dir/a.txt", "x\n")
		big := filepath.Join(b.dir, "big.txt")
		b.put("big.txt", "")
		if err := os.Truncate(big, sandbox.MaxReadFile+1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		const old, folder, large = "x", `"dir" is a folder; glob finds`, "more than 64 MiB"
		b.bad("write", args{"path": "dir", "content": "x"}, folder)
		b.bad("read", args{"path": "dir"}, folder)
		b.bad("edit", args{"path": "dir", "old_string": old, "new_string": "y"}, folder)
		b.bad("read", args{"path": "big.txt"}, large)
		b.bad("edit", args{"path": "big.txt", "old_string": old, "new_string": "y"}, large)
		b.bad("read", args{"path": "pipe"}, `read: "pipe" is not a regular file`)
	})
}
