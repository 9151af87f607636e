package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/services/planner/part"
)

// childKey is the key that the ids of children are derived with in every play.
const childKey = "the key of the play"

// smallChildren is the small world with a child for its first step, whose first attempt the model refuses. Where stop is
// set somebody stops the run as soon as its child lives.
func smallChildren(first, second string, stop bool) Scene {
	return smallFamily(first, second, stop, false)
}

// smallFamily is that world with children on the direct path, where direct is set.
func smallFamily(first, second string, stop, direct bool) Scene {
	s := small(first, second)
	r := &s.Runs[0]
	calls := r.Steps[0].Turns
	r.Steps[0].Turns, r.Steps[0].Kid = nil, "agent-"+kidID(r.ID, 1)
	for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
		kid := SceneRun{ID: kidID(r.ID, attempt), Kid: true, Direct: direct, Autonomy: r.Autonomy, Budget: r.Budget, Retries: r.Retries,
			Refuses: attempt == 1, Steps: []SceneStep{{ID: "step-1"}}}
		if attempt > 1 {
			kid.Steps[0].Turns = calls
		}
		s.Runs = append(s.Runs, kid)
	}
	s.Stops = stop
	return s
}

// names are the ids that planners of the plays give.
var names = part.Names{Station: station, Key: []byte(childKey)}

func kidID(parent string, attempt int) string { return kidOf(parent, "", attempt) }

func kidOf(parent, call string, attempt int) string {
	return names.Child(parent, "a", call, attempt)
}

// smallDelegation is the small world whose agent gives the call of its first step away, beside one that it makes itself.
// The first attempt at it fails. In the background the agent asks for the answer in its next turn.
func smallDelegation(first, second string, background, stop bool) Scene {
	s := small(first, second)
	r := &s.Runs[0]
	given := r.Steps[0].Turns
	kid := "agent-" + kidOf(r.ID, "c1-1", 1)
	r.Steps[0].Turns = [][]SceneCall{{{Tool: events.ToolDelegate, N: 8, Kid: kid, Background: background}, {Tool: "look", N: 9}}}
	if background {
		r.Steps[0].Turns = append(r.Steps[0].Turns, []SceneCall{{Tool: events.ToolDelegateResult, N: 7, Kid: kidOf(r.ID, "c1-1", 1)}})
	}
	for attempt := 1; attempt <= events.MaxChildAttempts; attempt++ {
		k := SceneRun{ID: kidOf(r.ID, "c1-1", attempt), Kid: true, Autonomy: r.Autonomy, Budget: r.Budget, Retries: r.Retries,
			Refuses: attempt == 1, Steps: []SceneStep{{ID: "step-1"}}}
		if attempt > 1 {
			k.Steps[0].Turns = given
		}
		s.Runs = append(s.Runs, k)
	}
	s.Stops = stop
	return s
}

// delegating is a tool whose calls are answered out of the log.
type delegating struct{ double }

// Spec implements tool.Tool.
func (d delegating) Spec() tool.Spec {
	s := d.double.Spec()
	s.Input = json.RawMessage(`{"type":"object"}`)
	return s
}

// delegation is what a call says that gives work away, or asks what came of it.
func (c SceneCall) delegation() json.RawMessage {
	if c.Tool == events.ToolDelegateResult {
		return json.RawMessage(fmt.Sprintf(`{"id":%q}`, c.Kid))
	}
	return json.RawMessage(fmt.Sprintf(`{"agent":%q,"task":"do it","background":%t}`, c.Kid, c.Background))
}

// gives are the agents that those of a run give work to.
func (r SceneRun) gives() (kids []string) {
	for _, st := range r.Steps {
		for _, c := range slices.Concat(st.Turns...) {
			if c.Tool == events.ToolDelegate {
				kids = append(kids, c.Kid)
			}
		}
	}
	return kids
}

// refused is what the model of a run says that declines to work.
func refused(a llm.Answer) llm.Answer {
	a.Text, a.Finish = "no", llm.Refusal
	return a
}

// stopsWithKids has somebody stop a run whose child lives, once.
func (h *person) stopsWithKids(runID string) {
	s := h.w.state[runID]
	if h.w.play.Scene.branches() {
		h.disturbs(runID, s)
		return
	}
	if !h.w.play.Scene.Stops || len(s.Living()) == 0 || h.met["stop "+runID] {
		return
	}
	h.met["stop "+runID] = true
	h.acts = append(h.acts, act{events.ControlSubject(station, runID), `{"action":"stop"}`, "stop " + runID})
}

// kidAudit is what the audit knows of a child.
type kidAudit struct {
	parent, step, call string
	attempt            int
	reserve            int
	born, over         bool
}

