package localstore_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/localstore"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestAcks(t *testing.T) {
	t.Parallel()
	t.Run("PERS-17 PERS-15 what was acknowledged is not received again after a restart, what was not is", func(t *testing.T) {
		t.Parallel()
		cfg := localstore.Config{Path: filepath.Join(t.TempDir(), "acks.bolt"), Station: "exam"}
		s, err := localstore.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []string{"first", "second"} {
			if err := s.Publish(t.Context(), events.TaskSubject("exam"), []byte(b), nil); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = s.Inbox().Listen(ctx, events.Planner, 1, func(ctx context.Context, m kernel.Message) {
			if string(m.Data()) == "first" {
				if err := m.Ack(ctx); err != nil {
					t.Error(err)
				}
				return
			}
			cancel() // and it is not acknowledged
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil { // before what may be lost would be written by itself
			t.Fatal(err)
		}
		if s, err = localstore.Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if n := s.Pending(events.Planner); n != 1 {
			t.Errorf("%d messages are received again, want 1", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("PERS-5 nothing of a branch that has ended is left to do, over a restart as well", func(t *testing.T) {
		t.Parallel()
		w := newFallen(t)
		begin(w)
		w.home.set(true, -1)
		w.say("r", runtest.Paused("lunch"))
		if n, err := w.local.Keys("open"); err != nil || n != 1 {
			t.Fatalf("%d open, %v", n, err)
		}
		if n, err := w.local.Keys("pending"); err != nil || n == 0 {
			t.Fatalf("%d pending, %v", n, err)
		}
		w.home.set(false, -1)
		w.settle()
		w.restart()
		for _, b := range []string{"open", "pending", "report"} {
			if n, err := w.local.Keys(b); err != nil || n != 0 {
				t.Errorf("bucket %s has %d keys, %v", b, n, err)
			}
		}
	})
}
