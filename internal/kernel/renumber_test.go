package kernel_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/pkg/events"
)

// beyond is what a renumbering journal adds to positions for as long as it does.
const beyond = 1 << 40

// renumbering is a journal with other positions than those of the log, until it takes them for those of the log.
type renumbering struct {
	kernel.Journal
	home atomic.Bool
}

func (r *renumbering) given(seq uint64) uint64 {
	if r.home.Load() {
		return seq
	}
	return seq + beyond
}

func inLog(given uint64) uint64 {
	if given >= beyond {
		return given - beyond
	}
	return given
}

func (r *renumbering) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	e.Head = inLog(e.Head)
	ack := r.Journal.Append(ctx, e)
	ack.Seq = r.given(ack.Seq)
	return ack
}

func (r *renumbering) Read(ctx context.Context, id string, after uint64) ([]kernel.Record, bool, error) {
	stored, more, err := r.Journal.Read(ctx, id, inLog(after))
	for i := range stored {
		stored[i].Seq = r.given(stored[i].Seq)
	}
	return stored, more, err
}

func (r *renumbering) Last(ctx context.Context, id string) (kernel.Record, bool, error) {
	last, ok, err := r.Journal.Last(ctx, id)
	last.Seq = r.given(last.Seq)
	return last, ok, err
}

// Position implements kernel.Renumberer.
func (r *renumbering) Position(_ context.Context, _ string, given uint64) (uint64, bool, error) {
	if r.home.Load() {
		return inLog(given), true, nil
	}
	return given, true, nil
}

func TestRenumbered(t *testing.T) {
	t.Parallel()
	t.Run("PERS-5 SAFE-4 what is cached at positions that became others is compared with the log by the new ones", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		j := &renumbering{Journal: s.JournalFor(kerneltest.CounterAggregate)}
		l, err := kernel.NewLedger(kernel.LedgerConfig[kerneltest.Counter]{Aggregate: kerneltest.Counters(), Station: station, By: events.Planner, Journal: j, Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		add := func(l *kernel.Ledger[kerneltest.Counter], n int) kernel.Written[kerneltest.Counter] {
			t.Helper()
			w, err := l.Write(t.Context(), "c", func(kerneltest.Counter, time.Time) ([]events.Payload, error) {
				return []events.Payload{&kerneltest.Added{By: n}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		add(l, 1)
		if w := add(l, 2); w.Head != beyond+2 {
			t.Fatalf("the head is %d: the test proves nothing", w.Head)
		}
		j.home.Store(true)
		add(counters(t, s), 4) // another writer, which knows the positions of the log alone
		if w := add(l, 8); w.State.Sum != 15 || w.Head != 4 || l.Stats().Conflicts != 1 {
			t.Errorf("got the sum %d at %d after %d conflicts, want 15 at 4 after 1", w.State.Sum, w.Head, l.Stats().Conflicts)
		}
		late := s.Log(kernel.Key(kerneltest.CounterAggregate, "c"))[1]
		late.Seq += beyond
		if got, err := l.Receive(t.Context(), "c", late); err != nil || got.Sum != 15 {
			t.Errorf("received late, by its old position: got %+v, %v", got, err)
		}
		add(counters(t, s), 16)
		if got, err := l.Fresh(t.Context(), "c"); err != nil || got.Sum != 31 {
			t.Errorf("fresh: got %+v, %v", got, err)
		}
	})
}
