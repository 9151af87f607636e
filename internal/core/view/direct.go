package view

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// direct begins the tree of a run on the direct path: its only step runs from the first event on.
func (t *Tree) direct(at time.Time, d *events.RunCreatedData) {
	if !d.Direct {
		return
	}
	t.Direct, t.Started, t.Status = true, at, events.Running
	t.plan(&events.PlanMadeData{Steps: []events.PlanStep{events.OnlyStep(d.Task, d.Agent)}})
	only := t.Steps[0].ID
	t.stepReady(at, &events.StepReadyData{Step: only})
	t.stepAllowed(at, &events.StepAllowedData{Step: only})
}
