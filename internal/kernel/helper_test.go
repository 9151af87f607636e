package kernel_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

const station = "demo"

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newStation(t fataler) *mem.Station {
	t.Helper()
	s, err := mem.New(station, mem.Config{})
	if err != nil {
		t.Fatalf("new station: %v", err)
	}
	return s
}

var seeds atomic.Uint64 // every ledger its own ids

func newLedger(t fataler, s *mem.Station, by events.Service, change ...func(*runlog.LedgerConfig)) *runlog.Ledger {
	t.Helper()
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], seeds.Add(1))
	cfg := runlog.LedgerConfig{Station: station, By: by, Journal: s.JournalOf(by), Entropy: rand.NewChaCha8(seed)}
	for _, c := range change {
		c(&cfg)
	}
	l, err := runlog.NewLedger(cfg)
	if err != nil {
		t.Fatalf("new ledger: %v", err)
	}
	return l
}

// seed puts the events of a builder into the log as they are.
func seed(t fataler, s *mem.Station, b *runtest.Builder) {
	t.Helper()
	if len(b.Events()) == 0 {
		return
	}
	put(t, s, b.State().HarnessID, b.Events()[len(s.Log(b.State().HarnessID)):]...)
}

// put appends bytes to a run's log, whatever they are, as the kind that they say.
func put(t fataler, s *mem.Station, runID string, evs ...[]byte) {
	t.Helper()
	for _, b := range evs {
		var head uint64
		if log := s.Log(runID); len(log) > 0 {
			head = log[len(log)-1].Seq
		}
		kind := events.RunCreated
		if f, err := events.Decode(b); err == nil {
			kind, _ = f.Kind()
		}
		if ack := s.Journal().Append(context.Background(), kernel.Entry{ID: runID, Kind: kind, Head: head, Bytes: b}); ack.Outcome != kernel.Stored {
			t.Fatalf("put an event into run %s: %s (%v)", runID, ack.Outcome, ack.Err)
		}
	}
}

// folded returns the fold of a run's log and fails where it does not fold.
func folded(t fataler, s *mem.Station, runID string) run.State {
	t.Helper()
	var evs [][]byte
	for _, r := range s.Log(runID) {
		evs = append(evs, r.Bytes)
	}
	state, err := run.Fold(run.State{}, evs...)
	if err != nil {
		t.Fatalf("the log of run %s does not fold: %v", runID, err)
	}
	return state
}

// equalStates compares the states and their documents.
func equalStates(t fataler, got, want run.State) {
	t.Helper()
	g, w := document(t, got), document(t, want)
	if g != w {
		t.Fatalf("the state is not the fold of the log:\n got %s\nwant %s", g, w)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the states have the same document and differ all the same:\n got %#v\nwant %#v", got, want)
	}
}

func document(t fataler, s run.State) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encode state: %v", err)
	}
	return string(b)
}

// openRun is the decision of a planner that opens a run with one step, whatever of it is already said.
func openRun(s run.State, _ time.Time) ([]events.Payload, error) {
	var answer []events.Payload
	if s.Sequence == 0 {
		answer = append(answer, runtest.Created())
	}
	if s.Sequence == 0 || s.Status == events.Created {
		answer = append(answer, runtest.Started())
	}
	if s.Plan == nil {
		answer = append(answer, runtest.Plan(runtest.Step("a"), runtest.Step("b", "a")))
	}
	if a := s.Step("a"); a == nil || a.Status == events.StepIsPending {
		answer = append(answer, runtest.Ready("a"))
	}
	return answer, nil
}

// openKinds is what openRun says of a new run.
var openKinds = []events.Kind{events.RunCreated, events.RunStarted, events.PlanMade, events.StepReady}

// started returns a builder of a run with one allowed call per id c1-1, c1-2 ... in step a.
func started(runID string, calls int) *runtest.Builder {
	b := runtest.New(station, runID)
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a"), runtest.Step("b", "a")), runtest.Ready("a"), runtest.Allowed("a"))
	var asked []events.RequestedCall
	for i := range calls {
		asked = append(asked, runtest.Asked(1, i+1, "bash", `{}`))
	}
	b.Append(runtest.Turn(1, "a", "go", asked...))
	for _, c := range asked {
		b.Append(runtest.CallYes(runtest.Ref("a", c.ID, "bash"), "once"))
	}
	return b
}

// begin is the decision of a toolrunner that wants to carry out a call.
func begin(call string) runlog.Decide {
	return func(s run.State, _ time.Time) ([]events.Payload, error) {
		if c := s.Open[call]; c == nil || c.Phase != run.CallAllowed {
			return nil, nil
		}
		return []events.Payload{runtest.CallBegun(runtest.Ref("a", call, "bash"), 1)}, nil
	}
}

func nothing(run.State, time.Time) ([]events.Payload, error) { return nil, nil }

// script gives the faults of the first appends; all later ones are sound.
func script(faults ...mem.Fault) mem.Faults {
	return mem.Faults{Append: func(n uint64, _ kernel.Entry) mem.Fault {
		if n <= uint64(len(faults)) {
			return faults[n-1]
		}
		return mem.None
	}}
}

// spy is a journal with a hand in it.
type spy struct {
	kernel.Journal
	append func(ctx context.Context, e kernel.Entry) kernel.Ack
	// whole counts the reads from the beginning.
	whole atomic.Int64
}

func (s *spy) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if s.append != nil {
		return s.append(ctx, e)
	}
	return s.Journal.Append(ctx, e)
}

func (s *spy) Read(ctx context.Context, runID string, after uint64) ([]kernel.Record, bool, error) {
	if after == 0 {
		s.whole.Add(1)
	}
	return s.Journal.Read(ctx, runID, after)
}

func kindsOf(w runlog.Written) []events.Kind {
	var kinds []events.Kind
	for _, f := range w.Events {
		kinds = append(kinds, f.Payload.Kind())
	}
	return kinds
}

var _ fataler = (*testing.T)(nil)
