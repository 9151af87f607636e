package toolrunner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/sandbox"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("WS-16 SBX-16 a sandbox opens with its first use, on a workspace that is provisioned by then, and counts what is used", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		o := b.role.execute.opener.open(t.Context(), b.started(), &capture.Changes{})
		defer o.close()
		at := filepath.Join(b.root, "run", runID)
		if _, err := os.Lstat(at); err == nil {
			t.Error("the workspace is there before it is used")
		}
		exit, err := o.env.Sandbox.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "test -s .harness/tasks.json && echo mine > made"}})
		if err != nil || exit.Code != 0 {
			t.Fatalf("got %+v, %v", exit, err)
		}
		if text, err := os.ReadFile(filepath.Join(at, "made")); err != nil || string(text) != "mine\n" {
			t.Errorf("got %q, %v", text, err)
		}
		if u := o.sandbox.Usage(); u == nil || u.Commands != 1 {
			t.Errorf("used %+v, want one command", u)
		}
	})
	t.Run("SAFE-8 an agent that may reach nothing has no way to fetch, and one without the tools for jobs starts none", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		o := b.role.execute.opener.open(t.Context(), b.started(), &capture.Changes{})
		defer o.close()
		if o.env.Fetch != nil || o.env.Background != nil || o.env.Git != nil || o.env.Save != nil {
			t.Errorf("got %+v", o.env)
		}
	})
}
