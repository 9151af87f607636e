package toolrunner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/capture"
	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

func TestFinish(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 the end of an attempt is stored once, and only under its fence", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		c := b.role.capture.capture(t.Context(), b.role.execute.execute(t.Context(), b.started()))
		stale := c
		old := *c.started
		old.attempt.Fence--
		stale.executed.started = &old
		stale.end = b.role.capture.capture(t.Context(), stale.executed).end
		if w, err := b.role.finish.finish(t.Context(), stale); err != nil || len(w.Events) != 0 {
			t.Errorf("an old fence: stored %d, %v", len(w.Events), err)
		}
		for _, want := range []int{1, 0} {
			w, err := b.role.finish.finish(t.Context(), c)
			if _, said := w.Wrote(events.CallFinished); err != nil || len(w.Events) != want || said != (want > 0) {
				t.Errorf("stored %d, %v, want %d", len(w.Events), err, want)
			}
		}
		if b.State().Open[callID] != nil {
			t.Error("the call is still open")
		}
	})
	t.Run("a failed attempt that is made again has a timer", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Idempotent)
		set := timerNames{}
		f := b.role.finish
		f.timers = set
		x := executed{started: b.started(), changes: &capture.Changes{}, err: tool.Fail(tool.Transient, "", errors.New("connection reset"))}
		if _, err := f.finish(t.Context(), b.role.capture.capture(t.Context(), x)); err != nil {
			t.Fatal(err)
		}
		if c := b.State().Open[callID]; c == nil || c.Phase != run.CallDeferred {
			t.Fatalf("got %+v, want it deferred", c)
		}
		if at := set["call."+callID]; len(set) != 1 || !at.Equal(b.State().Open[callID].NotBefore) {
			t.Errorf("timers %v", set)
		}
	})
}

// timerNames are the timers that were set, by name.
type timerNames map[string]time.Time

// Set implements kernel.Timers.
func (n timerNames) Set(_ context.Context, _, name string, at time.Time, _ uint64) error {
	n[name] = at
	return nil
}
