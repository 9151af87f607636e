package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/reactor/reactortest"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// nobody knows no agent and no model.
type nobody struct{}

func (nobody) Agent(context.Context, string) (events.Agent, error) {
	return events.Agent{}, reactor.ErrNotFound
}
func (nobody) Names(context.Context) ([]string, error) { return nil, nil }
func (nobody) Model(string) (llm.Model, string, error) {
	return nil, "", errors.New("there is no such model")
}

func TestBorn(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-2 PERS-15 a run that was made and not started is looked at until it starts or ends", func(t *testing.T) {
		t.Parallel()
		clock := mem.NewHand(time.Now())
		s, err := mem.New("s1", mem.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		l, err := reactor.NewLedger(reactor.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalOf(events.Planner), Entropy: rand.Reader, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		role, err := New(Config{Station: "s1", Ledger: l, Timers: s.Timers(), Agents: nobody{}, Models: nobody{}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Write(t.Context(), "r1", func(s run.State, _ time.Time) ([]events.Payload, error) {
			return []events.Payload{runtest.Created()}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		heard := reactor.Heard{State: w.State, Kind: events.RunCreated, Run: "r1", Deliveries: 1}
		if later, ok := errors.AsType[*reactor.Later](role.Fact(t.Context(), heard)); !ok || later.After <= 0 {
			t.Fatalf("it is let go of: %v", later)
		}
		clock.Advance(lifecycle.BirthTerm)
		if err := role.Fact(t.Context(), heard); err != nil {
			t.Fatal(err)
		}
		state, _, err := l.State(t.Context(), "r1")
		if err != nil || state.Status != events.Failed || state.Result.FinishReason != events.FinishCancelled {
			t.Errorf("%s %+v %v", state.Status, state.Result, err)
		}
	})
}

func TestResumed(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-6 PLAN-1 a run that was paused before it had a plan asks for one when it goes on", func(t *testing.T) {
		t.Parallel()
		s, err := mem.New("s1", mem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := reactor.NewLedger(reactor.LedgerConfig{Station: "s1", By: events.Planner, Journal: s.JournalOf(events.Planner), Entropy: rand.Reader})
		if err != nil {
			t.Fatal(err)
		}
		reactortest.Seed(t, s.Journal(), runtest.New("s1", "r1").Say(runtest.Created(), runtest.Started(), runtest.Paused("wait"), runtest.Resumed())...)
		role, err := New(Config{Station: "s1", Ledger: l, Timers: s.Timers(), Agents: nobody{}, Models: nobody{}})
		if err != nil {
			t.Fatal(err)
		}
		state, _, err := l.State(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		if err := role.Fact(t.Context(), reactor.Heard{Run: "r1", Kind: events.RunResumed, Sequence: state.Sequence, State: state, Deliveries: maxPlanTries}); err != nil {
			t.Fatal(err)
		}
		if state, _, err = l.State(t.Context(), "r1"); err != nil || state.Status != events.Failed || !strings.Contains(state.Result.Error, "no such model") {
			t.Errorf("it is %s (%v), %+v; want it to fail for want of the model that was to be asked", state.Status, err, state.Result)
		}
	})
}
