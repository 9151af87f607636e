package events

import "strings"

// Words of Agent.Harness. Empty means that no one said: the task, or else the default of the program, decides.
const (
	HarnessOn  = "on"
	HarnessOff = "off"
)

// RunStart is the name of the monitoring event with which work on a run begins: that of run.started, and of run.created
// where the run takes the direct path.
const RunStart = "run_start"

// MaxDescription is the most bytes of the description of a step.
const MaxDescription = 8 << 10

// OriginSingle is the origin of a plan of one step that no one wrote down, OriginModel that of one that a model made.
const (
	OriginSingle = "single"
	OriginModel  = "model"
)

// OnlyStep is the step of a run whose task has no plan: all of the task. It is the same for ever, as the fold makes it
// again from run.created where a run takes the direct path.
func OnlyStep(task, agent string) PlanStep {
	if len(task) > MaxDescription {
		task = strings.ToValidUTF8(task[:MaxDescription-3], "") + "..."
	}
	return PlanStep{ID: "step-1", Description: task, Agent: agent, Dependencies: []string{}}
}
