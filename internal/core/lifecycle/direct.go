package lifecycle

import "github.com/inspan/inspan/pkg/events"

// directly is the one fact that a run on the direct path begins with. answers are those of the hooks that were asked
// before; where one of them holds the run back, its path is another (core/route).
func directly(c *events.RunCreatedData, answers []events.HookAnswer) *events.RunCreatedData {
	d := *c
	d.Event, d.To, d.Hooks = events.RunStart, events.Running, answers
	d.AgentID, d.AgentName, d.MaxSteps = c.Agent, c.Agent, c.Options.MaxSteps
	return &d
}
