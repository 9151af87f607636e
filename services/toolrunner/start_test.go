package toolrunner

import (
	"testing"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/pkg/run"
)

func TestStart(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 of two deliveries of a call one may carry it out, with the fence of its call.started", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Once)
		first, second := b.acquired(), b.acquired()
		st, w, err := b.role.start.start(t.Context(), first)
		if err != nil || st == nil || len(w.Events) != 0 && w.State.Open == nil {
			t.Fatalf("got %+v, %v", st, err)
		}
		if c := b.State().Open[callID]; c.Phase != run.CallStarted || c.Fence != st.attempt.Fence || c.Runner != b.role.cfg.Instance || c.Fence == 0 {
			t.Errorf("stored %+v, fence %d", c, st.attempt.Fence)
		}
		if st, w, err := b.role.start.start(t.Context(), second); err != nil || st != nil || len(w.Events) != 0 || w.State.Open[callID].Phase != run.CallStarted {
			t.Errorf("the second: got %+v, %d events, %v", st, len(w.Events), err)
		}
	})
	t.Run("a tool of class read is not announced", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, call.Read)
		st, _, err := b.role.start.start(t.Context(), b.acquired())
		if err != nil || st == nil || st.attempt.Number != 1 {
			t.Fatalf("got %+v, %v", st, err)
		}
		if c := b.State().Open[callID]; c.Phase != run.CallAllowed {
			t.Errorf("stored %+v", c)
		}
	})
}
