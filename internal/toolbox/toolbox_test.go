package toolbox_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/mcp"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/tools/specs"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

func TestFor(t *testing.T) {
	t.Parallel()
	base, err := specs.Registry()
	if err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`)
	pin := func(name, effect string, input json.RawMessage) events.MCPTool {
		return events.MCPTool{Name: name, Call: "mcp__s__" + name, Description: name, Input: input, Effect: effect}
	}
	stray := pin("stray", "read", schema)
	stray.Call = "mcp__other__stray"
	agent := events.Agent{MCP: []events.MCPServer{{Name: "s", TimeoutMS: 5000, Tools: []events.MCPTool{pin("find", "read", schema), pin("send", "once", schema),
		pin("odd", "reconcilable", schema), pin("bad", "read", json.RawMessage(`{"type":"array"}`)), stray, pin("find", "once", schema)}}}}
	known, runnable := toolbox.New(base, nil), mcp.New(base, nil)
	t.Run("TOOL-19 services that link no MCP client know the same tools of an agent as the one that calls them", func(t *testing.T) {
		t.Parallel()
		a, b := known.For(agent), runnable.For(agent)
		if !slices.Equal(a.Names(), b.Names()) || len(a.Names()) != len(base.Names())+2 {
			t.Fatalf("got %v and %v, want the same: the built-in ones and the two pins that hold", a.Names(), b.Names())
		}
		for _, name := range []string{"mcp__s__find", "mcp__s__send"} {
			one, _ := a.Get(name)
			other, _ := b.Get(name)
			if x, y := one.Spec(), other.Spec(); x.EffectOf() != y.EffectOf() || x.TimeoutOf() != y.TimeoutOf() || x.Description != y.Description || string(x.Input) != string(y.Input) {
				t.Errorf("%s: %+v and %+v", name, x, y)
			}
			if err := a.Check(name, []byte(`{"p":1}`)); tool.ClassOf(err) != tool.Invalid {
				t.Errorf("%s: arguments that do not fit: %v", name, err)
			}
			if _, err := one.Run(t.Context(), tool.Call{}); tool.ClassOf(err) != tool.Permanent {
				t.Errorf("%s: run by whoever knows its specification alone: %v", name, err)
			}
		}
	})
	t.Run("PLUS-12a GIT-10 an agent that is a program has its driver, what it does inside, and what the harness calls in its own steps", func(t *testing.T) {
		t.Parallel()
		all := known.For(events.Agent{Runtime: &events.Runtime{Name: "p"}})
		want := []string{events.ToolRuntime}
		want = append(want, events.InnerTools()...)
		for _, kind := range []events.StepKind{events.StepCheckout, events.StepCommit, events.StepDeliver} {
			want = append(want, delivery.Tools(&run.Step{Kind: kind})...)
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(all.Names())); !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("got %v, want %v", got, slices.Compact(want))
		}
	})
	t.Run("TOOL-19 an agent without servers has the tools that all have", func(t *testing.T) {
		t.Parallel()
		if known.For(events.Agent{}) != known.Base() {
			t.Error("another registry")
		}
	})
}
