package docker_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestCrash kills a real engine in the middle of a command. The variable names a program that does so when its argument
// is kill, and starts the engine again when it is start. It is not parallel: other tests have the same engine.
func TestCrash(t *testing.T) {
	program := os.Getenv("INSPAN_TEST_DOCKER_CRASH")
	if program == "" {
		t.Skip("NOT TESTED: a real engine that is killed: INSPAN_TEST_DOCKER_CRASH names no program that does it")
	}
	b := real(t)
	sandboxtest.Need(t, b)
	do := func(what string) {
		if out, err := exec.CommandContext(t.Context(), program, what).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", what, err, out)
		}
	}
	ws := t.TempDir()
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "crash", Workspace: ws})
	must(t, err)
	alive := leashed(t, ws)
	ended := ready(t, sb, "exec 9>leash; echo ready; (env -i setsid sleep 6000 &); sleep 6000")
	do("kill")
	t.Run("SBX-4 a real engine that is killed ends the command with an unknown outcome", func(t *testing.T) {
		if err := <-ended; !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if alive() {
			t.Error("processes live on without their engine")
		}
	})
	if err := sb.Destroy(t.Context()); err == nil {
		t.Error("destroyed without an engine: got no error, want to be told what is left")
	} else {
		t.Log(err)
	}
	do("start")
	t.Run("SBX-17 everything is gone when a real engine is back", func(t *testing.T) {
		n, err := b.Reap(t.Context())
		must(t, err)
		t.Logf("%d containers were left", n)
		await(t, "all processes are gone", func() bool { return !alive() })
		if n, err := b.Reap(t.Context()); err != nil || n != 0 {
			t.Errorf("got %d, %v, want none left", n, err)
		}
		other := open(t, b, nil)
		if out, _, err := sh(t, other, "echo works"); err != nil || out != "works\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
}
