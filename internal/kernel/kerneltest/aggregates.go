package kerneltest

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// aggregatesApart examines the logs of two aggregates beside each other, and the ledger of one that is no run.
func aggregatesApart(t *testing.T, of Journals) {
	t.Helper()
	for _, part := range []struct {
		name string
		exam func(*testing.T, Journals)
	}{
		{"EVT-1 SAFE-4 two aggregates with the same id do not see each other's events", sameIDUnseen},
		{"SAFE-4 DEPL-2 two aggregates with the same id do not guard each other", sameIDUnguarded},
		{"SAFE-6 an event of another aggregate is denied, and nothing is stored", otherDenied},
		{"DEPL-2 SAFE-4 writers of one aggregate that is no run lose nothing and store nothing twice", countsTogether},
		{"SAFE-6 SAFE-2 only the author of an event type appends it, and the fold has the last word", countsByAuthor},
		{"EVT-9 EVT-11 its log is read, copied and shown as it was, as that of a run", countsAgain},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, of)
		})
	}
}

// counter makes a ledger of counters as a service has it.
func counter(t *testing.T, j kernel.Journal, by events.Service) *kernel.Ledger[Counter] {
	t.Helper()
	l, err := kernel.NewLedger(kernel.LedgerConfig[Counter]{Aggregate: Counters(), Station: "exam", By: by, Journal: j,
		Entropy: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// add is a decision to add a number whatever the sum is.
func add(n int) kernel.Decide[Counter] {
	return func(Counter, time.Time) ([]events.Payload, error) { return []events.Payload{&Added{By: n}}, nil }
}

// closing is a decision to close a counter that is open.
func closing(c Counter, _ time.Time) ([]events.Payload, error) {
	if c.Closed {
		return nil, nil
	}
	return []events.Payload{&Closed{Sum: c.Sum}}, nil
}

func sameIDUnseen(t *testing.T, of Journals) {
	runs, counters := of(events.RunAggregate), of(CounterAggregate)
	id := unique("both")
	evs := fill(t, runs, id, 3)
	l := counter(t, counters, events.Planner)
	for n := range 4 {
		if _, err := l.Write(within(t), id, add(n)); err != nil {
			t.Fatal(err)
		}
	}
	more := fill(t, of(CounterAggregate), unique("other"), 1)
	got, _ := readAll(t, runs, id, 0, len(evs))
	same(t, got, evs)
	last, ok, err := runs.Last(within(t), id)
	if err != nil || !ok {
		t.Fatalf("last event of the run: %v, %v", ok, err)
	}
	same(t, []kernel.Record{last}, evs[2:])
	counted, _ := readAll(t, counters, id, 0, 4)
	if len(counted) != 4 {
		t.Fatalf("got %d events of the counter, want 4", len(counted))
	}
	last, ok, err = counters.Last(within(t), id)
	if err != nil || !ok {
		t.Fatalf("last event of the counter: %v, %v", ok, err)
	}
	same(t, []kernel.Record{last}, counted[3:])
	for _, a := range counted {
		if a.Kind != CountAdded {
			t.Errorf("an event of the counter is read as %q", a.Kind)
		}
		for _, b := range append(evs, more...) {
			if a.Seq == b.Seq {
				t.Errorf("position %d is that of two events", a.Seq)
			}
		}
	}
	if s, _, err := l.State(within(t), id); err != nil || s.Sum != 6 || s.Sequence != 4 {
		t.Errorf("got %+v, %v; want the sum 6 of 4 events", s, err)
	}
}

func sameIDUnguarded(t *testing.T, of Journals) {
	runs, counters := of(events.RunAggregate), of(CounterAggregate)
	id := unique("both")
	first := fill(t, counters, id, 2)
	c := &chain{run: id}
	// behind events of the counter
	head := mustStore(t, runs, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: c.next(t, events.RunCreated, 10)})
	third := (&chain{run: id, n: 2}).next(t, kinds[2], 10)
	mustStore(t, counters, kernel.Entry{ID: id, Kind: kinds[2], Head: first[1].Seq, Bytes: third}) // behind one of the run
	mustStore(t, runs, kernel.Entry{ID: id, Kind: events.RunStarted, Head: head, Bytes: c.next(t, events.RunStarted, 10)})
	for name, j := range map[string]kernel.Journal{"run": runs, "counter": counters} {
		for _, wrong := range []uint64{0, head, first[1].Seq} {
			if ack := settled(t, j, kernel.Entry{ID: id, Kind: kinds[1], Head: wrong,
				Bytes: third}); ack.Outcome != kernel.Conflict {
				t.Errorf("append to the %s at head %d: got %s (%v), want conflict", name, wrong, ack.Outcome, ack.Err)
			}
		}
	}
}

func otherDenied(t *testing.T, of Journals) {
	id := unique("both")
	b := (&chain{run: id}).next(t, events.RunCreated, 10)
	for own, other := range map[string]string{events.RunAggregate: CounterAggregate,
		CounterAggregate: events.RunAggregate} {
		ack := of(own).Append(within(t), kernel.Entry{Aggregate: other, ID: id, Kind: events.RunCreated, Bytes: b})
		if ack.Outcome != kernel.Denied {
			t.Errorf("an event of %s in the log of %s: got %s (%v), want denied", other, own, ack.Outcome, ack.Err)
		}
		for _, name := range []string{own, other} {
			if _, ok, err := of(name).Last(within(t), id); ok || err != nil {
				t.Errorf("%s has an event now (%v), want none", name, err)
			}
		}
	}
}

func countsTogether(t *testing.T, of Journals) {
	const writers, each = 6, 8
	id, ctx := unique("sum"), within(t)
	faults := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		l := counter(t, of(CounterAggregate), events.Planner)
		wg.Go(func() {
			for range each {
				if _, err := l.Write(ctx, id, add(w+1)); err != nil {
					faults[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	got, err := counter(t, of(CounterAggregate), events.Persister).Fresh(ctx, id)
	if err != nil || got.Sequence != writers*each || got.Sum != each*writers*(writers+1)/2 {
		t.Errorf("got %+v, %v; want %d events with the sum %d", got, err, writers*each, each*writers*(writers+1)/2)
	}
}

func countsByAuthor(t *testing.T, of Journals) {
	id, j := unique("sum"), of(CounterAggregate)
	planner, gatekeeper := counter(t, j, events.Planner), counter(t, j, events.Gatekeeper)
	if _, err := planner.Write(within(t), id, add(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := planner.Write(within(t), id, closing); !errors.Is(err, kernel.ErrDenied) {
		t.Errorf("closed by a planner: got %v, want ErrDenied", err)
	}
	wrong := func(Counter, time.Time) ([]events.Payload, error) { return []events.Payload{&Closed{Sum: 3}}, nil }
	if _, err := gatekeeper.Write(within(t), id, wrong); err == nil {
		t.Error("closed at a sum that it does not have: got no error")
	}
	w, err := gatekeeper.Write(within(t), id, closing)
	if said, ok := w.Wrote(CountClosed); err != nil || !ok || said.Sequence != 2 || !w.State.Closed {
		t.Errorf("closed: got %+v, %v", w, err)
	}
	if w, err := gatekeeper.Write(within(t), id, closing); err != nil || len(w.Events) != 0 {
		t.Errorf("a second look: got %d events, %v; want none", len(w.Events), err)
	}
	if _, err := planner.Fresh(within(t), id); err != nil {
		t.Error(err)
	}
	if _, err := planner.Write(within(t), id, add(1)); err == nil {
		t.Error("added to a closed counter: got no error")
	}
	if _, err := planner.Write(within(t), id+"x", func(Counter, time.Time) ([]events.Payload, error) {
		return []events.Payload{&large{Pad: strings.Repeat("x", Counters().MaxEvent)}}, nil
	}); !errors.Is(err, kernel.ErrTooLarge) {
		t.Errorf("above the limit of the aggregate: got %v, want ErrTooLarge", err)
	}
}

// large is an Added that is larger than a counter takes.
type large struct {
	Pad string `json:"pad"`
}

func (*large) Kind() events.Kind { return CountAdded }

func countsAgain(t *testing.T, of Journals) {
	id, twin, j := unique("sum"), unique("sum"), of(CounterAggregate)
	l := counter(t, j, events.Planner)
	for n := range 3 {
		if _, err := l.Write(within(t), id, add(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	stored, _ := readAll(t, j, id, 0, 3)
	fresh := counter(t, j, events.Executor)
	for n, r := range stored {
		if s, err := fresh.Receive(within(t), id, r); err != nil || s.Sequence < uint64(n)+1 {
			t.Errorf("received event %d: got %+v, %v", n+1, s, err)
		}
		eventually(t, patience, func() bool { // a replica may not have it yet
			s, err := fresh.At(within(t), id, uint64(n)+1)
			return err == nil && s.Sum == (n+1)*(n+2)/2
		}, "the counter at event %d has the sum %d", n+1, (n+1)*(n+2)/2)
	}
	if err := counter(t, j, events.Planner).Copy(within(t), twin, stored[0].Bytes, 3); err == nil {
		t.Error("an event was copied to another counter")
	}
	if err := l.Copy(within(t), id, stored[1].Bytes, 3); err != nil {
		t.Errorf("a copy of what is there: %v", err)
	}
	if _, err := fresh.At(within(t), id, 4); !errors.Is(err, kernel.ErrNoEvent) {
		t.Errorf("at an event that is not there: got %v, want ErrNoFact", err)
	}
}
