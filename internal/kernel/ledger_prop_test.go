package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// world is a station with several instances of each service, each with its own ledger.
type world struct {
	*rapid.T
	s       *mem.Station
	ledgers []*runlog.Ledger
	by      []events.Service
	runs    []string
	// reported holds the positions of all events that some Write reported as its own.
	reported map[uint64]bool
}

func newWorld(t *rapid.T) *world {
	w := &world{T: t, s: newStation(t), runs: []string{"r1", "r2"}, reported: map[uint64]bool{}}
	shared := runlog.NewPages(2)
	share := rapid.Bool().Draw(t, "instances of one process share pages")
	for i := range 2 {
		for _, by := range events.Services() {
			w.by = append(w.by, by)
			w.ledgers = append(w.ledgers, newLedger(t, w.s, by, func(c *runlog.LedgerConfig) {
				c.Cache = 1 + i
				if share && i == 0 {
					c.Pages = shared
				}
			}))
		}
	}
	appends := rapid.SliceOfN(rapid.SampledFrom([]mem.Fault{mem.None, mem.None, mem.None, mem.LostAck, mem.LostRequest,
		mem.LateRequest, mem.Busy, mem.LowConflict, mem.NoSpace}), 1, 40).Draw(t, "appends")
	behind := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 1, 2, 5}), 1, 20).Draw(t, "behind")
	leader := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 0, 1, -1}), 1, 10).Draw(t, "leader")
	w.s.SetFaults(mem.Faults{
		Append: func(n uint64, _ kernel.Entry) mem.Fault { return cycle(appends, n, mem.None) },
		Read:   func(n uint64, _ string) (int, error) { return cycle(behind, n, 0), nil },
		Last: func(n uint64, _ string) (int, error) {
			if b := cycle(leader, n, 0); b >= 0 {
				return b, nil
			}
			return 0, errors.New("no leader")
		},
	})
	return w
}

// cycle repeats a script with one sound call in between, so that no fault lasts for ever.
func cycle[V any](script []V, n uint64, sound V) V {
	if i := n % uint64(len(script)+1); i > 0 {
		return script[i-1]
	}
	return sound
}

func (w *world) anybody() (*runlog.Ledger, events.Service) {
	i := rapid.IntRange(0, len(w.ledgers)-1).Draw(w.T, "ledger")
	return w.ledgers[i], w.by[i]
}

func (w *world) anyRun() string { return rapid.SampledFrom(w.runs).Draw(w.T, "run") }

// write lets a service say one of the things that it may say next, and sometimes two.
func (w *world) write(*rapid.T) {
	l, by := w.anybody()
	id, pick, evs := w.anyRun(), rapid.IntRange(0, 1000).Draw(w.T, "pick"), rapid.IntRange(1, 2).Draw(w.T, "facts")
	ctx := context.Background()
	if rapid.IntRange(0, 9).Draw(w.T, "crash") == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
	}
	got, err := l.Write(ctx, id, func(s run.State, _ time.Time) ([]events.Payload, error) {
		var answer []events.Payload
		moves := runtest.Answer(s, by)
		if len(moves) > 0 {
			answer = append(answer, moves[pick%len(moves)])
		}
		if evs == 2 && len(answer) == 1 {
			if s.Sequence == 0 {
				if c := answer[0].(*events.RunCreatedData); c.ForkOf == nil && !c.Direct {
					answer = append(answer, runtest.Started())
				}
			} else if by == events.Persister && !s.Status.Ended() {
				answer = append(answer, runtest.Checkpoint(s))
			}
		}
		return answer, nil
	})
	switch {
	case err == nil, errors.Is(err, kernel.ErrFull), errors.Is(err, kernel.ErrUnsettled), errors.Is(err, context.DeadlineExceeded):
	default:
		w.Fatalf("write by %s to %s: %v", by, id, err)
	}
	for _, f := range got.Events {
		if w.reported[f.Seq] {
			w.Fatalf("law 3: the event at %d was reported by two writes", f.Seq)
		}
		w.reported[f.Seq] = true
		log := w.s.Log(id)
		i := slices.IndexFunc(log, func(r kernel.Record) bool { return r.Seq == f.Seq })
		if i < 0 || uint64(i+1) != f.Sequence {
			w.Fatalf("EVT-11: event %d of %s was reported at position %d, where the log has none such", f.Sequence, id, f.Seq)
		}
	}
	if err == nil && got.Head > 0 {
		w.prefix(id, got.State, got.Head)
	}
}

// prefix checks that a state is the fold of the log up to a position.
func (w *world) prefix(id string, s run.State, head uint64) {
	var evs [][]byte
	for _, r := range w.s.Log(id) {
		if r.Seq <= head {
			evs = append(evs, r.Bytes)
		}
	}
	want, err := run.Fold(run.State{}, evs...)
	if err != nil {
		w.Fatalf("the log of %s does not fold: %v", id, err)
	}
	equalStates(w, s, want)
}

