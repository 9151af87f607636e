package tools_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

// lateBox runs commands that end in the moment their context does.
type lateSandbox struct {
	sandbox.Sandbox
	end  context.CancelFunc
	exit sandbox.Exit
	err  error
}

func (b lateSandbox) Exec(_ context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	_, _ = io.WriteString(cmd.Stdout, "all done\n")
	b.end()
	return b.exit, b.err
}

func TestEndsInTheLastMoment(t *testing.T) {
	t.Parallel()
	run := func(exit sandbox.Exit, err error) (tool.Result, error) {
		b := newBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		b.env.Sandbox = lateSandbox{b.env.Sandbox, cancel, exit, err}
		return b.try(ctx, "bash", args{"command": "make"})
	}
	t.Run("LOOP-14 a command that had finished is not called ended, whatever the clock says", func(t *testing.T) {
		t.Parallel()
		if r, err := run(sandbox.Exit{}, nil); err != nil || !strings.Contains(r.Output, "all done") || r.Failed {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("LOOP-14 one that was ended is", func(t *testing.T) {
		t.Parallel()
		for _, exit := range []sandbox.Exit{{Code: 137}, {Code: 137, Signal: "SIGKILL"}} {
			if r, err := run(exit, nil); err == nil {
				t.Errorf("got %+v", r)
			}
		}
		if r, err := run(sandbox.Exit{}, context.Canceled); err == nil {
			t.Errorf("got %+v", r)
		}
	})
}
