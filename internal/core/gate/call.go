package gate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// judgeCall is the verdict on one requested call: refused, allowed, a gate, or nothing while a gate is pending. The
// order is: permission, arguments, guards, budget, hooks. left is the budget that is left for it. unasked is true where
// the arguments have to be fetched or the hooks to be asked first.
func judgeCall(s run.State, c *run.Call, now time.Time, law Policy, left int) (say []events.Payload, unasked bool) {
	j := judging{s: s, c: c, now: now, policy: law, left: left, ref: events.ToolRef{Step: c.Step, Call: c.ID,
		Tool: c.Tool, Parent: c.Parent}}
	st := s.Step(c.Step)
	if st == nil {
		return j.refuse(events.RefusedPermission, "", "the call belongs to no step", ""), false
	}
	agent, ok := s.Agent(st.AssignedAgent)
	may := agent.Tools
	if j.harness = st.Harness(); j.harness {
		may = delivery.Tools(st)
	}
	if !ok || !slices.Contains(may, c.Tool) {
		return j.refuse(events.RefusedPermission, "allowed-set",
			fmt.Sprintf("agent %s may not use the tool %q", st.AssignedAgent, c.Tool),
			"use one of: "+strings.Join(may, ", ")), false
	}
	tool, ok := law.Tool(agent, c.Tool)
	if !ok {
		return j.refuse(events.RefusedUnknown, "", fmt.Sprintf("this station has no tool %q", c.Tool),
			"use another tool; an operator can add this one to a toolrunner"), false
	}
	input, edited, err := inputOf(s, c, law)
	if errors.Is(err, ErrNotFetched) {
		return nil, true
	}
	if err != nil {
		return j.refuse(events.RefusedInput, "", "the arguments are unreadable: "+err.Error(), "retry the call"), false
	}
	if string(input) == `"`+events.CutOff+`"` {
		return j.refuse(events.RefusedInput, "", events.CutOff, "retry with shorter arguments"), false
	}
	if err := law.Check(agent, c.Tool, input); err != nil {
		return j.refuse(events.RefusedInput, "", err.Error(), "fix the arguments and retry"), false
	}
	if why := delivery.Early(s, st, c.Tool); why != "" {
		return j.refuse(events.RefusedPermission, delivery.RuleChecks, why,
			"call the step done: the work is pushed at the end of the run"), false
	}
	if why := delivery.Unbound(s, c.Step, c.Tool, input); why != "" {
		return j.refuse(events.RefusedInput, delivery.RuleApproval, why,
			"call git_prepare with sides, and give its commit as onto and those of the sides as commits"), false
	}
	rules, err := law.Rules(agent)
	if err != nil {
		return j.refuse(events.RefusedGuard, "guard-error", "the guard rules are unreadable: "+err.Error(),
			"an operator must fix the agent's guard rules"), false
	}
	j.name = cmp.Or(tool.Rule, c.Tool)
	j.action = law.Action(j.name, input)
	verdict := rules.Judge(j.action)
	if verdict.Action == guard.Ask && !j.harness && s.GateFor(c.Step, c.ID) == nil {
		standing, known := law.standing(s, now)
		if !known {
			return nil, true
		}
		verdict, j.grants = granted(rules, j.name, j.action, input, standing)
	}
	if why, gated := delivery.Gated(s, c.Step, c.Tool); gated && verdict.Action == guard.Allow {
		verdict = guard.Verdict{Action: guard.Ask, Rule: delivery.RuleApproval, Reason: why}
	}
	j.edited = edited
	j.tool, j.input, j.hash, j.rules = tool, input, digest(input), rules
	j.terms = law.Terms.Strictest(agent.Gates).Strictest(rules.Terms(verdict.Rule))
	return j.conclude(agent, verdict)
}

// inputOf returns the arguments that are judged: those that the model gave, or those that a person approved instead.
func inputOf(s run.State, c *run.Call, law Policy) (input json.RawMessage, edited bool, err error) {
	if g := s.GateFor(c.Step, c.ID); g != nil && g.Status == run.GateApproved && len(g.Edited) > 0 {
		return g.Edited, true, nil
	}
	input, err = law.Input(c)
	return input, false, err
}

// judging is one call while it is judged.
type judging struct {
	s      run.State
	c      *run.Call
	now    time.Time
	policy Policy
	left   int
	ref    events.ToolRef
	tool   Tool
	input  json.RawMessage
	// harness is true for a call of a step of the harness: it has its own tools, and no place in the budget.
	harness bool
	// edited is true where input is what a person approved instead of what was asked for.
	edited bool
	// terms of the gate, where one is opened.
	terms events.GateTerms
	// hash of the arguments, rules the rule set.
	hash  string
	rules guard.Set
	// answers of the hooks about this call.
	answers []events.HookAnswer
	// name that the rules know the tool by, and the action that they judged.
	name   string
	action guard.Action
	// grants that answer the questions of all rules that ask.
	grants []events.GrantUse
}

func (j *judging) refuse(code, rule, reason, hint string) []events.Payload {
	return []events.Payload{&events.CallRefusedData{Event: "tool_refused", ToolRef: j.ref, Code: code, Rule: rule,
		Reason: reason, Hint: hint,
		RulesDigest: j.rules.Digest(), Hooks: j.answers}}
}

// ruleDoomLoop stands where the rule's name does when an agent goes round in circles.
const ruleDoomLoop = "doom-loop"

