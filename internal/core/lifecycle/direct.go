package lifecycle

import "github.com/inspan/inspan/pkg/events"

// Birth is the first event of a run. With that of a run on the direct path it has begun; answers are those of the hooks
// that were asked before, and where one of them holds a run back, its path is the other (core/route).
func Birth(c *events.RunCreatedData, answers []events.HookAnswer) *events.RunCreatedData {
	if !c.Direct {
		return c
	}
	d := *c
	d.Event, d.To, d.Hooks = events.RunStart, events.Running, answers
	d.AgentID, d.AgentName, d.MaxSteps = c.Agent, c.Agent, c.Options.MaxSteps
	return &d
}
