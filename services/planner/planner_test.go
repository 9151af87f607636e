package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/resolve"
)

// no one knows no agent and no model.
type none struct{}

func (none) Agent(context.Context, string) (events.Agent, error) {
	return events.Agent{}, kernel.ErrNotFound
}
func (none) Names(context.Context) ([]string, error) { return nil, nil }

// lonely is a planner that knows no agent and no model, with a clock that is moved by hand.
func lonely(t *testing.T) (*mem.Hand, *runlog.Ledger, *Role) {
	t.Helper()
	clock := mem.NewHand(time.Now())
	s, err := mem.New("s1", mem.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalOf(events.Planner), Entropy: rand.Reader, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	role, err := assemble(t, Config{Ledger: l, Timers: s.Timers()}, assembly{made: resolve.Config{Agents: none{}}})
	if err != nil {
		t.Fatal(err)
	}
	return clock, l, role
}

func TestBorn(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-2 PERS-15 a run that was made and not started is looked at until it starts or ends", func(t *testing.T) {
		t.Parallel()
		clock, l, role := lonely(t)
		w, err := l.Write(t.Context(), "r1", func(s run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Created()}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		received := runlog.ReceivedEvent{State: w.State, Kind: events.RunCreated, Run: "r1", Deliveries: 1}
		if later, ok := errors.AsType[*kernel.RetryAfter](role.Event(t.Context(), received)); !ok || later.After <= 0 {
			t.Fatalf("it is let go of: %v", later)
		}
		clock.Advance(lifecycle.BirthTerm)
		if err := role.Event(t.Context(), received); err != nil {
			t.Fatal(err)
		}
		state, _, err := l.State(t.Context(), "r1")
		if err != nil || state.Status != events.Failed || state.Result.FinishReason != events.FinishCancelled {
			t.Errorf("%s %+v %v", state.Status, state.Result, err)
		}
	})
	t.Run("PLAN-1 PERS-15 a run that another planner started meanwhile is looked at until it has its plan", func(t *testing.T) {
		t.Parallel()
		clock, l, role := lonely(t)
		say := func(payloads ...events.Payload) runlog.Written {
			t.Helper()
			w, err := l.Write(t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) { return payloads, nil })
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		received := runlog.ReceivedEvent{State: say(runtest.Created()).State, Kind: events.RunCreated, Run: "r1", Deliveries: 13}
		say(runtest.Started()) // by a planner that died right then
		clock.Advance(lifecycle.BirthTerm)
		if later, ok := errors.AsType[*kernel.RetryAfter](role.Event(t.Context(), received)); !ok || later.After <= 0 {
			t.Fatalf("it is let go of: %v", later)
		}
	})
}

func TestPlanless(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]events.Status{"single": events.Running, "model": events.Running, "task": events.Failed, "": events.Failed} {
		t.Run("PLAN-1 PERS-15 a run that was started gets its plan, also where its planner is gone, or ends: "+origin, func(t *testing.T) {
			t.Parallel()
			clock, l, role := lonely(t)
			w, err := l.Write(t.Context(), "r1", func(s run.State, _ time.Time) ([]events.Payload, error) {
				c := runtest.Created()
				c.PlanOrigin = origin
				if a := c.Agents[c.Agent]; origin == "model" {
					a.Plan = origin
					c.Agents[c.Agent] = a
				}
				return []events.Payload{c, runtest.Started()}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			received := runlog.ReceivedEvent{State: w.State, Kind: events.RunCreated, Run: "r1", Deliveries: 1}
			if later, ok := errors.AsType[*kernel.RetryAfter](role.Event(t.Context(), received)); !ok || later.After <= 0 {
				t.Fatalf("it is let go of: %v", later)
			}
			clock.Advance(lifecycle.BirthTerm)
			for received.Deliveries = 12; received.Deliveries < 15; received.Deliveries++ {
				if err := role.Event(t.Context(), received); err != nil {
					t.Fatal(err)
				}
			}
			state, _, err := l.State(t.Context(), "r1")
			if err != nil || state.Status != want || (state.Plan != nil) != (origin == "single") || (state.Planning != nil) != (origin == "model") || state.Sequence > 4 {
				t.Errorf("%s #%d %+v %v", state.Status, state.Sequence, state.Result, err)
			}
		})
	}
}

func TestTornFork(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{false, true} {
		t.Run(fmt.Sprintf("PLUS-1 LIFE-2 a fork that never became whole ends, and is given no plan; it was started: %v", began), func(t *testing.T) {
			t.Parallel()
			clock, l, role := lonely(t)
			c := runtest.ForkCreated()
			c.PlanOrigin = "single" // as in the run that it was forked from
			say := []events.Payload{c, runtest.ForkPart(0)}
			if began {
				say = append(say, runtest.Started())
			}
			w, err := l.Write(t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) { return say, nil })
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(lifecycle.BirthTerm)
			if err := role.Event(t.Context(), runlog.ReceivedEvent{State: w.State, Kind: events.RunCreated, Run: "r1", Deliveries: 13}); err != nil {
				t.Fatal(err)
			}
			state, _, err := l.State(t.Context(), "r1")
			if err != nil || state.Status != events.Failed || state.Plan != nil || state.Result.FinishReason != events.FinishCancelled {
				t.Errorf("%s #%d %+v %v", state.Status, state.Sequence, state.Result, err)
			}
		})
	}
}

func TestResumed(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-6 PLAN-1 a run that was paused before it had a plan asks for one when it goes on", func(t *testing.T) {
		t.Parallel()
		d := planned(t, runtest.Created(), runtest.Started(), runtest.Paused("wait"), runtest.Resumed())
		if s := d.event(events.RunResumed); s.Planning == nil || s.Planning.Owed != s.Sequence || s.Status != events.Running {
			t.Errorf("%s, %+v", s.Status, s.Planning)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	t.Run("PERS-4 PLAN-1 a store that gives no answer does not end a run that waits for its plan", func(t *testing.T) {
		t.Parallel()
		d := planned(t, runtest.Created(), runtest.Started())
		d.agents.away = true
		for n := range lifecycle.MaxPlanTries + 2 {
			if _, err := d.role.fromModel(t.Context(), d.state()); err == nil {
				t.Fatalf("delivery %d is taken for done", n+1)
			}
		}
		if s := d.state(); s.Status != events.Running || s.Sequence != 2 {
			t.Errorf("%s #%d", s.Status, s.Sequence)
		}
	})
}
