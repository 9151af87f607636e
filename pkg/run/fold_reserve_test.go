package run_test

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestFoldReserve(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 SUB-6 what a child holds is not below zero and not more than what is left, of each budget", func(t *testing.T) {
		t.Parallel()
		created := runtest.Created()
		created.Options.MaxToolCalls, created.Options.MaxTokens, created.Options.MaxCost = 5, 1000, 2000
		step := func(id string) events.PlanStep {
			st := runtest.Step(id)
			st.Child = events.ChildOwn
			return st
		}
		b := grown(created, runtest.Started(), runtest.Plan(step("a"), step("b")), runtest.Ready("a"), runtest.Allowed("a"),
			runtest.Ready("b"), runtest.Allowed("b"))
		b.Append(runtest.Spawned(b.State(), "a", events.Reserve{ToolCalls: 3, Tokens: 600, Cost: 1500}))
		for _, c := range []struct {
			r   events.Reserve
			why string
		}{
			{events.Reserve{ToolCalls: 3, Tokens: 400, Cost: 500}, "holds 3 tool calls and 2 are left"},
			{events.Reserve{ToolCalls: -1, Tokens: 400, Cost: 500}, "holds -1 tool calls"},
			{events.Reserve{ToolCalls: 2, Tokens: 401, Cost: 500}, "holds 401 tokens of a budget of 1000"},
			{events.Reserve{ToolCalls: 2, Tokens: -1, Cost: 500}, "holds -1 tokens"},
			{events.Reserve{ToolCalls: 2, Tokens: 400, Cost: 501}, "of which $0.00 are used and $0.0015 held"},
			{events.Reserve{ToolCalls: 2, Tokens: 400, Cost: -1}, "held"},
			{events.Reserve{ToolCalls: 2, Tokens: 400}, "held"},
		} {
			refuses(t, b, runtest.Spawned(b.State(), "b", c.r), c.why)
		}
		b.Append(runtest.Spawned(b.State(), "b", events.Reserve{ToolCalls: 2, Tokens: 400, Cost: 500}))
	})
}
