package events

import (
	"fmt"
	"time"
)

// RunMode says how a run works while no one watches.
type RunMode string

// The modes of a run. A normal run has a checkpoint at the end of each step. ModeDream has one at each interval as
// well, and a report of what was done is made at its end; ModeOvernight is the same for a run with phases, which are
// its steps.
const (
	ModeNormal    RunMode = "normal"
	ModeDream     RunMode = "dream"
	ModeOvernight RunMode = "overnight"
)

// Options of a run in a mode other than normal, where neither its agent nor its task says otherwise.
const (
	UnattendedTimeout   = 12 * time.Hour
	UnattendedToolCalls = 2000
)

// IntervalCheckpoint is the name of a checkpoint that is not the end of a step.
func IntervalCheckpoint(number int) string { return fmt.Sprintf("interval-%d", number) }

// mode applies the mode of a task to the defaults of its options.
func (t *Task) mode(o *Options) error {
	switch t.Mode {
	case "", ModeNormal:
		return nil
	case ModeDream, ModeOvernight:
	default:
		return fmt.Errorf("mode is %q, want normal, dream or overnight", shorten(string(t.Mode)))
	}
	if t.EternalEngine != nil && !*t.EternalEngine {
		return fmt.Errorf("mode %s needs checkpoints: leave eternal_engine_enabled out", t.Mode)
	}
	if t.Mode == ModeOvernight && t.Plan == nil {
		return fmt.Errorf("mode overnight needs phases: send a plan, whose steps they are")
	}
	o.Mode, o.TimeoutMS, o.MaxToolCalls = t.Mode, UnattendedTimeout.Milliseconds(), UnattendedToolCalls
	return nil
}

// Phase is a part of a run in Dream Mode or overnight. It becomes a step of its plan, whose end is a checkpoint.
type Phase struct {
	// Name is the id of the step. Agent is that of the task where it is empty.
	Name  string `json:"name"`
	Agent string `json:"agent,omitempty"`
	// Task is what is to be done in it, after the task of the run, which each phase is told.
	Task string `json:"task,omitempty"`
	// Accept decides that the phase is done.
	Accept *Accept `json:"accept,omitempty" jsonschema:"oneof_type=object;string"`
}

// CheckPhases returns what is wrong with phases, in words for whoever wrote them.
func CheckPhases(phases []Phase) error {
	if len(phases) > MaxPhases {
		return fmt.Errorf("%d phases, the limit is %d", len(phases), MaxPhases)
	}
	seen := map[string]bool{}
	for i, p := range phases {
		err := CheckID("name", p.Name)
		if err == nil && p.Agent != "" {
			err = CheckID("agent", p.Agent)
		}
		switch {
		case err != nil:
			return fmt.Errorf("phases[%d]: %w", i, err)
		case seen[p.Name]:
			return fmt.Errorf("phases[%d]: there are two phases %q", i, p.Name)
		case p.Accept.Fault() != "":
			return fmt.Errorf("phases[%d]: %s", i, p.Accept.Fault())
		}
		seen[p.Name] = true
	}
	return nil
}

// PhasePlan is the plan of phases: each is a step that follows the one before it.
func PhasePlan(task string, phases []Phase) *TaskPlan {
	if len(phases) == 0 {
		return nil
	}
	plan := &TaskPlan{}
	for i, p := range phases {
		st := TaskStep{ID: p.Name, Agent: p.Agent, Accept: p.Accept,
			Description: fmt.Sprintf("%s\n\nThis is phase %d of %d: %s.", task, i+1, len(phases), p.Name)}
		if p.Task != "" {
			st.Description += " " + p.Task
		}
		if i > 0 {
			st.Dependencies = []string{phases[i-1].Name}
		}
		plan.Steps = append(plan.Steps, st)
	}
	return plan
}

// CheckpointTakenData is the payload of checkpoint.taken.
type CheckpointTakenData struct {
	Event string `json:"event"`
	Name  string `json:"name"`
	// Number of the checkpoint in its run, from 1.
	Number int `json:"checkpoint"`
	// IntervalMS was in force: that of the run at its level of autonomy.
	IntervalMS int64 `json:"interval_ms"`
}

// Kind implements Payload.
func (*CheckpointTakenData) Kind() Kind { return CheckpointTaken }

func (d *CheckpointTakenData) line() string {
	return fmt.Sprintf("checkpoint %d (%s) taken, the interval is %s", d.Number, shorten(d.Name),
		time.Duration(d.IntervalMS)*time.Millisecond)
}