// conclude says what follows from the verdict of the rules. The hooks are asked once, before a gate is opened: a person
// who answers it has seen what they said.
func (j *judging) conclude(agent events.Agent, verdict guard.Verdict) (say []events.Payload, unasked bool) {
	if slices.Contains(j.s.Unknown, j.c.Tool+":"+j.hash) && verdict.Action != guard.Deny {
		verdict = guard.Verdict{Action: guard.Ask, Rule: "outcome-unknown",
			Reason: "the same call started before and it is unknown whether it took effect"}
	}
	var round loop.Circle
	if !j.harness && j.c.Parent == "" { // a program of others is no loop of ours
		round = j.policy.rounds.Asking(j.c.Step, j.c.Tool)
	}
	if round.Grade == loop.Gate && verdict.Action == guard.Allow {
		verdict = guard.Verdict{Action: guard.Ask, Rule: ruleDoomLoop, Reason: round.String() + ": the agent is in a loop"}
	}
	switch g := j.s.GateFor(j.c.Step, j.c.ID); {
	case !j.harness && j.c.Parent == "" && j.policy.rounds.Surplus(j.c):
		return j.refuse(events.RefusedDoomLoop, ruleDoomLoop, "the same call was requested too often in one turn",
			"read the results of the other calls"), false
	case round.Grade == loop.End:
		return j.refuse(events.RefusedDoomLoop, ruleDoomLoop, round.String(), "the step ends"), false
	case verdict.Action == guard.Deny:
		return j.refuse(events.RefusedGuard, verdict.Rule, verdict.Reason,
			"use another approach; this action is not permitted"), false
	case j.left <= 0 && !j.harness:
		return j.refuse(events.RefusedBudget, "",
				fmt.Sprintf("the run's budget of %d tool calls is used up", j.s.Options.MaxToolCalls), "finish with what you have"),
			false
	case g != nil:
		return j.answered(g, verdict), false
	}
	if j.policy.Hooks != nil {
		var asked bool
		if j.answers, asked = j.policy.Hooks(agent, j.c, j.tool.Effect, j.input); !asked {
			return nil, true
		}
	}
	a, held := events.Decisive(j.answers)
	switch {
	case held && a.Answer != events.HookInterrupt:
		return j.refuse(events.RefusedHook, "hook:"+a.Hook, hook.Why(a),
			"use another approach; this action is not permitted"), false
	case held && verdict.Action == guard.Ask:
		return j.askPerson(guard.Verdict{Rule: "hook:" + a.Hook, Reason: hook.Why(a) + "; and " + verdict.Rule + ": " +
			verdict.Reason}), false
	case held:
		return j.askPerson(guard.Verdict{Rule: "hook:" + a.Hook, Reason: hook.Why(a)}), false
	case verdict.Action == guard.Allow:
		return []events.Payload{j.allow(verdict.Rule)}, false
	}
	return j.askPerson(verdict), false
}

func (j *judging) allow(rule string) *events.CallAllowedData {
	allowed := &events.CallAllowedData{Event: "tool_allowed", ToolRef: j.ref, Effect: j.tool.Effect, InputHash: j.hash,
		TimeoutMS: j.tool.TimeoutMS, Rule: rule, RulesDigest: j.rules.Digest(), BudgetLeft: j.left - 1, Edited: j.edited,
		Hooks: j.answers, Grants: j.grants}
	if j.harness {
		allowed.BudgetLeft = j.left
	}
	if j.tool.Effect == "read" {
		allowed.Event, allowed.Input = "tool_start", events.Preview(j.input)
	}
	return allowed
}

// askPerson opens a gate for the call.
func (j *judging) askPerson(v guard.Verdict) []events.Payload {
	p := callProposal{Run: j.s.HarnessID, Step: j.c.Step, Call: j.c.ID, Tool: j.c.Tool, InputHash: j.hash,
		Workspace: workspace(j.s)}
	if len(j.input) <= events.MaxInlineInput {
		p.Input = j.input
	}
	proposal, err := json.Marshal(p)
	if err != nil {
		return j.refuse(events.RefusedInput, "", "the arguments are not JSON: "+err.Error(), "fix the arguments and retry")
	}
	g := open(j.s, position{step: j.c.Step, call: j.c.ID}, proposal, j.c.Tool+" "+events.Preview(j.input), v.Reason,
		v.Rule)
	g.Hooks = j.answers
	setTerms(g, j.now, j.terms)
	if !j.harness && g.Approvers < 2 {
		g.Always = offer(v.Rule, j.rules, j.name, j.action, j.input)
	}
	return []events.Payload{g}
}

// answered says what follows from the gate that stands before the call.
func (j *judging) answered(g *run.Gate, v guard.Verdict) []events.Payload {
	rule := v.Rule
	if rule == "" {
		rule = g.Rule
	}
	switch {
	case g.Status == run.GatePending:
		return nil
	case g.Status == run.GateApproved:
		allowed := j.allow(rule)
		allowed.Gate = g.ID
		return []events.Payload{allowed}
	case g.Resolution > j.s.ResumedAt && !j.harness:
		return nil // rejected, and the run not yet paused for it
	case g.Status == run.GateExpired:
		return j.refuse(events.RefusedByPerson, rule, g.Reason,
			"use another approach, or retry when a person is available to decide")
	}
	return j.refuse(events.RefusedByPerson, rule, fmt.Sprintf("%s rejected it: %s", g.By, g.Reason),
		"do not retry this; use another approach or finish")
}

func workspace(s run.State) string {
	if s.Created == nil {
		return ""
	}
	return s.Created.Workspace
}
