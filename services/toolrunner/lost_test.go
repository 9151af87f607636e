package toolrunner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/sandbox"
)

// Verify implements tool.Verifier: no attempt that was lost took effect.
func (b *bed) Verify(context.Context, tool.Call) (bool, tool.Result, error) {
	return false, tool.Result{}, nil
}

func TestLostAgain(t *testing.T) {
	t.Parallel()
	ref := runtest.Ref("a", callID, "bash")
	t.Run("PLUS-12c TOOL-4 a call whose toolrunner was lost twice waits before it is begun again", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Reconcilable)
		b.work = func(context.Context, tool.Call) (tool.Result, error) {
			t.Error("it was begun at once")
			return tool.Result{}, nil
		}
		b.Say(events.Toolrunner, runtest.CallBegun(ref, 1), runtest.CallBegun(ref, 2))
		if err := b.role.serve(t.Context(), runID, callID, b.State(), 1); err != nil {
			t.Fatal(err)
		}
		c := b.State().Open[callID]
		if c == nil || c.Phase != run.CallDeferred || c.Attempt != 2 || !c.NotBefore.After(time.Now()) {
			t.Errorf("%+v", c)
		}
	})
	t.Run("PLUS-12c TOOL-4 one that was lost in its last attempt is given up with the reason", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Reconcilable)
		for n := 1; n <= 1+call.DefaultMaxRetries; n++ {
			b.Say(events.Toolrunner, runtest.CallBegun(ref, n))
		}
		if err := b.role.serve(t.Context(), runID, callID, b.State(), 1); err != nil {
			t.Fatal(err)
		}
		s := b.State()
		if len(s.Open) != 0 || s.ToolCallHistory.Len() != 1 {
			t.Fatalf("%+v", s.Open)
		}
		if r := s.ToolCallHistory.At(0); r.Code != "transient" || !strings.Contains(r.Result, "gave up after 4 attempts: the toolrunner ") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-7 a duty that was found in an old state is not done: the call is looked at again", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Idempotent)
		b.work = func(context.Context, tool.Call) (tool.Result, error) {
			t.Error("it was begun")
			return tool.Result{}, nil
		}
		old := b.State()
		b.Say(events.Toolrunner, runtest.CallBegun(ref, 1))
		if err := b.Station.Leases().Renew(t.Context(), "runner-a"); err != nil {
			t.Fatal(err)
		}
		err := b.role.serve(t.Context(), runID, callID, old, 1)
		if _, again := errors.AsType[*kernel.RetryAfter](err); !again {
			t.Errorf("got %v: the message is acknowledged, and no one comes to the call when the other is lost", err)
		}
	})
	t.Run("SAFE-7 ART-10 a call that another took over when only its artifacts were stored is still owed", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Idempotent)
		b.capture()
		b.work = func(_ context.Context, c tool.Call) (tool.Result, error) {
			_, err := c.Env.Sandbox.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo made > made.md"}})
			return tool.Result{Output: "done"}, err
		}
		if err := b.Station.Leases().Renew(t.Context(), "runner-a"); err != nil {
			t.Fatal(err)
		}
		b.before(events.CallFinished, func() { b.Say(events.Toolrunner, runtest.CallBegun(ref, 2)) })
		err := b.role.serve(t.Context(), runID, callID, b.State(), 1)
		if _, again := errors.AsType[*kernel.RetryAfter](err); !again {
			t.Errorf("got %v: the message is acknowledged, and no one comes to the call when the other is lost", err)
		}
		s := b.State()
		if c := s.Open[callID]; c == nil || c.Runner != "runner-a" || s.Artifacts.Len() != 1 {
			t.Errorf("%+v, %d artifacts", c, s.Artifacts.Len())
		}
	})
	t.Run("PLUS-12c the first loss is followed by an attempt at once", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Reconcilable)
		b.Say(events.Toolrunner, runtest.CallBegun(ref, 1))
		if err := b.role.serve(t.Context(), runID, callID, b.State(), 1); err != nil {
			t.Fatal(err)
		}
		if r := b.State().ToolCallHistory.At(0); r.Result != "done" || r.RetryCount != 1 {
			t.Errorf("%+v", r)
		}
	})
}
