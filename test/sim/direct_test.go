package sim

import (
	"math/rand/v2"

	"github.com/inspan/inspan/pkg/events"
)

// onlyStep is the id of the step of a run without a plan.
const onlyStep = "step-1"

// anotherTask is what a task says that takes the id of a run for itself.
const anotherTask = "another"

// direct makes a run one whose task is marked as short: it has one step and no plan. Where its autonomy level asks
// before the step, it must be wrapped all the same.
func (r *SceneRun) direct() {
	r.Direct, r.Planned = true, false
	r.Steps = r.Steps[:1]
	r.Steps[0].ID, r.Steps[0].Needs, r.Steps[0].Critical = onlyStep, nil, false
}

// direct draws which runs are.
func (s *Scene) direct(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0xd12ec7))
	for i := range s.Runs {
		if rng.IntN(3) == 0 {
			s.Runs[i].direct()
		}
	}
}

// smallDirect is the small world of direct runs: one run, two turns with a call each.
func smallDirect(first, second string) Scene {
	s := small(first, second)
	r := &s.Runs[0]
	r.Steps[0].Turns = append(r.Steps[0].Turns, r.Steps[1].Turns...)
	r.direct()
	return s
}

// birth holds C30 and LIFE-13: a run is direct exactly where its task is marked as short, no one has to permit its step
// and it works in no session, and a direct run has begun with its first event.
func (a *audit) birth(runID string, l *ledger, d *events.RunCreatedData) string {
	r := a.w.play.Scene.run(runID)
	marked := r.Direct && d.Task != anotherTask // somebody else's task was faster
	if want := marked && r.Autonomy >= 3 && d.Session == "" && !r.Checked; d.Direct != want && (d.Direct || !r.held()) {
		return "the path is not the one of its task"
	}
	if !d.Direct {
		return ""
	}
	l.direct = true
	l.plan[onlyStep] = events.PlanStep{ID: onlyStep}
	l.steps[onlyStep] = events.StepAllowed
	a.w.tale.counts["direct runs"]++
	return ""
}

// around holds C30: what the harness adds around the loop is not there in a direct run.
func (l *ledger) around(k events.Kind) string {
	switch k {
	case events.RunStarted, events.PlanMade, events.PlanCompleted, events.StepReady, events.StepAllowed, events.CheckpointSaved:
		if l.direct {
			return "a direct run has none"
		}
	default:
	}
	return ""
}
