package sim

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func (s Scene) step(r *SceneRun, id string) *SceneStep {
	for i := range r.Steps {
		if r.Steps[i].ID == id {
			return &r.Steps[i]
		}
	}
	return nil
}

// smallFlow is the small world with a control flow: the first attempt of its first step fails, a list of two is worked
// off one after the other, a step is skipped, and one waits for a signal.
func smallFlow(first, second string) Scene {
	s := small(first, second)
	r := &s.Runs[0]
	r.Steps[0].Flow = &events.StepFlow{Retry: &events.StepRetry{Attempts: 3, BackoffMS: 2000, Factor: 2, On: events.RetryAny}}
	r.Steps[1].Flow = &events.StepFlow{When: "steps.a.output == 'done'"}
	r.Steps = append(r.Steps,
		SceneStep{ID: "c", Needs: []string{"a"}, Flow: &events.StepFlow{Each: &events.StepEach{Over: "[1, 2]", Parallel: 1}}},
		SceneStep{ID: "d", Needs: []string{"c"}, Flow: &events.StepFlow{When: "len(steps.c.output) > 2"}},
		SceneStep{ID: "e", Needs: []string{"d"}},
		SceneStep{ID: "f", Needs: []string{"a"}, Flow: &events.StepFlow{Kind: events.ControlWait, Signal: "go"}})
	return s
}

// signal sends each step the signal that it waits for, twice.
func (h *person) signal(runID string, s run.State) {
	if s.Plan == nil || s.Status != events.Running {
		return
	}
	for _, st := range s.Plan.Steps {
		key := "signal " + runID + "/" + st.ID
		if st.Status != events.StepIsRunning || st.Flow == nil || st.Flow.Signal == "" || h.met[key] {
			continue
		}
		if st.Flow.Signal == unsent || st.Flow.Wake != nil && st.Parts < 2 {
			continue // its agent is woken first
		}
		h.met[key] = true
		a := act{events.ControlSubject(station, runID), fmt.Sprintf(`{"action":"signal","signal":%q,"data":1}`, st.Flow.Signal), key}
		h.acts = append(h.acts, a, a)
	}
}

// expanded holds that parts are made once, one number after the other, of a step whose needs are met, and that an
// attempt or a round begins after the one before it.
func (l *ledger) expanded(d *events.StepExpandedData) string {
	st, ok := l.plan[d.Step]
	if !ok || st.Flow == nil || l.steps[d.Step] != "" && l.steps[d.Step] != events.StepExpanded {
		return "step " + d.Step + " has no parts, or has ended"
	}
	for _, dep := range st.Dependencies {
		if l.steps[dep] != events.StepFinished && !l.over(dep) {
			return fmt.Sprintf("parts of %s before %s is finished", d.Step, dep)
		}
	}
	if _, before := l.plan[events.PartID(d.Step, d.From-1)]; before != (d.From > 1) {
		return fmt.Sprintf("part %d of %s is the first, or not", d.From, d.Step)
	}
	for n := 1; n < d.From; n++ {
		switch id := events.PartID(d.Step, n); l.steps[id] {
		case events.StepFinished, events.StepFailed, events.StepSettled:
		default:
			return "part " + id + " has not ended"
		}
	}
	for n := d.From; n < d.From+d.Count; n++ {
		id := events.PartID(d.Step, n)
		if _, twice := l.plan[id]; twice {
			return "part " + id + " is made twice"
		}
		part := st
		part.ID, part.Flow = id, nil
		l.plan[id] = part
		l.partOf[id] = d.Step
	}
	l.steps[d.Step] = events.StepExpanded
	return ""
}

// settled holds that the plan ends a step once, and a step with parts after them.
func (l *ledger) settled(d *events.StepSettledData) string {
	if _, ok := l.plan[d.Step]; !ok {
		return "step " + d.Step + " is not in the plan"
	}
	switch l.steps[d.Step] {
	case events.StepFinished, events.StepFailed, events.StepSettled:
		return "step " + d.Step + " ends twice"
	}
	done := 0
	for id, whole := range l.partOf {
		if whole != d.Step {
			continue
		}
		switch l.steps[id] {
		case events.StepFinished:
			done++
		case events.StepFailed, events.StepSettled:
		default:
			return "part " + id + " has not ended"
		}
	}
	if d.Status == events.StepIsCompleted && l.steps[d.Step] == events.StepExpanded && done == 0 && d.Input == 0 {
		return "no part of " + d.Step + " is finished"
	}
	l.steps[d.Step], l.outcome[d.Step] = events.StepSettled, d.Status
	return ""
}

// over reports whether a step was settled so that others go on, or is a part that has ended.
func (l *ledger) over(id string) bool {
	if l.partOf[id] != "" && l.steps[id] == events.StepFailed {
		return true
	}
	return l.steps[id] == events.StepSettled && (l.outcome[id] != events.StepIsFailed || l.partOf[id] != "")
}

func TestEveryOperationFlow(t *testing.T) {
	t.Run("FORM-1 PLAN-15 SAFE-7 a crash or a duplicate at operations of a run with a control flow: no part is made or ended twice, and it goes on", func(t *testing.T) {
		plays, parts, skips := 0, 0, 0
		someOf(t, smallFlow("pay", "put"), 35, func(out Outcome) {
			plays++
			parts += out.Counts["steps expanded"]
			skips += out.Counts["steps skipped"]
		})
		if plays < 10 || parts < 3*plays || skips < plays {
			t.Errorf("%d plays, in which parts were made %d times and %d steps skipped", plays, parts, skips)
		}
		t.Logf("%d plays, in which parts were made %d times and %d steps skipped", plays, parts, skips)
	})
}

// smallCheckStep is the small world with checks and a step that is nothing else.
func smallCheckStep(first, second string) Scene {
	s := smallChecks(first, second)
	s.Runs[0].Steps = append(s.Runs[0].Steps, SceneStep{ID: "g", Needs: []string{"b"}, Flow: &events.StepFlow{Check: true}})
	return s
}

func TestEveryOperationCheckStep(t *testing.T) {
	t.Run("FORM-1 SAFE-7 a crash or a duplicate at operations of a run with a step that only checks: it ends by its checks, once", func(t *testing.T) {
		plays, claims := 0, 0
		someOf(t, smallCheckStep("pay", "put"), 35, func(out Outcome) {
			plays++
			claims += out.Counts["claims"]
		})
		if plays < 10 || claims < 3*plays {
			t.Errorf("%d plays with %d claims", plays, claims)
		}
		t.Logf("%d plays with %d claims", plays, claims)
	})
}
