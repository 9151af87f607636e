package tooltest

import (
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/pkg/tool"
)

// Env is the environment of a call in an empty workspace of the test's own. Commands run without isolation; they have
// ended, and the workspace is gone, when the test is over.
func Env(t testing.TB) tool.Env {
	t.Helper()
	sb, err := host.New("").Open(t.Context(), sandbox.Config{ID: "tooltest", Workspace: t.TempDir(), Network: true})
	if err != nil {
		t.Fatalf("open a sandbox: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("end the sandbox: %v", err)
		}
	})
	return tool.Env{Sandbox: sb, Progress: func(string, []byte) {}, MaxOutput: 16 << 10}
}
