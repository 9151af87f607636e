package planner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/services/planner/resolve"
)

// roster knows two agents, unless it is away.
type roster struct{ away bool }

func (r *roster) Agent(_ context.Context, name string) (events.Agent, error) {
	switch {
	case r.away:
		return events.Agent{}, errors.New("no answer")
	case name != "coder" && name != "reviewer":
		return events.Agent{}, kernel.ErrNotFound
	}
	return events.Agent{Name: name, Model: "scripted/x", Digest: strings.Repeat("0", 64)}, nil
}

func (r *roster) Names(context.Context) ([]string, error) {
	if r.away {
		return nil, errors.New("no answer")
	}
	return []string{"coder", "reviewer"}, nil
}

// planning is a run with planners that may come and go.
type planning struct {
	t      *testing.T
	st     *mem.Station
	agents *roster
	role   *Role
}

func planned(t *testing.T, payloads ...events.Payload) *planning {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &planning{t: t, st: st, agents: &roster{}}
	kerneltest.Seed(t, st.Journal(), runtest.New("s1", "r1").Append(payloads...)...)
	p.role = p.planner()
	return p
}

// planner is one more replica, which knows nothing yet.
func (p *planning) planner() *Role {
	p.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: events.Planner, Journal: p.st.JournalOf(events.Planner), Entropy: rand.Reader})
	if err != nil {
		p.t.Fatal(err)
	}
	role, err := assemble(p.t, Config{Ledger: l, Timers: p.st.Timers()}, assembly{made: resolve.Config{Agents: p.agents, Blobs: p.st.Blobs()}})
	if err != nil {
		p.t.Fatal(err)
	}
	return role
}

func (p *planning) state() run.State {
	p.t.Helper()
	s, err := p.role.cfg.Ledger.Fresh(p.t.Context(), "r1")
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// event delivers the last event and returns the state after it.
func (p *planning) event(k events.Kind) run.State {
	p.t.Helper()
	s := p.state()
	if err := p.role.Event(p.t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: k, Sequence: s.Sequence, State: s, Deliveries: 1}); err != nil {
		p.t.Fatal(err)
	}
	return p.state()
}

