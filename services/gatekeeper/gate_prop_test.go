package gatekeeper

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
	"github.com/inspan/inspan/pkg/tool"
)

// gated is a run whose roles speak one after the other, and whose gates a person answers.
type gated struct {
	*runtest.Builder
	role   *Role
	inputs uint64
}

func TestPROP11(t *testing.T) {
	t.Parallel()
	registry, err := tool.NewRegistry(tools.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("OBS-26a PROP-11 GATE-4abc GATE-5 GATE-6ab Feature: agent-harnesses, Property 11: at a gate the state is stored, waiting_for_human is said and work is suspended; yes goes on, no pauses with the reason", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			g := &gated{Builder: runtest.New("main", "r1"), role: &Role{cfg: Config{Tools: registry, ToolsOf: func(events.Agent) *tool.Registry { return registry }}}}
			created := runtest.Created()
			created.Options.Autonomy = rapid.IntRange(1, 3).Draw(t, "autonomy")
			var steps []events.PlanStep
			for i := range rapid.IntRange(1, 4).Draw(t, "steps") {
				st := runtest.Step(fmt.Sprintf("s%d", i))
				if i > 0 && rapid.Bool().Draw(t, "after") {
					st.Dependencies = []string{steps[i-1].ID}
				}
				st.Critical = rapid.Bool().Draw(t, "critical")
				steps = append(steps, st)
			}
			g.Append(created, runtest.Started(), runtest.Plan(steps...))
			for range 8 * len(steps) {
				g.hop(t)
				s := g.State()
				waiting := s.Waiting()
				if s.Status.Ended() {
					break
				}
				if len(waiting) > 0 {
					g.answer(t, rapid.SampledFrom(waiting).Draw(t, "gate"), rapid.IntRange(0, 2).Draw(t, "no") == 0)
				}
			}
			// The last answer may have been a no, and its step asks again.
			g.hop(t)
			for s := g.State(); len(s.Waiting()) > 0; s = g.State() { // whoever is patient sees the end
				g.answer(t, s.Waiting()[0], false)
				g.hop(t)
			}
			if s := g.State(); s.Status != events.Completed {
				t.Fatalf("the run is %s", s.Status)
			}
		})
	})
}

// hop has planner, gatekeeper and executor say what they have to say, until none has more, and looks at each gate that
// opens.
func (g *gated) hop(t *rapid.T) {
	for {
		planned, err1 := lifecycle.Progress(g.State(), noon)
		g.Append(planned...)
		said, err2 := gate.Look(g.State(), noon, g.role.policy(nil, map[string]bool{}))
		g.Append(said...)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for _, p := range said {
			if opened, ok := p.(*events.GateOpenedData); ok {
				g.suspended(t, opened)
			}
		}
		if worked := g.work(); len(planned) == 0 && len(said) == 0 && !worked {
			return
		}
	}
}

// work is the executor's: it ends each step that it may work on with one turn.
func (g *gated) work() (worked bool) {
	before := g.State()
	for _, st := range before.Plan.Steps {
		s := g.State()
		if turn.Next(s, st.ID, noon).Ask != nil {
			g.Append(runtest.Turn(s.Turns().Len()+1, st.ID, "done"), runtest.StepDone(st.ID, "output of "+st.ID))
			worked = true
		}
	}
	return worked
}

// suspended fails where a gate that has just opened is not in the log as it stands, or anybody goes past it.
func (g *gated) suspended(t *rapid.T, opened *events.GateOpenedData) {
	s := g.State()
	if opened.Event != "waiting_for_human" {
		t.Fatalf("the gate was said as %q", opened.Event)
	}
	stored, err := run.Fold(run.State{}, g.Events()...)
	if err != nil {
		t.Fatal(err)
	}
	got, err1 := json.Marshal(stored)
	want, err2 := json.Marshal(s)
	if err1 != nil || err2 != nil || string(got) != string(want) {
		t.Fatalf("the log has another state\n got %s\nwant %s %v %v", got, want, err1, err2)
	}
	st := s.Step(opened.Step)
	if st.Status != events.StepIsReady || turn.Next(s, st.ID, noon).Ask != nil {
		t.Fatalf("step %s is %s and worked on before its gate was answered", st.ID, st.Status)
	}
	if again, err := gate.Look(s, noon, g.role.policy(nil, map[string]bool{})); err != nil || len(again) != 0 {
		t.Fatalf("while the gate is open the gatekeeper says %v, %v", again, err)
	}
}

// answer answers a gate and checks what follows for its run and its step.
func (g *gated) answer(t *rapid.T, open *run.Gate, no bool) {
	g.inputs++
	reply := gate.Reply{Gate: open.ID, Decision: "approve", By: "anna", Input: g.inputs}
	if no {
		reply.Decision, reply.Reason = "reject", rapid.StringMatching(`[a-z]{1,20}`).Draw(t, "reason")
	}
	said, err := gate.Answer(g.State(), noon, reply)
	if err != nil {
		t.Fatal(err)
	}
	g.Append(said...)
	paused, err := lifecycle.Rejected(g.State(), noon)
	if err != nil {
		t.Fatal(err)
	}
	g.Append(paused...)
	s := g.State()
	if !no {
		if s.Status != events.Running {
			t.Fatalf("after a yes the run is %s", s.Status)
		}
		g.hop(t)
		s = g.State()
		if st := s.Step(open.StepID); st.Status != events.StepIsCompleted {
			t.Fatalf("after a yes step %s is %s", st.ID, st.Status)
		}
		return
	}
	if s.Status != events.Paused || s.PauseReason != "gate rejected: "+reply.Reason {
		t.Fatalf("after a no the run is %s: %q", s.Status, s.PauseReason)
	}
	for _, st := range s.Plan.Steps {
		if turn.Next(s, st.ID, noon).Ask != nil {
			t.Fatalf("step %s is worked on while the run is paused", st.ID)
		}
	}
	g.inputs++
	resumed, err := lifecycle.Resume(s, lifecycle.Wish{Input: g.inputs})
	if err != nil {
		t.Fatal(err)
	}
	g.Append(resumed...)
}

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
