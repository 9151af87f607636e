package landlock_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be its own launcher.
func TestMain(m *testing.M) {
	if launch.Asked(os.Args) {
		launch.Main() // which becomes the command
		return
	}
	m.Run()
}

// backend starts inspan-within as its launcher where INSPAN_TEST_HELPER names it, as a program does that has it beside
// it.
func backend() *landlock.Backend {
	return landlock.New([]string{cmp.Or(os.Getenv("INSPAN_TEST_HELPER"), "/proc/self/exe"), launch.Word}, "")
}

func TestExam(t *testing.T) { sandboxtest.Exam(t, backend()) }

func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 a program that is no launcher is told so", func(t *testing.T) {
		t.Parallel()
		err := landlock.New(nil, "").Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
	t.Run("SBX-20 a launcher that puts up no walls fails the probe", func(t *testing.T) {
		t.Parallel()
		sandboxtest.Need(t, backend())
		for _, script := range []string{"exit 0", "ls /dev >/dev/null 2>&1 && echo open || echo closed"} {
			err := landlock.New([]string{"/bin/sh", "-c", script}, "").Probe(t.Context())
			if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "does not isolate") {
				t.Errorf("%s: got %v, want ErrUnavailable", script, err)
			}
		}
	})
	t.Run("SBX-20 what is in a writable directory cannot be read-only, and is refused", func(t *testing.T) {
		t.Parallel()
		sandboxtest.Need(t, backend())
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/kept", 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := backend().Open(t.Context(), sandbox.Config{ID: "x", Workspace: dir, ReadOnly: []string{dir + "/kept"}})
		if !errors.Is(err, sandbox.ErrNotEnforced) || !strings.Contains(err.Error(), "bwrap") {
			t.Errorf("got %v, want ErrNotEnforced with what to use", err)
		}
	})
}

func TestEscape(t *testing.T) { sandboxtest.Escape(t, backend()) }

func TestSwap(t *testing.T) { sandboxtest.Swap(t, backend()) }

// denying is a backend whose sandboxes deny programs.
type denying struct{ *landlock.Backend }

func (d denying) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	cfg.DenyPrograms = []string{"cksum", "mkfs*", "comm"}
	return d.Backend.Open(ctx, cfg)
}

// BenchmarkDenied is what denied programs cost.
func BenchmarkDenied(b *testing.B) { sandboxtest.Costs(b, denying{backend()}) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, backend()) }
