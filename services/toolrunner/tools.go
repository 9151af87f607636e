package toolrunner

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// Tools are those of a toolrunner, and those of agents.
type Tools struct {
	All *tool.Registry
	// Of returns the tools of an agent, those of its servers too.
	Of func(events.Agent) *tool.Registry
}

// Find returns the tool of a call among those of the agent that made it.
func (t Tools) Find(s run.State, c run.Call) (tool.Tool, bool) {
	from := t.All
	if st := s.Step(c.Step); st != nil {
		if agent, ok := s.Agent(st.AssignedAgent); ok {
			from = t.Of(agent)
		}
	}
	return from.Get(c.Tool)
}
