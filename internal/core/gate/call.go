package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// judgeCall is the verdict on one requested call: refused, allowed, a gate, or nothing while a gate is pending. The
// order is: permission, arguments, guards, budget. left is the budget that is left for it.
func judgeCall(s run.State, c *run.Call, law Law, left int) []events.Payload {
	ref := events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool}
	refuse := func(code, rule, reason, hint string) []events.Payload {
		return []events.Payload{&events.CallRefusedData{Event: "tool_refused", ToolRef: ref, Code: code, Rule: rule, Reason: reason, Hint: hint}}
	}
	st := s.Step(c.Step)
	if st == nil {
		return refuse(events.RefusedPermission, "", "the call belongs to no step", "")
	}
	agent, ok := s.Agent(st.AssignedAgent)
	if !ok || !slices.Contains(agent.Tools, c.Tool) {
		return refuse(events.RefusedPermission, "allowed-set", fmt.Sprintf("agent %s may not use the tool %q", st.AssignedAgent, c.Tool),
			"use one of: "+strings.Join(agent.Tools, ", "))
	}
	tool, ok := law.Tool(agent, c.Tool)
	if !ok {
		return refuse(events.RefusedUnknown, "", fmt.Sprintf("there is no tool %q on this station", c.Tool), "use another tool; the operator can add it to a toolrunner")
	}
	input, err := law.Input(c)
	if err != nil {
		return refuse(events.RefusedInput, "", "the arguments can not be read: "+err.Error(), "send the call again")
	}
	if err := law.Check(agent, c.Tool, input); err != nil {
		return refuse(events.RefusedInput, "", err.Error(), "mend the arguments and call again")
	}
	rules, err := law.Rules(agent)
	if err != nil {
		return refuse(events.RefusedGuard, "guard-error", "the guard rules can not be read: "+err.Error(), "an operator must mend the agent's guard rules")
	}
	verdict := rules.Judge(law.Action(cmp.Or(tool.Rule, c.Tool), input))
	hash := digest(input)
	if slices.Contains(s.Unknown, c.Tool+":"+hash) && verdict.Action != "deny" {
		verdict = guard.Verdict{Action: "ask", Rule: "outcome-unknown", Reason: "the same call began before and nobody knows whether it took effect"}
	}
	allowed := &events.CallAllowedData{Event: "tool_allowed", ToolRef: ref, Effect: tool.Effect, InputHash: hash,
		TimeoutMS: tool.TimeoutMS, Rule: verdict.Rule, RulesDigest: rules.Digest(), BudgetLeft: left - 1}
	if tool.Effect == "read" {
		allowed.Event, allowed.Input = "tool_start", events.Preview(input)
	}
	switch {
	case verdict.Action == "deny":
		return refuse(events.RefusedGuard, verdict.Rule, verdict.Reason, "find another way; this action is not permitted")
	case left <= 0:
		return refuse(events.RefusedBudget, "", fmt.Sprintf("the run's budget of %d tool calls is used up", s.Options.MaxToolCalls), "finish with what you have")
	case verdict.Action == "allow":
		return []events.Payload{allowed}
	}
	return askPerson(s, c, input, verdict, allowed, refuse)
}

// askPerson handles a call that a rule sends to a person.
func askPerson(s run.State, c *run.Call, input json.RawMessage, v guard.Verdict, allowed *events.CallAllowedData,
	refuse func(code, rule, reason, hint string) []events.Payload) []events.Payload {
	g := s.GateFor(c.Step, c.ID)
	switch {
	case g == nil:
		p := callProposal{Run: s.HarnessID, Step: c.Step, Call: c.ID, Tool: c.Tool, InputHash: allowed.InputHash, Workspace: workspace(s)}
		if len(input) <= events.MaxInlineInput {
			p.Input = input
		}
		proposal, err := json.Marshal(p)
		if err != nil {
			return refuse(events.RefusedInput, "", "the arguments are not JSON: "+err.Error(), "mend the arguments and call again")
		}
		return []events.Payload{open(s, place{step: c.Step, call: c.ID}, proposal,
			c.Tool+" "+events.Preview(input), v.Reason, v.Rule)}
	case g.Status == run.GatePending:
		return nil
	case g.Status == run.GateApproved:
		allowed.Gate = g.ID
		return []events.Payload{allowed}
	case g.Resolution > s.ResumedAt:
		return nil // rejected, and the run not yet paused for it
	}
	return refuse(events.RefusedByPerson, v.Rule, fmt.Sprintf("%s said no: %s", g.By, g.Reason), "do not try this again; find another way or finish")
}

func workspace(s run.State) string {
	if s.Created == nil {
		return ""
	}
	return s.Created.Workspace
}
