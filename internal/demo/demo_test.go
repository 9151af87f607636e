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
	err        error
}

func play(t *testing.T, o Options) played {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var out strings.Builder
	p := played{store: t.TempDir()}
	o.Store, o.Out = p.store, &out
	o.See = func(f events.Event, p events.Payload, _ run.State) { t.Log(f.Sequence, p.Kind()) }
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
		for _, want := range []string{"invoice: round line totals half up", "Result: completed (agent_done), 2 of 2 steps.",
			"is on main, the working tree is clean, and the tests pass on exactly that commit."} {
			if !strings.Contains(p.out, want) {
				t.Errorf("the report lacks %q", want)
			}
		}
		if p.gates != 1 {
			t.Errorf("%d gates, want 1", p.gates)
		}
	})
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
		{"no commit", "true", "there is no commit on main after"},
		{"a commit on another branch", "git checkout -q -b other && touch new && git add new && " + commit, `branch "other" is checked out, want main`},
		{"a commit, and changes that are not in it", "touch new && git add new && " + commit + " && echo >> invoice.go", "changes that are not committed: invoice.go"},
		{"a file that git does not know", "touch new && git add new && " + commit + " && touch other", "changes that are not committed: other"},
		{"another history", "git checkout -q --orphan new && git add -A && git commit -q -m new && git branch -q -M main", "does not follow"},
		{"a commit that weakens the tests in place of a fix", cheat + commit, "got 267 cents, want 266"},
	} {
		t.Run("GATE-2 a completed run is a failed demo where the repository has "+c.name, func(t *testing.T) {
			t.Parallel()
			p := play(t, Options{Sandbox: "host", Examples: script(t, does(c.command)), Base: base})
			if !errors.Is(p.err, ErrNotVerified) || !strings.Contains(p.err.Error(), c.want) {
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
