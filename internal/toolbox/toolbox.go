// Package toolbox knows which tools each agent has: those that every agent may have, and those that an operator pinned
// of its MCP servers and of programs that serve tools over NATS.
//
// Promises: a pin that does not hold (an effect class that does not exist, a schema that is none, a name that is taken)
// is left out, so its calls are refused as those of an unknown tool. What carries a pinned tool out is made by whoever
// runs calls; everyone else knows its specification alone and links nothing that could run it.
package toolbox

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// Toolbox knows the tools of agents. It is safe for concurrent use.
type Toolbox struct {
	base   *tool.Registry
	make   func(events.MCPServer, events.MCPTool) tool.Tool
	served func(events.ServedTool) tool.Tool
	// runtime makes the tool that drives the program of an agent.
	runtime func(events.Agent) tool.Tool
	mu      sync.Mutex
	// known registries by the digest of the pins they are made of, guarded by mu.
	known map[[sha256.Size]byte]*tool.Registry
}

// maxKnown bounds the registries that are kept; they are made again where they are missing.
const maxKnown = 256

// New makes a toolbox. make makes a pinned tool that can be run; nil knows the specification of each alone.
func New(base *tool.Registry, make func(events.MCPServer, events.MCPTool) tool.Tool) *Toolbox {
	if make == nil {
		make = func(s events.MCPServer, p events.MCPTool) tool.Tool { return Known(SpecOf(s, p)) }
	}
	served := func(p events.ServedTool) tool.Tool { return Known(SpecOfServed(p)) }
	program := func(events.Agent) tool.Tool { return Known(SpecOfRuntime()) }
	return &Toolbox{base: base, make: make, served: served, runtime: program,
		known: map[[sha256.Size]byte]*tool.Registry{}}
}

// WithRuntimes returns a toolbox that makes the tool of agents which are programs of others in this way.
func (b *Toolbox) WithRuntimes(make func(events.Agent) tool.Tool) *Toolbox {
	other := New(b.base, b.make)
	other.served, other.runtime = b.served, make
	return other
}

// WithServed returns a toolbox that makes the tools which are served over NATS in this way.
func (b *Toolbox) WithServed(make func(events.ServedTool) tool.Tool) *Toolbox {
	other := New(b.base, b.make)
	other.served, other.runtime = make, b.runtime
	return other
}

// Base returns the tools that every agent may have.
func (b *Toolbox) Base() *tool.Registry { return b.base }

// For returns the tools of an agent.
func (b *Toolbox) For(a events.Agent) *tool.Registry {
	if len(a.MCP) == 0 && len(a.Served) == 0 && a.Runtime == nil {
		return b.base
	}
	doc, err := json.Marshal([]any{a.MCP, a.Served, a.Runtime, a.Runtime != nil && a.Sandbox.Network})
	if err != nil {
		return b.base // a pinned schema that is no JSON: nothing of it is offered
	}
	key := sha256.Sum256(doc)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.known[key]; r != nil {
		return r
	}
	if len(b.known) >= maxKnown {
		clear(b.known)
	}
	r := b.programs(a)
	if r == nil {
		r = b.build(a.MCP, a.Served)
	}
	b.known[key] = r
	return r
}

// ofHarness are the tools that the harness calls in its own steps, whoever carries out those of the agent.
func ofHarness() []string {
	return []string{events.GitPrepare, events.GitCommit, events.GitMerge, events.GitPublish, events.GitPush,
		events.GitReview, events.GitRemove}
}

