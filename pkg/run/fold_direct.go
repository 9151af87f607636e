package run

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

// direct folds the beginning of a run on the direct path, all of it in its first event: the run has started, its plan
// is one step, and the first turn of that is owed. What asks for more than that is refused, so that a run never goes
// past a person or a hook by the way that it takes.
func (s *State) direct(f events.Event, d *events.RunCreatedData) string {
	_, held := events.Decisive(d.Hooks)
	switch {
	case d.ForkOf != nil:
		return "a fork does not take the direct path"
	case d.Git != nil:
		return "a run that works in git does not take the direct path"
	case d.Accept != nil || d.Agents[d.Agent].Accept != nil:
		return "a run with acceptance checks does not take the direct path"
	case held:
		return "a hook held the run back, so that it does not take the direct path"
	case d.Options.Autonomy < 3:
		return fmt.Sprintf("autonomy %d asks a person before the step, so that the run does not take the direct path",
			d.Options.Autonomy)
	}
	at := f.Time
	s.Status, s.StartedAt = events.Running, &at
	only := events.OnlyStep(d.Task, d.Agent)
	fault := s.planMade(&events.PlanMadeData{TaskID: d.TaskID, Origin: events.OriginSingle,
		Steps: []events.PlanStep{only}}, at)
	if fault != "" {
		return fault
	}
	return s.step(only.ID, events.StepIsPending, func(st *Step) {
		st.Status, st.ReadyAt, st.AllowedAt, st.Owed = events.StepIsRunning, f.Sequence, f.Sequence, f.Sequence
	})
}

// Direct reports whether the run takes the direct path: the same loop, without what the harness adds around it.
func (s *State) Direct() bool { return s.Created != nil && s.Created.Direct }
