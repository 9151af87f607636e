package toolrunner

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	wait := func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	for name, c := range map[string]struct {
		change func(*bed, *started)
		err    func(error) bool
		hint   string
	}{
		"a tool that answers": {func(*bed, *started) {}, func(err error) bool { return err == nil }, ""},
		"TOOL-5 one that takes longer than it may is ended": {func(b *bed, st *started) { b.work, st.attempt.Call.TimeoutMS = wait, 1 },
			func(err error) bool { return tool.ClassOf(err) == tool.Timeout }, "took longer"},
		"SAFE-12 one that panics fails alone": {func(b *bed, _ *started) {
			b.work = func(context.Context, tool.Call) (tool.Result, error) { panic("no wheel") }
		},
			func(err error) bool { return tool.ClassOf(err) == tool.Permanent }, "no wheel"},
		"one that this toolrunner does not have": {func(_ *bed, st *started) { st.attempt.Call.Tool = "other" },
			func(err error) bool { return tool.ClassOf(err) == tool.Permanent }, "no tool"},
		"a workspace that cannot be used": {func(_ *bed, st *started) { st.Broken = errors.New("torn") },
			func(err error) bool { return tool.ClassOf(err) == tool.Permanent }, "torn"},
		"SAFE-7 a run that ends meanwhile": {func(b *bed, _ *started) {
			b.work = func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				b.Say(events.Planner, runtest.Failed(b.State(), "stopped", "stopped by anna"))
				b.role.cfg.Ends.Hint(ctx, runID)
				return wait(ctx, tool.Call{})
			}
		}, func(err error) bool { return errors.Is(err, runlog.ErrRunEnded) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, call.Once)
			st := b.started()
			c.change(b, st)
			x := b.role.execute.execute(t.Context(), st)
			if !c.err(x.err) || c.hint != "" && !strings.Contains(x.err.Error(), c.hint) {
				t.Errorf("got %v", x.err)
			}
			if x.err == nil && x.result.Output != "done" || x.attempt.Fence != st.attempt.Fence {
				t.Errorf("got %+v", x)
			}
		})
	}
	t.Run("each attempt of a call has the same key, and each call another", func(t *testing.T) {
		t.Parallel()
		key := []byte("key")
		if keyOf(key, "r", "c") != keyOf(key, "r", "c") || keyOf(key, "r", "c") == keyOf(key, "r", "d") {
			t.Error("the keys do not tell calls apart")
		}
	})
}