// programs are the tools of an agent that is a program of others: the one that drives it, those that stand for what it
// does inside, which nothing here carries out, and those of the steps of the harness. It is nil for all other agents.
func (b *Toolbox) programs(a events.Agent) *tool.Registry {
	if a.Runtime == nil {
		return nil
	}
	all := []tool.Tool{b.runtime(a)}
	for _, name := range events.InnerTools() {
		all = append(all, Known(tool.Spec{Name: name, Description: "What a program of others does inside.", Effect: tool.Once,
			Input: json.RawMessage(`{"type":"object"}`)}))
	}
	for _, name := range ofHarness() {
		if t, ok := b.base.Get(name); ok {
			all = append(all, t)
		}
	}
	r, err := tool.NewRegistry(all...)
	if err != nil {
		return b.base // the names are fixed, so this does not happen
	}
	return r
}

// runtimeTimeout bounds one prompt; the run has limits of its own.
const runtimeTimeout = 24 * time.Hour

// SpecOfRuntime is what the tool says of itself that drives the program of an agent.
func SpecOfRuntime() tool.Spec {
	return tool.Spec{Name: events.ToolRuntime,
		Description: "Gives a prompt to the program that carries out the agent's steps.",
		Effect:      tool.Reconcilable, Timeout: runtimeTimeout, Input: json.RawMessage(
			`{"type":"object","additionalProperties":false,"required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}}}`)}
}

func (b *Toolbox) build(servers []events.MCPServer, served []events.ServedTool) *tool.Registry {
	var all []tool.Tool
	taken := map[string]bool{}
	for _, name := range b.base.Names() {
		t, _ := b.base.Get(name)
		all, taken[name] = append(all, t), true
	}
	for _, s := range servers {
		for _, pin := range s.Tools {
			if taken[pin.Call] || Check(s, pin) != nil {
				continue
			}
			all, taken[pin.Call] = append(all, b.make(s, pin)), true
		}
	}
	for _, pin := range served {
		if taken[pin.Name] || CheckServed(pin) != nil {
			continue
		}
		all, taken[pin.Name] = append(all, b.served(pin)), true
	}
	r, err := tool.NewRegistry(all...)
	if err != nil {
		return b.base // each was checked by itself, so this does not happen; nothing is offered if it does
	}
	return r
}

// SpecOf is what a pinned tool says of itself.
func SpecOf(s events.MCPServer, p events.MCPTool) tool.Spec {
	return tool.Spec{Name: p.Call, Description: p.Description, Input: p.Input, Effect: tool.Effect(p.Effect),
		Timeout: time.Duration(s.TimeoutMS) * time.Millisecond}
}

// Check reports why a pin does not hold.
func Check(s events.MCPServer, p events.MCPTool) error {
	switch tool.Effect(p.Effect) {
	case tool.Read, tool.Idempotent, tool.Once:
	default:
		return fmt.Errorf("effect class %q is none of read, idempotent, once", p.Effect)
	}
	if !strings.HasPrefix(p.Call, "mcp__"+s.Name+"__") {
		return fmt.Errorf("name %q is not one of server %s", p.Call, s.Name)
	}
	_, err := tool.NewRegistry(Known(SpecOf(s, p)))
	return err
}

// SpecOfServed is what a pinned tool that is served over NATS says of itself.
func SpecOfServed(p events.ServedTool) tool.Spec {
	return tool.Spec{Name: p.Name, Description: p.Description, Input: p.Input, Effect: tool.Effect(p.Effect),
		Timeout: time.Duration(p.TimeoutMS) * time.Millisecond}
}

// CheckServed reports why the pin of a tool that is served over NATS does not hold.
func CheckServed(p events.ServedTool) error {
	if err := wire.Spec(p).Check(); err != nil {
		return err
	}
	_, err := tool.NewRegistry(Known(SpecOfServed(p)))
	return err
}

// Known is a tool of which only the specification is known here.
func Known(s tool.Spec) tool.Tool { return known{s} }

type known struct{ spec tool.Spec }

// Spec implements tool.Tool.
func (k known) Spec() tool.Spec { return k.spec }

// Run implements tool.Tool: it cannot be run here.
func (k known) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, tool.Fail(tool.Permanent, "", errors.New("the tool "+k.spec.Name+" is not run by this service"))
}
