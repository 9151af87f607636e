package shell_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/shell"
	"github.com/inspan/inspan/pkg/events"
)

// hostileForm is one line of testdata/hostile.txt.
type hostileForm struct{ tried, want, text string }

func hostileForms(t testing.TB) (forms []hostileForm) {
	t.Helper()
	for _, line := range corpus(t, "hostile.txt", 300) {
		tried, rest, _ := strings.Cut(line, " ")
		want, text, _ := strings.Cut(rest, " ")
		if !slices.Contains([]string{"bash", "tool", "read"}, tried) || !slices.Contains([]string{"deny", "any"}, want) || text == "" {
			t.Fatalf("a line of no known form: %s", line)
		}
		forms = append(forms, hostileForm{tried, want, strings.ReplaceAll(text, `\n`, "\n")})
	}
	return forms
}

// deniedProg are the built-in rules and one that denies a program as a whole.
func deniedProg(t testing.TB) guard.Set {
	t.Helper()
	set, err := guard.Build([]events.Rule{{ID: "no-deniedprog", Match: events.Match{Argv: []string{"deniedprog", "**"}}, Action: guard.Deny}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func verdict(set guard.Set, text string) (guard.Verdict, shell.Result) {
	parsed := shell.Parse(text)
	return set.Judge(guard.Action{Tool: "bash", Commands: parsed.Commands, Loose: parsed.Loose, Unclear: parsed.Unclear}), parsed
}

func TestHostile(t *testing.T) {
	t.Parallel()
	set := deniedProg(t)
	for _, f := range hostileForms(t) {
		t.Run("GUARD-5 GUARD-9 a denied program: "+f.text, func(t *testing.T) {
			t.Parallel()
			got, parsed := verdict(set, f.text)
			if got.Action == guard.Allow || f.want != "any" && got.Action != f.want {
				t.Errorf("got %s by %q (%s), want %s\ncommands %q\nunclear %q", got.Action, got.Rule, got.Reason, f.want, parsed.Commands, parsed.Unclear)
			}
		})
	}
}

func TestOrdinary(t *testing.T) {
	t.Parallel()
	set := deniedProg(t)
	for _, line := range corpus(t, "ordinary.txt", 200) {
		text := strings.ReplaceAll(line, `\n`, "\n")
		t.Run("GUARD-10 ordinary work: "+text, func(t *testing.T) {
			t.Parallel()
			if got, parsed := verdict(set, text); got.Action != guard.Allow {
				t.Errorf("got %s by %q (%s)\ncommands %q", got.Action, got.Rule, got.Reason, parsed.Commands)
			}
		})
	}
}

// TestHostileInBash asks the shell itself: where a form has run the denied program, the verdict on it is not allow. A
// form that needs a tool and is not allowed passes whether it ran or not, so it is not started.
func TestHostileInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("this machine has no bash: the reader is compared with the corpus alone")
	}
	set, root := deniedProg(t), t.TempDir() // its name is plain: a form may expand it
	for _, f := range hostileForms(t) {
		got, _ := verdict(set, f.text)
		if f.tried == "read" || f.tried == "tool" && got.Action != guard.Allow {
			continue
		}
		place := newPlace(t, root) // before any form runs: the kernel executes no file that is open for writing
		t.Run("GUARD-5 GUARD-9 in bash: "+f.text, func(t *testing.T) {
			t.Parallel()
			ran := place.run(t, bash, f.text)
			if ran && got.Action == guard.Allow {
				t.Errorf("it ran the denied program and is allowed")
			}
			if f.tried == "bash" && !ran {
				t.Errorf("the form did not run the denied program, so it examines nothing")
			}
		})
	}
}

// place is where one form runs: the folder of deniedprog, which only leaves a mark, an empty folder, and the mark.
type place struct{ bin, work, mark string }

func newPlace(t *testing.T, root string) place {
	t.Helper()
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		t.Fatal(err)
	}
	p := place{filepath.Join(dir, "bin"), filepath.Join(dir, "work"), filepath.Join(dir, "mark")}
	script := "#!/bin/sh\necho ran >> '" + p.mark + "'\n"
	if err := errors.Join(os.Mkdir(p.bin, 0o700), os.Mkdir(p.work, 0o700), os.WriteFile(filepath.Join(p.bin, "deniedprog"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a text and reports whether it has run deniedprog.
func (p place) run(t *testing.T, bash, text string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for one that waits for something that this machine has not
	defer cancel()
	cmd := exec.CommandContext(ctx, bash, "-c", text+"\nwait")
	cmd.Dir = p.work
	cmd.Env = []string{"PATH=" + p.bin + ":" + os.Getenv("PATH"), "HOME=" + p.work, "LC_ALL=C", "TERM=dumb", "GIT_CONFIG_NOSYSTEM=1", "INPUTRC=/dev/null"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal to ask
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // many of them fail behind what matters
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_, err := os.Stat(p.mark)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}
