package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Agents keeps agent definitions in the configuration bucket, under "agent.{name}".
type Agents struct {
	KV kernel.KV
	// Defaults of agents that are registered and do not say otherwise.
	Defaults agentfile.Defaults
}

const agentPrefix = topology.AgentKeys

// Agent implements planner.Agents. It leaves out the subscriptions, which no run needs.
func (a *Agents) Agent(ctx context.Context, name string) (events.Agent, error) {
	if !events.ValidID(name) {
		return events.Agent{}, kernel.ErrNotFound
	}
	b, err := a.KV.Get(ctx, agentPrefix+name)
	if err != nil {
		return events.Agent{}, fmt.Errorf("agent %s: %w", name, err)
	}
	var def events.Agent
	if err := json.Unmarshal(b, &def); err != nil {
		return events.Agent{}, fmt.Errorf("agent %s in the configuration bucket: %w", name, err)
	}
	def.Subscribe = nil
	return def, nil
}

// Names implements planner.Agents.
func (a *Agents) Names(ctx context.Context) ([]string, error) {
	keys, err := a.KV.Keys(ctx, agentPrefix)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	for i, k := range keys {
		keys[i] = strings.TrimPrefix(k, agentPrefix)
	}
	return keys, nil
}
