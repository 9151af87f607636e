package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/inspan/inspan/examples"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// played is a demo that was run, with what it printed and how often it asked.
type played struct {
	store, out string
	gates      int
	state      run.State
	err        error
}

func play(t *testing.T, o Options) played {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out strings.Builder
	p := played{store: t.TempDir()}
	o.Store, o.Out = p.store, &out
	o.See = func(f events.Event, said events.Payload, s run.State) {
		p.state = s
		t.Log(f.Sequence, said.Kind())
	}
	o.Approve = func(context.Context, *events.GateOpenedData) (bool, string, error) {
		p.gates++
		return true, "", nil
	}
	p.err = Run(ctx, o)
	p.out = out.String()
	t.Log(p.out)
	return p
}

func TestDemo(t *testing.T) {
	t.Parallel()
	base := sharesCache(t)
	t.Run("GATE-2 the agent fixes a real module, stops at the gate before the critical step, commits, and the commit is verified", func(t *testing.T) {
		t.Parallel()
		p := play(t, Options{Sandbox: "auto", Base: base})
		if p.err != nil {
			t.Fatal(p.err)
		}
		code, err := os.ReadFile(filepath.Join(p.store, "workspace", "session", "demo", "invoice.go"))
		if err != nil || !strings.Contains(string(code), "+ 50) / 100") {
			t.Errorf("the file is not fixed: %v", err)
		}
		for _, want := range []string{"invoice: round line totals half up", "Result: completed (agent_done), 4 of 4 steps.", "Checked by the station, and not by the agent: git commit, clean; the tests of the module.",
			"is on main, the working tree is clean, and the tests pass on exactly that commit."} {
			if !strings.Contains(p.out, want) {
				t.Errorf("the report lacks %q", want)
			}
		}
		if p.gates != 1 {
			t.Errorf("%d gates, want 1", p.gates)
		}
		later(t, p)
	})
}

// later has a demo's repository change after its run.
func later(t *testing.T, p played) {
	t.Helper()
	repo := filepath.Join(p.store, "workspace", "session", "demo")
	unchecked := p.state
	end := *p.state.Result
	end.Verified = nil
	unchecked.Result = &end
	if _, err := verify(t.Context(), unchecked, repo); err == nil || !strings.Contains(err.Error(), "no check has run the tests") {
		t.Errorf("without a check of the tests: %v", err)
	}
	for _, c := range []struct {
		do   []string
		want string
	}{
		{[]string{"mv", "invoice.go", "other.go"}, "changes that are not committed"},
		{[]string{"commit", "-q", "-m", "later"}, "is not the one that the run delivered"},
		{[]string{"checkout", "-q", "-b", "other"}, `branch "other" is checked out`},
	} {
		if out, err := git(t.Context(), repo, c.do...); err != nil {
			t.Fatalf("git %v: %v: %s", c.do, err, out)
		}
		if _, err := verify(t.Context(), p.state, repo); !errors.Is(err, ErrNotVerified) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("after git %v: got %v, want one with %q", c.do, err, c.want)
		}
	}
}

// script is the examples with another script of the fixer.
func script(t *testing.T, text string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(examples.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(examples.Files, name)
		files[name] = &fstest.MapFile{Data: b, Mode: 0o644}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files["scripts/fixer.yaml"].Data = []byte(text)
	return files
}

// does is a script that runs a command in the step commit and reports what a model would like to be true.
func does(command string) string {
	return `turns:
  - when: {step: commit, turn: 1}
    calls:
      - name: bash
        input: {command: "` + command + `"}
  - text: Committed, and all tests pass.
`
}

func TestVerify(t *testing.T) {
	t.Parallel()
	base := service.Config{Sandboxes: service.Sandboxes{SandboxEnv: []string{"GOCACHE=" + buildCache(t)}}}
	commit := "git commit -q -a -m fix"
	cheat := "sed -i s/266}/267}/ invoice_test.go && sed -i 's/466; got/467; got/' invoice_test.go && " // makes them pass
	for _, c := range []struct{ name, command, want string }{
		{"no commit", "true", "adds none to"},
		{"a commit on another branch", "git checkout -q -b other && touch new && git add new && " + commit, `the working tree is on the branch "other"`},
		{"a commit, and changes that are not in it", "touch new && git add new && " + commit + " && echo >> invoice.go", "changes that are not committed"},
		{"a file that git does not know", "touch new && git add new && " + commit + " && touch other", "changes that are not committed"},
		{"another history", "git checkout -q --orphan new && git add -A && git commit -q -m new && git branch -q -M main", "adds none to"},
		{"a commit that weakens the tests in place of a fix", cheat + commit, `the check "the tests of the module" did not pass`},
	} {
		t.Run("PLUS-10 GATE-2 an agent that calls its work done is not believed where the repository has "+c.name, func(t *testing.T) {
			t.Parallel()
			p := play(t, Options{Sandbox: "host", Examples: script(t, does(c.command)), Base: base})
			if !errors.Is(p.err, ErrNotDone) || !strings.Contains(p.err.Error(), c.want) {
				t.Errorf("got %v, want one with %q", p.err, c.want)
			}
		})
	}
}

func TestWithoutGo(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"git", "bash", "sed"} {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	p := play(t, Options{Sandbox: "host", Base: service.Config{Sandboxes: service.Sandboxes{SandboxEnv: []string{"PATH=" + bin}}}})
	t.Run("GATE-2 on a machine without Go the fix is committed, and the demo says that its tests are not verified", func(t *testing.T) {
		if p.err != nil {
			t.Fatal(p.err)
		}
		for _, want := range []string{"is on main and the working tree is clean.", "Not verified: its tests, because Go is not installed here."} {
			if !strings.Contains(p.out, want) {
				t.Errorf("the report lacks %q", want)
			}
		}
	})
}
