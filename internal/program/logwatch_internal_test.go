package program

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// told is a log that says of itself what it is given, the last for ever.
type told struct{ states []jet.LogState }

func (*told) Name() string { return "s" }

func (f *told) Log(context.Context) (jet.LogState, error) {
	now := f.states[0]
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return now, nil
}

func TestLogWatch(t *testing.T) {
	t.Parallel()
	made := time.Unix(1, 0).UTC()
	whole := func(last uint64) jet.LogState {
		return jet.LogState{Messages: last, First: 1, Last: last, Created: made}
	}
	watcher := func(t *testing.T) (*logWatch, *told) {
		t.Helper()
		st, err := mem.New("s", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f := &told{}
		return &logWatch{role: events.Persister, log: zerolog.Nop(), st: f, state: st.KV(topology.StateBucket), config: st.KV(topology.ConfigBucket)}, f
	}
	look := func(t *testing.T, w *logWatch, f *told, states ...jet.LogState) error {
		t.Helper()
		f.states = states
		if err := w.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.Fault()
	}
	t.Run("SAFE-2 a log that ends before its mark, begins later, or has an empty position is damaged until that is accepted", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			for _, now := range []jet.LogState{whole(100), {Messages: 361, First: 2, Last: 362, Created: made}, {Messages: 360, First: 1, Last: 361, Deleted: 1, Created: made}} {
				w, f := watcher(t)
				if err := look(t, w, f, whole(361)); err != nil {
					t.Fatal(err)
				}
				err := look(t, w, f, now)
				if err == nil || !strings.Contains(err.Error(), "LOG_s") {
					t.Fatalf("%+v: %v", now, err)
				}
				if err := w.accept(t.Context(), "0123456789ab"); !errors.Is(err, ErrNoLoss) {
					t.Errorf("another loss was accepted: %v", err)
				}
				_, id, _ := strings.Cut(err.Error(), "loss ")
				if err := w.accept(t.Context(), id[:12]); err != nil {
					t.Fatal(err)
				}
				if err := look(t, w, f, now); err != nil {
					t.Errorf("accepted, and reported again: %v", err)
				}
			}
		})
	})
	t.Run("SAFE-2 a leader that is behind for a moment, a log made anew and one that has no mark yet are no alarm", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, f := watcher(t)
			if err := look(t, w, f, whole(7)); err != nil {
				t.Error("without a mark:", err)
			}
			if err := look(t, w, f, whole(5), whole(6), whole(7)); err != nil {
				t.Error("behind:", err)
			}
			anew := whole(3)
			anew.Created = made.Add(time.Hour)
			if err := look(t, w, f, anew); err != nil {
				t.Error("made anew:", err)
			}
			if err := look(t, w, f, anew); err != nil {
				t.Error("made anew, and marked:", err)
			}
		})
	})
}