// say appends what another service says.
func (p *planning) say(by events.Service, payloads ...events.Payload) {
	p.t.Helper()
	l, err := runlog.NewLedger(runlog.LedgerConfig{Station: "s1", By: by, Journal: p.st.JournalOf(by), Entropy: rand.Reader})
	if err == nil {
		_, err = l.Write(p.t.Context(), "r1", func(run.State, time.Time) ([]events.Payload, error) { return payloads, nil })
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func answer(try int, text string) *events.PlanAnsweredData {
	return &events.PlanAnsweredData{Event: "plan_answered", Try: try, Text: text, Attempt: 1, InputTokens: 10, OutputTokens: 2}
}

func request(try int) *events.PlanRequestedData {
	return &events.PlanRequestedData{Event: "plan_requested", Try: try, Agents: []string{"coder"}}
}

const (
	sound = `{"steps":[{"id":"one","description":"first","agent":"reviewer","dependencies":[],"critical":false}]}`
	cycle = `{"steps":[{"id":"one","description":"first","dependencies":["one"],"critical":false}]}`
)

func TestAnswered(t *testing.T) {
	t.Parallel()
	asked := []events.Payload{runtest.Created(), runtest.Started(), request(1)}
	t.Run("PLAN-1 PLAN-3 an answer becomes the plan, once, also where two planners look and one of them is late", func(t *testing.T) {
		t.Parallel()
		d := planned(t, append(asked, answer(1, sound))...)
		late := runlog.ReceivedEvent{Run: "r1", Kind: events.PlanAnswered, Sequence: 4, State: d.state(), Deliveries: 2}
		s := d.event(events.PlanAnswered)
		if s.Plan == nil || s.Plan.Origin != events.OriginModel || s.Step("one").Status != events.StepIsReady || s.Agents["reviewer"].Name != "reviewer" {
			t.Fatalf("%+v", s.Plan)
		}
		if s.Planning != nil || s.Tokens.Total() != 12 {
			t.Errorf("%+v, %d tokens", s.Planning, s.Tokens.Total())
		}
		if err := d.planner().Event(t.Context(), late); err != nil || d.state().Sequence != s.Sequence {
			t.Errorf("%v, %d events, %d before", err, d.state().Sequence, s.Sequence)
		}
	})
	t.Run("PERS-15 a planner that died between the plan and its first step is followed by one that goes on", func(t *testing.T) {
		t.Parallel()
		plan := runtest.Plan(runtest.Step("a"))
		d := planned(t, append(asked, answer(1, sound), plan)...)
		if s := d.event(events.PlanAnswered); s.Step("a").Status != events.StepIsReady {
			t.Errorf("%+v", s.Step("a"))
		}
	})
	t.Run("PLAN-3 an answer that is no plan goes back with the reason, a bounded number of times", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{"no JSON": "I would begin with tests.", "a cycle": cycle, "git": `{"steps":[{"id":"a","description":"b","git":{"depth":1}}]}`,
			"an agent that is not registered": strings.Replace(sound, "reviewer", "ghost", 1), "cut off": sound[:40]} {
			d := planned(t, asked...)
			var late runlog.ReceivedEvent
			for try := 1; try <= lifecycle.MaxPlanTries; try++ {
				d.say(events.Executor, answer(try, text))
				if try > 1 { // a planner that was held up while the next answer came
					before := d.state().Sequence
					if err := d.planner().Event(t.Context(), late); err != nil || d.state().Sequence != before {
						t.Errorf("%s: a late look at answer %d: %v, %d events", name, try-1, err, d.state().Sequence)
					}
				}
				late = runlog.ReceivedEvent{Run: "r1", Kind: events.PlanAnswered, State: d.state(), Deliveries: 2}
				s := d.event(events.PlanAnswered)
				switch p := s.Planning; {
				case try == lifecycle.MaxPlanTries && (s.Status != events.Failed || !strings.Contains(s.Result.Error, "no plan: ")):
					t.Errorf("%s: it is %s: %+v", name, s.Status, s.Result)
				case try < lifecycle.MaxPlanTries && (p == nil || p.Try != try+1 || p.Fault == "" || p.Hint == "" || p.Owed != s.Sequence || p.Text != text):
					t.Fatalf("%s: %+v", name, p)
				}
				if err := d.planner().Event(t.Context(), late); err != nil || d.state().Sequence != s.Sequence {
					t.Errorf("%s: a second look at answer %d: %v, %d events", name, try, err, d.state().Sequence)
				}
			}
			if s := d.state(); s.Tokens.Total() != 12*lifecycle.MaxPlanTries {
				t.Errorf("%s: %d tokens of %d answers are counted", name, s.Tokens.Total(), lifecycle.MaxPlanTries)
			}
		}
	})
	t.Run("PLUS-3 PLAN-1 where the model gave no answer the run fails with the reason of it", func(t *testing.T) {
		t.Parallel()
		none := &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Attempt: 1, Error: "nothing is left", RunReason: events.FinishTokens}
		d := planned(t, append(asked, none)...)
		if s := d.event(events.PlanAnswered); s.Status != events.Failed || s.Result.FinishReason != events.FinishTokens || !strings.Contains(s.Result.Error, "nothing is left") {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
	})
	t.Run("LIFE-5 LIFE-6 an answer to a paused run is its plan at once, and a failure ends it when it goes on", func(t *testing.T) {
		t.Parallel()
		d := planned(t, append(asked, runtest.Paused("wait"), answer(1, sound))...)
		if s := d.event(events.PlanAnswered); s.Status != events.Paused || s.Plan == nil {
			t.Errorf("%s %+v", s.Status, s.Plan)
		}
		none := &events.PlanAnsweredData{Event: "plan_answered", Try: 1, Attempt: 1, Error: "wrong key", RunReason: events.FinishError}
		d = planned(t, append(asked, runtest.Paused("wait"), none)...)
		if s := d.event(events.PlanAnswered); s.Status != events.Paused {
			t.Fatalf("%s %+v", s.Status, s.Result)
		}
		d.say(events.Planner, runtest.Resumed())
		if s := d.event(events.RunResumed); s.Status != events.Failed || !strings.Contains(s.Result.Error, "wrong key") {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
	})
	t.Run("PERS-4 a store that gives no answer says nothing of a plan", func(t *testing.T) {
		t.Parallel()
		d := planned(t, append(asked, answer(1, sound))...)
		d.agents.away = true
		s := d.state()
		if err := d.role.Event(t.Context(), runlog.ReceivedEvent{Run: "r1", Kind: events.PlanAnswered, Sequence: s.Sequence, State: s, Deliveries: 9}); err == nil || d.state().Sequence != s.Sequence {
			t.Fatalf("%v, %d events", err, d.state().Sequence)
		}
		d.agents.away = false
		if s := d.event(events.PlanAnswered); s.Plan == nil {
			t.Error("it has no plan")
		}
	})
	t.Run("LIFE-7a an answer to a run that was stopped changes nothing", func(t *testing.T) {
		t.Parallel()
		d := planned(t, append(asked, answer(1, sound))...)
		late := runlog.ReceivedEvent{Run: "r1", Kind: events.PlanAnswered, State: d.state(), Deliveries: 1}
		d.say(events.Planner, runtest.Failed(d.state(), events.FinishStopped, "stopped"))
		before := d.state().Sequence
		if err := d.role.Event(t.Context(), late); err != nil || d.state().Sequence != before {
			t.Errorf("%v, %d events, %d before", err, d.state().Sequence, before)
		}
	})
	t.Run("PLAN-1 a plan that is too large for an event beside others is read from the objects", func(t *testing.T) {
		t.Parallel()
		var steps []string
		for i := range 60 {
			steps = append(steps, fmt.Sprintf(`{"id":"s%d","description":%q,"dependencies":[],"critical":false}`, i, strings.Repeat("long ", 200)))
		}
		d := planned(t, asked...)
		ref, err := d.st.Blobs().Put(t.Context(), "plan", []byte(`{"steps":[`+strings.Join(steps, ",")+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		stored := answer(1, "cut")
		stored.TextRef = &ref
		d.say(events.Executor, stored)
		if s := d.event(events.PlanAnswered); s.Plan == nil || len(s.Plan.Steps) != 60 {
			t.Errorf("%s %+v", s.Status, s.Planning)
		}
	})
	t.Run("PLAN-1 PERS-15 a run that an earlier program left while it asked the model itself is taken up", func(t *testing.T) {
		t.Parallel()
		d := planned(t, runtest.Created(), runtest.Started())
		for range 2 {
			if _, err := d.planner().fromModel(t.Context(), d.state()); err != nil {
				t.Fatal(err)
			}
		}
		if s := d.state(); s.Sequence != 3 || s.Planning == nil || s.Planning.Try != 1 || len(s.Planning.Agents) != 2 {
			t.Errorf("#%d %+v", s.Sequence, s.Planning)
		}
	})
}
