package tools_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// lostBox is lost in the middle of every command.
type lostSandbox struct{ sandbox.Sandbox }

func (lostSandbox) Exec(context.Context, sandbox.Cmd) (sandbox.Exit, error) {
	return sandbox.Exit{}, fmt.Errorf("exec: %w", sandbox.ErrLost)
}

func TestLostSandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env.Sandbox = lostSandbox{b.env.Sandbox}
	t.Run("SBX-4 a command whose sandbox was lost in the middle has an unknown outcome", func(t *testing.T) {
		if _, err := b.try(t.Context(), "bash", args{"command": "true"}); tool.ClassOf(err) != tool.Unknown {
			t.Errorf("got %v of class %s, want %s", err, tool.ClassOf(err), tool.Unknown)
		}
	})
}
