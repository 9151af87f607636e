package kernel_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// copyAll copies events under their authors and returns the first error.
func copyAll(t *testing.T, s *mem.Station, runID string, evs [][]byte, whole uint64) error {
	t.Helper()
	ledgers := map[events.Service]*runlog.Ledger{}
	for _, by := range events.Services() {
		ledgers[by] = newLedger(t, s, by)
	}
	for _, b := range evs {
		f, err := events.Decode(b)
		if err != nil {
			return err
		}
		if err := ledgers[f.Author()].Copy(t.Context(), runID, b, whole); err != nil {
			return err
		}
	}
	return nil
}

func TestCopy(t *testing.T) {
	t.Parallel()
	b := started("r", 2)
	n := uint64(len(b.Events()))
	t.Run("EVT-9 a copied run has the same bytes, and copying it again, or from the middle, changes nothing", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		for _, part := range [][][]byte{b.Events()[:3], b.Events(), b.Events(), b.Events()[2:5]} {
			if err := copyAll(t, s, "r", part, n); err != nil {
				t.Fatal(err)
			}
		}
		log := s.Log("r")
		if len(log) != len(b.Events()) {
			t.Fatalf("%d events, want %d", len(log), len(b.Events()))
		}
		for i, r := range log {
			if string(r.Bytes) != string(b.Events()[i]) {
				t.Errorf("event %d has other bytes", i+1)
			}
		}
	})
	t.Run("EVT-9 an event that a reader does not show yet is looked for again: the copy is the same, and no other", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		seed(t, s, b)
		l := newLedger(t, s, events.Planner)
		mustState(t, l, "r")
		for i, e := range b.Events()[:2] {
			s.SetFaults(mem.Faults{Read: func(asked uint64, _ string) (int, error) { return max(0, len(b.Events())+4-int(asked)), nil }})
			if err := l.Copy(t.Context(), "r", e, n); err != nil {
				t.Errorf("event %d: %v", i+1, err)
			}
		}
	})
	t.Run("EVT-9 an event that no reader shows is neither the same nor another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStation(t)
			seed(t, s, b)
			l := newLedger(t, s, events.Planner)
			mustState(t, l, "r")
			s.SetFaults(mem.Faults{Read: func(uint64, string) (int, error) { return len(b.Events()), nil }})
			if err := l.Copy(t.Context(), "r", b.Events()[1], n); err == nil || errors.Is(err, kernel.ErrDiverged) {
				t.Errorf("got %v, want an error that says nothing of other events", err)
			}
		})
	})
	t.Run("EVT-9 a run that went another way is not written over", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		other := runtest.New(station, "r")
		other.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("z")), runtest.Ready("z"))
		seed(t, s, other)
		before := len(s.Log("r"))
		if err := copyAll(t, s, "r", b.Events(), n); !errors.Is(err, kernel.ErrDiverged) {
			t.Errorf("got %v, want ErrDiverged", err)
		}
		if len(s.Log("r")) != before {
			t.Error("something was written")
		}
	})
	t.Run("SAFE-2ac SAFE-6 a gap, another run's event and another service's event are not copied", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner)
		if err := l.Copy(t.Context(), "r", b.Events()[1], n); err == nil {
			t.Error("the second event was copied before the first")
		}
		if err := l.Copy(t.Context(), "q", b.Events()[0], n); err == nil {
			t.Error("an event of r was copied to q")
		}
		if err := newLedger(t, s, events.Executor).Copy(t.Context(), "r", b.Events()[0], n); !errors.Is(err, kernel.ErrDenied) {
			t.Errorf("the executor copied an event of the planner: %v", err)
		}
		if got := len(s.Log("r")) + len(s.Log("q")); got != 0 {
			t.Errorf("%d events were written", got)
		}
	})
}

func TestForgedKind(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-6 SAFE-2 an event stored on the subject of another kind holds the run: a role cannot say another's event", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := runtest.New(station, "r")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"))
		seed(t, s, b)
		l := newLedger(t, s, events.Executor)
		mustState(t, l, "r")
		head := s.Log("r")[3].Seq
		// The executor may store step.finished, and claims with it that the gatekeeper permitted the step.
		forged := b.Bad(runtest.Allowed("a"), func(*events.Event) {})
		ack := s.JournalOf(events.Executor).Append(t.Context(), kernel.Entry{ID: "r", Kind: events.StepFinished, Head: head, Bytes: forged})
		if ack.Outcome != kernel.Stored {
			t.Fatalf("%s %v", ack.Outcome, ack.Err)
		}
		for who, l := range map[string]*runlog.Ledger{"one that knew the run": l, "a fresh one": newLedger(t, s, events.Toolrunner)} {
			if st, _, err := l.State(t.Context(), "r"); !errors.Is(err, kernel.ErrHeld) {
				t.Errorf("%s: got step %+v, %v; want ErrHeld", who, st.Step("a"), err)
			}
		}
	})
}

// counted is an executor that tells of each event it hears.
type counted struct{ seen chan runlog.ReceivedEvent }

func (counted) Service() events.Service                                      { return events.Executor }
func (counted) Due(context.Context, string, string, string, run.State) error { return nil }
func (counted) Input(context.Context, kernel.Message) error                  { return nil }
func (c counted) Event(_ context.Context, h runlog.ReceivedEvent) error      { c.seen <- h; return nil }

func TestHearCopies(t *testing.T) {
	t.Parallel()
	t.Run("EVT-9 no one acts on a copied event before its run is whole, and then with all that came after it", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 1)
		n := uint64(len(b.Events()))
		c := counted{seen: make(chan runlog.ReceivedEvent, 64)} // more than the run has events
		loop, err := kernel.NewLoop(kernel.LoopConfig{Handlers: []kernel.Handler{runlog.Handle(newLedger(t, s, events.Executor), c)}, Inbox: s.Inbox(), Refusals: s.Refusals(), Workers: 4})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- loop.Run(ctx) }()
		if err := copyAll(t, s, "r", b.Events()[:n-1], n); err != nil {
			t.Fatal(err)
		}
		select {
		case h := <-c.seen:
			t.Fatalf("%s was heard although the run is not whole", h.Kind)
		case <-time.After(300 * time.Millisecond): // it was delivered at once, and handed back
		}
		if err := copyAll(t, s, "r", b.Events()[n-1:], n); err != nil {
			t.Fatal(err)
		}
		for received := events.Kind(""); received != events.StepAllowed; { // run.created is heard, too, in any order
			select {
			case h := <-c.seen:
				if received = h.Kind; h.State.Sequence < n || h.State.Step("a").Owed != 0 {
					t.Errorf("heard %s with a state at %d of %d", h.Kind, h.State.Sequence, n)
				}
			case <-time.After(5 * time.Minute):
				t.Fatal("it was never heard")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
