package kernel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
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

func TestOutcomes(t *testing.T) {
	t.Parallel()
	busy := slices.Repeat([]mem.Fault{mem.Busy}, 50)
	for _, c := range []struct {
		name   string
		faults []mem.Fault
		check  func(kernel.Stats) bool
	}{
		{"SAFE-4 stored", nil, func(s kernel.Stats) bool { return s.Appends == 4 && s.Duplicates == 0 }},
		{"SAFE-4 EVT-15 unknown, and it was stored", []mem.Fault{mem.LostAck}, func(s kernel.Stats) bool { return s.Unknowns == 1 && s.Duplicates == 1 }},
		{"SAFE-4 EVT-15 unknown each time, and each was stored", slices.Repeat([]mem.Fault{mem.LostAck}, 4), func(s kernel.Stats) bool { return s.Unknowns == 4 && s.Duplicates == 4 }},
		{"SAFE-4 unknown, and it was not stored", []mem.Fault{mem.LostRequest}, func(s kernel.Stats) bool { return s.Unknowns == 1 && s.Duplicates == 0 }},
		{"SAFE-4 EVT-15 unknown, and it is stored after the leader was asked", []mem.Fault{mem.LateRequest}, func(s kernel.Stats) bool { return s.Unknowns == 1 && s.Conflicts == 1 && s.Duplicates == 1 }},
		{"SAFE-4 transient, many times", busy, func(s kernel.Stats) bool { return s.Transients == 50 }},
		{"SAFE-4 conflict with a lower sequence is transient", []mem.Fault{mem.LowConflict, mem.LowConflict}, func(s kernel.Stats) bool { return s.Conflicts == 2 && s.Duplicates == 0 }},
		{"SAFE-4 everything in turn", []mem.Fault{mem.Busy, mem.LostRequest, mem.LowConflict, mem.LostAck, mem.None, mem.LateRequest, mem.Busy}, func(s kernel.Stats) bool { return s.Duplicates == 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t)
			s.SetFaults(script(c.faults...))
			l := newLedger(t, s, events.Planner)
			w, err := l.Write(t.Context(), "r", openRun)
			if err != nil {
				t.Fatalf("write: %v", err)
			}
			if got := kindsOf(w); !slices.Equal(got, openKinds) {
				t.Errorf("written: got %q, want %q", got, openKinds)
			}
			log := s.Log("r")
			if len(log) != len(openKinds) {
				t.Fatalf("the log has %d events, want %d", len(log), len(openKinds))
			}
			for i, f := range w.Events {
				if f.Seq != log[i].Seq || f.Sequence != uint64(i+1) {
					t.Errorf("event %d: reported at %d as number %d, stored at %d", i+1, f.Seq, f.Sequence, log[i].Seq)
				}
			}
			equalStates(t, w.State, folded(t, s, "r"))
			if st := l.Stats(); !c.check(st) {
				t.Errorf("the counters are %+v", st)
			}
		})
	}
}

func TestInsist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStation(t)
		s.SetFaults(script(mem.None, mem.NoSpace, mem.None, mem.NoSpace, mem.NoSpace))
		l := newLedger(t, s, events.Planner)
		began := time.Now()
		w, err := l.Insist(t.Context(), "r", openRun)
		if got := kindsOf(w); err != nil || !slices.Equal(got, openKinds[2:]) || len(s.Log("r")) != len(openKinds) {
			t.Errorf("SAFE-14 a log that was full takes the rest: the last try stored %q of %d, %v", got, len(s.Log("r")), err)
		}
		if took := time.Since(began); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("three tries were refused: got all after %s", took)
		}
		equalStates(t, w.State, folded(t, s, "r"))
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		s.SetFaults(script(slices.Repeat([]mem.Fault{mem.NoSpace}, 50)...))
		if w, err := l.Insist(ctx, "q", openRun); !errors.Is(err, kernel.ErrFull) || len(w.Events) != 0 {
			t.Errorf("SAFE-14 it ends with its context: got %d events, %v", len(w.Events), err)
		}
		s.SetFaults(script(mem.NoRight))
		if _, err := l.Insist(t.Context(), "p", openRun); !errors.Is(err, kernel.ErrDenied) {
			t.Errorf("SAFE-6 what no other try changes is returned: got %v", err)
		}
	})
}

func TestFinalOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults []mem.Fault
		want   error
	}{
		{"SAFE-14 a full log is ErrFull, without another try", []mem.Fault{mem.NoSpace}, kernel.ErrFull},
		{"SAFE-6 a right that is missing is ErrDenied, without another try", []mem.Fault{mem.NoRight}, kernel.ErrDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t)
			s.SetFaults(script(append([]mem.Fault{mem.None}, c.faults...)...))
			l := newLedger(t, s, events.Planner)
			w, err := l.Write(t.Context(), "r", openRun)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if len(w.Events) != 1 || len(s.Log("r")) != 1 {
				t.Errorf("got %d events reported and %d stored, want the one before the refusal", len(w.Events), len(s.Log("r")))
			}
			if w, err := l.Write(t.Context(), "r", openRun); err != nil || len(w.Events) != 3 {
				t.Errorf("once it goes again: got %d events, %v; want the 3 that were missing", len(w.Events), err)
			}
			equalStates(t, mustState(t, l, "r"), folded(t, s, "r"))
		})
	}
	t.Run("SAFE-15 an event above the limit is ErrTooLarge and never tried", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner)
		_, err := l.Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) {
			c := runtest.Created()
			c.Task = strings.Repeat("x", events.MaxEvent)
			return []events.Payload{c}, nil
		})
		if !errors.Is(err, kernel.ErrTooLarge) || len(s.Log("r")) != 0 {
			t.Errorf("got %v and %d events, want ErrTooLarge and none", err, len(s.Log("r")))
		}
	})
	t.Run("SAFE-6 another service's word is ErrDenied before it is sent", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		j := &spy{Journal: s.Journal(), append: func(context.Context, kernel.Entry) kernel.Ack {
			t.Error("it was sent")
			return kernel.Ack{Outcome: kernel.Denied}
		}}
		for _, by := range []events.Service{events.Executor, events.Toolrunner, events.Gatekeeper, events.Persister} {
			l := newLedger(t, s, by, func(c *runlog.LedgerConfig) { c.Journal = j })
			if _, err := l.Write(t.Context(), "r", openRun); !errors.Is(err, kernel.ErrDenied) {
				t.Errorf("run.created by %s: got %v, want ErrDenied", by, err)
			}
		}
	})
	t.Run("SAFE-12 a run id that is no token is refused", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner)
		for _, id := range []string{"", "a.b", "*", ">", "r r", strings.Repeat("x", 65)} {
			var bad *events.IDError
			if _, err := l.Write(t.Context(), id, openRun); !errors.As(err, &bad) {
				t.Errorf("write %q: got %v, want an IDError", id, err)
			}
			if _, _, err := l.State(t.Context(), id); !errors.As(err, &bad) {
				t.Errorf("state %q: got %v, want an IDError", id, err)
			}
			if _, err := l.Receive(t.Context(), id, kernel.Record{Seq: 1}); !errors.As(err, &bad) {
				t.Errorf("hear %q: got %v, want an IDError", id, err)
			}
		}
	})
	t.Run("SAFE-2 a decision that does not fit is an error and says nothing", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		l := newLedger(t, s, events.Planner)
		var fault *run.FoldError
		_, err := l.Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Started()}, nil
		})
		if !errors.As(err, &fault) || errors.Is(err, kernel.ErrHeld) || len(s.Log("r")) != 0 {
			t.Errorf("got %v and %d events, want a FoldError that holds nothing, and none", err, len(s.Log("r")))
		}
	})
	t.Run("a decision's own error comes through", func(t *testing.T) {
		t.Parallel()
		l := newLedger(t, newStation(t), events.Planner)
		want := errors.New("no")
		if _, err := l.Write(t.Context(), "r", func(run.State, time.Time) ([]events.Payload, error) { return nil, want }); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	})
}

func mustState(t fataler, l *runlog.Ledger, runID string) run.State {
	t.Helper()
	s, _, err := l.State(context.Background(), runID)
	if err != nil {
		t.Fatalf("state of %s: %v", runID, err)
	}
	return s
}

func TestUnsettled(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 EVT-11 an outcome that cannot be learned is ErrUnsettled, and nothing is said to be written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, fault := range []mem.Fault{mem.LostAck, mem.LostRequest, mem.Busy} {
				s := newStation(t)
				s.SetFaults(mem.Faults{
					Append: func(n uint64, _ kernel.Entry) mem.Fault {
						return map[bool]mem.Fault{true: fault, false: mem.LostRequest}[n == 1]
					},
					Last: func(uint64, string) (int, error) { return 0, errors.New("no leader") },
				})
				l := newLedger(t, s, events.Planner)
				w, err := l.Write(t.Context(), "r", openRun)
				if !errors.Is(err, kernel.ErrUnsettled) || len(w.Events) != 0 {
					t.Errorf("got %v with %d events, want ErrUnsettled and none", err, len(w.Events))
				}
				s.SetFaults(mem.Faults{})
				stored := len(s.Log("r"))
				w, err = l.Write(t.Context(), "r", openRun)
				if err != nil || len(w.Events) != len(openKinds)-stored {
					t.Errorf("afterwards: got %d events, %v; want the %d that are missing", len(w.Events), err, len(openKinds)-stored)
				}
				equalStates(t, w.State, folded(t, s, "r"))
			}
		})
	})
	t.Run("SAFE-13 a context that ends during the tries is ErrUnsettled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newStation(t)
			s.SetFaults(mem.Faults{Append: func(uint64, kernel.Entry) mem.Fault { return mem.Busy }})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := newLedger(t, s, events.Planner).Write(ctx, "r", openRun)
			if !errors.Is(err, kernel.ErrUnsettled) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want ErrUnsettled because of the deadline", err)
			}
		})
	})
	t.Run("DEPL-2 a writer that always loses is told so in the end", func(t *testing.T) {
		t.Parallel()
		s := newStation(t)
		b := started("r", 1)
		seed(t, s, b)
		other := newLedger(t, s, events.Persister)
		j := &spy{Journal: s.Journal()}
		j.append = func(ctx context.Context, e kernel.Entry) kernel.Ack {
			_, err := other.Write(ctx, "r", func(st run.State, _ time.Time) ([]events.Payload, error) {
				return []events.Payload{runtest.Checkpoint(st)}, nil
			})
			if err != nil {
				t.Errorf("the other writer: %v", err)
			}
			return s.Journal().Append(ctx, e)
		}
		l := newLedger(t, s, events.Toolrunner, func(c *runlog.LedgerConfig) { c.Journal = j })
		w, err := l.Write(t.Context(), "r", begin("c1-1"))
		if !errors.Is(err, kernel.ErrContended) || len(w.Events) != 0 {
			t.Errorf("got %v with %d events, want ErrContended and none", err, len(w.Events))
		}
		if got := folded(t, s, "r"); got.Open["c1-1"].Phase != run.CallAllowed {
			t.Errorf("the call is %s, want allowed", got.Open["c1-1"].Phase)
		}
	})
}