// family holds SUB-1, SUB-4, SUB-8 and PLUS-3: a child has been spawned before it is born, once for each attempt, and is
// settled once, after its end and with what it really spent. What is used and held is within the budget at every event.
// No run ends while a child of it lives, and nothing new is spawned in one that stops.
func (a *audit) family(runID string, l *ledger, p events.Payload) string {
	switch d := p.(type) {
	case *events.RunCreatedData:
		k := a.kids[runID]
		switch of := d.ChildOf; {
		case (of != nil) != a.w.play.Scene.run(runID).Kid:
			return "it is a child, or none, against the scene"
		case of == nil:
		case k == nil || k.born || k.over || k.parent != of.Parent || k.step != of.Step || k.call != of.Call || d.Options.MaxToolCalls != k.reserve:
			return fmt.Sprintf("born as %+v where %+v", of, k)
		default:
			k.born = true
			a.w.tale.counts["children born"]++
		}
	case *events.ChildSpawnedData:
		for id, k := range a.kids {
			if id == d.Child || k.parent == runID && k.step == d.Step && k.call == d.Call && (!k.over || k.attempt >= d.Attempt) {
				return fmt.Sprintf("attempt %d of step %s has a child already: %s", d.Attempt, d.Step, id)
			}
		}
		c := l.calls[d.Call]
		review := events.IsCheckPlace(d.Call)
		if l.stopping || l.steps[d.Step] != events.StepAllowed || d.Call == "" && l.plan[d.Step].Child == "" || review && !l.reviews(d.ChildRef) ||
			d.Call != "" && !review && (c == nil || c.starts != 1 || c.ref.Tool != events.ToolDelegate) {
			return d.Place() + " waits for no child"
		}
		a.kids[d.Child] = &kidAudit{parent: runID, step: d.Step, call: d.Call, attempt: d.Attempt, reserve: d.Reserve.ToolCalls}
		l.held += d.Reserve.ToolCalls
		a.w.tale.counts["children spawned"]++
	case *events.ChildFinishedData:
		k := a.kids[d.Child]
		if k == nil || k.over || k.parent != runID || a.runs[d.Child] == nil || a.runs[d.Child].ended == "" {
			return fmt.Sprintf("child %s has not ended, or twice", d.Child)
		}
		spent := a.w.state[d.Child].TotalToolCalls
		if d.Use.ToolCalls != spent {
			return fmt.Sprintf("it is said to have spent %d calls, and spent %d", d.Use.ToolCalls, spent)
		}
		k.over = true
		l.held += spent - k.reserve
		a.w.tale.counts["children "+d.Outcome]++
	case *events.RunStoppingData:
		l.stopping = true
		a.w.tale.counts["runs that stop with children"]++
	case *events.RunCompletedData, *events.RunFailedData:
		for id, k := range a.kids {
			if k.parent == runID && !k.over {
				return "it ends while its child " + id + " lives"
			}
		}
	default:
	}
	if l.allowed+l.held > l.budget {
		return fmt.Sprintf("%d calls are allowed and %d held for children, of a budget of %d", l.allowed, l.held, l.budget)
	}
	return ""
}

func TestEveryOperationDelegation(t *testing.T) {
	t.Run("SUB-1 SUB-4 SUB-8 PLUS-3 SAFE-7 a crash or a duplicate at operations of a run that gives a call away, in either log: no child is spawned, born or settled twice, and the call is answered once", func(t *testing.T) {
		plays, born, stopped := 0, 0, 0
		count := func(out Outcome) {
			plays++
			born += out.Counts["children born"]
			stopped += out.Counts["runs that stop with children"]
		}
		someOf(t, smallDelegation("pay", "put", false, false), 39, count)
		someOf(t, smallDelegation("pay", "put", true, false), 47, count)
		someOf(t, smallDelegation("put", "put", false, true), 23, count)
		if plays < 20 || born < plays || stopped == 0 {
			t.Errorf("only %d plays, in which %d children were born and %d runs stopped with children", plays, born, stopped)
		}
		t.Logf("%d plays, %d children, %d runs that stopped with them", plays, born, stopped)
	})
}

func TestEveryOperationChildren(t *testing.T) {
	t.Run("SUB-4 SUB-8 PLUS-3 SAFE-7 a crash or a duplicate at operations of a run with children, in either log: none is spawned, born or settled twice", func(t *testing.T) {
		plays, born, stopped := 0, 0, 0
		count := func(out Outcome) {
			plays++
			born += out.Counts["children born"]
			stopped += out.Counts["runs that stop with children"]
		}
		someOf(t, smallChildren("pay", "put", false), 39, count)
		someOf(t, smallChildren("pay", "put", true), 27, count)
		direct := 0
		someOf(t, smallFamily("pay", "put", false, true), 59, func(out Outcome) {
			count(out)
			direct += out.Counts["direct runs"]
		})
		if direct == 0 {
			t.Error("no child took the direct path")
		}
		if plays < 20 || born < plays || stopped == 0 {
			t.Errorf("only %d plays, in which %d children were born and %d runs stopped with children", plays, born, stopped)
		}
		t.Logf("%d plays, %d children, %d runs that stopped with them", plays, born, stopped)
	})
}

// answered reports whether calls of a tool are answered with what children came to, and have no effect of their own.
func answered(name string) bool {
	return name == events.ToolDelegate || name == events.ToolDelegateResult
}