// hear delivers any stored event to any instance: late, twice, out of order.
func (w *world) receive(t *rapid.T) {
	id := w.anyRun()
	log := w.s.Log(id)
	if len(log) == 0 {
		t.Skip("nothing to hear")
	}
	l, by := w.anybody()
	r := rapid.SampledFrom(log).Draw(w.T, "fact")
	s, err := l.Receive(context.Background(), id, r)
	if err != nil {
		w.Fatalf("hear by %s of %d of %s: %v", by, r.Seq, id, err)
	}
	if f, _ := events.Decode(r.Bytes); s.Sequence < f.Sequence {
		w.Fatalf("after hearing event %d the state is at %d", f.Sequence, s.Sequence)
	}
	w.prefix(id, s, w.s.Log(id)[s.Sequence-1].Seq)
}

func (w *world) look(*rapid.T) {
	l, _ := w.anybody()
	id := w.anyRun()
	s, head, err := l.State(context.Background(), id)
	if err != nil {
		w.Fatalf("state of %s: %v", id, err)
	}
	if head > 0 {
		w.prefix(id, s, head)
	}
}

// check holds after every step: each log is gapless and chained.
func (w *world) check(*rapid.T) {
	for _, id := range w.runs {
		folded(w, w.s, id)
		for i, r := range w.s.Log(id) {
			if f, err := events.Decode(r.Bytes); err != nil || f.Sequence != uint64(i+1) || f.Run != id {
				w.Fatalf("event %d of %s has sequence %d and run %s, %v", i+1, id, f.Sequence, f.Run, err)
			}
		}
	}
}

func TestLedgerProperties(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 EVT-1 EVT-11 EVT-15 DEPL-2 any ledgers, any order, any faults: the log is gapless and folds", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			w := newWorld(t)
			t.Repeat(map[string]func(*rapid.T){
				"": w.check, "write": w.write, "write again": w.write, "write once more": w.write, "hear": w.receive, "look": w.look,
				"land": func(*rapid.T) { w.s.Land() },
			})
			for _, id := range w.runs {
				splits(t, w.s.Log(id))
			}
		})
	})
}

// splits checks fold(a+b) == fold(fold(a), b) at every place.
func splits(t *rapid.T, log []kernel.Record) {
	evs := make([][]byte, 0, len(log))
	for _, r := range log {
		evs = append(evs, r.Bytes)
	}
	whole, err := run.Fold(run.State{}, evs...)
	if err != nil {
		t.Fatalf("fold: %v", err)
	}
	for cut := range evs {
		a, err := run.Fold(run.State{}, evs[:cut]...)
		if err != nil {
			t.Fatalf("fold(a) of %d: %v", cut, err)
		}
		ab, err := run.Fold(a, evs[cut:]...)
		if err != nil {
			t.Fatalf("fold(fold(a), b) at %d: %v", cut, err)
		}
		equalStates(t, ab, whole)
	}
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	t.Run("DEPL-2 SAFE-4 services that write at the same time, under faults, make one history", func(t *testing.T) {
		t.Parallel()
		const runs, perService = 4, 2
		s := newStation(t)
		faults := []mem.Fault{mem.None, mem.LostAck, mem.None, mem.Busy, mem.LateRequest, mem.None, mem.LostRequest, mem.LowConflict, mem.None}
		s.SetFaults(mem.Faults{
			Append: func(n uint64, _ kernel.Entry) mem.Fault { return faults[n%uint64(len(faults))] },
			Read:   func(n uint64, _ string) (int, error) { return int(n % 3), nil },
		})
		done := make(chan error)
		writers := 0
		for _, by := range events.Services() {
			for range perService {
				l := newLedger(t, s, by, func(c *runlog.LedgerConfig) { c.Cache = 3 })
				writers++
				go func() { done <- chatter(t.Context(), l, by, runs) }()
			}
		}
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		s.SetFaults(mem.Faults{})
		evs := 0
		for _, id := range s.Runs() {
			equalStates(t, mustState(t, newLedger(t, s, events.Planner), id), folded(t, s, id))
			evs += len(s.Log(id))
		}
		if evs < runs*5 {
			t.Errorf("only %d events were said: the test proved little", evs)
		}
	})
}

// chatter says what the service may say, for a while, on all runs in turn.
func chatter(ctx context.Context, l *runlog.Ledger, by events.Service, runs int) error {
	for i := range 60 {
		id := fmt.Sprintf("r%d", i%runs)
		if _, _, err := l.State(ctx, id); err != nil {
			return fmt.Errorf("%s: state of %s: %w", by, id, err)
		}
		_, err := l.Write(ctx, id, func(s run.State, _ time.Time) ([]events.Payload, error) {
			moves := slices.DeleteFunc(runtest.Answer(s, by), func(p events.Payload) bool {
				k := p.Kind() // those that would end everything at once
				return k == events.RunFailed || k == events.StepFailed || k == events.RunPaused
			})
			if len(moves) == 0 || s.Sequence > 150 {
				return nil, nil
			}
			return []events.Payload{moves[i%len(moves)]}, nil
		})
		if err != nil {
			return fmt.Errorf("%s: write to %s: %w", by, id, err)
		}
	}
	return nil
}
