package replay

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// deciding is one fact that is decided again, in the state before it.
type deciding struct {
	law Law
	s   run.State
	f   events.Fact
}

// taken says that a fact is taken as recorded.
func taken() ([]events.Payload, bool, error) { return nil, false, nil }

func said(say []events.Payload, err error) ([]events.Payload, bool, error) { return say, true, err }

// decide returns what the role would say today; again is false for what is taken as recorded.
func (d deciding) decide(p events.Payload) (say []events.Payload, again bool, err error) {
	word, _ := events.Lookup(p.Kind())
	switch word.Author {
	case events.Planner:
		return d.planner(p)
	case events.Gatekeeper:
		return d.gatekeeper(p)
	case events.Executor:
		return d.executor(p)
	case events.Toolrunner:
		return d.toolrunner(p)
	case events.Persister: // decides nothing
	}
	return taken()
}

func (d deciding) planner(p events.Payload) (say []events.Payload, again bool, err error) {
	s, now := d.s, d.f.Time
	switch p := p.(type) {
	case *events.RunStartedData:
		created := *s.Created
		created.Agents = s.Agents
		if created.ForkOf != nil {
			return said(lifecycle.Fork(s, now, &created, nil, p.Hooks))
		}
		return said(lifecycle.Begin(s, now, &created, nil, p.Hooks))
	case *events.PlanMadeData:
		if p.Origin == events.OriginSingle {
			return []events.Payload{delivery.Wrap(s.Created.Git, plan.Single(s.TaskID, s.Created.Task, s.AgentName))}, true, nil
		}
		known := func(agent string) bool { _, here := s.Agents[agent]; _, more := p.Agents[agent]; return here || more }
		return []events.Payload{p}, true, plan.Check(p.Steps, known)
	case *events.PlanRevisedData:
		return said(plan.Revise(s, plan.Revision{Plan: given(p.Steps), Agents: p.Agents, Prices: p.Prices, By: p.By, Reason: p.Reason, Input: p.Input}))
	case *events.StepReadyData, *events.PlanCompletedData:
		return said(lifecycle.Progress(s, now))
	case *events.RunCompletedData:
		say, err = lifecycle.Progress(s, now)
		say, _ = lifecycle.AtStop(s, say, true, p.Hooks)
		return said(say, err)
	case *events.RunFailedData:
		return d.failed(p)
	case *events.RunPausedData:
		switch {
		case p.Gate != "":
			return said(lifecycle.Rejected(s, now))
		case s.Held != nil || len(p.Hooks) > 0:
			return taken() // a hook stopped it
		}
		return said(lifecycle.Pause(s, now, lifecycle.Wish{By: p.By, Reason: p.Reason, Input: p.Input}))
	case *events.RunResumedData:
		return said(lifecycle.Resume(s, lifecycle.Wish{By: p.By, Input: p.Input}))
	case *events.RunAdjustedData:
		return said(lifecycle.Adjust(s, p.Autonomy, lifecycle.Wish{By: p.By, Input: p.Input}))
	}
	return taken() // a task, a fork or a move: asked for from outside
}

// given are the steps of a revision as they were asked for, without that of the harness.
func given(steps []events.PlanStep) *events.TaskPlan {
	p := &events.TaskPlan{}
	for _, st := range steps {
		if st.Kind == "" {
			p.Steps = append(p.Steps, events.TaskStep{ID: st.ID, Description: st.Description, Agent: st.Agent, Dependencies: st.Dependencies, Critical: st.Critical})
		}
	}
	return p
}

func (d deciding) failed(p *events.RunFailedData) (say []events.Payload, again bool, err error) {
	switch {
	case p.FinishReason == events.FinishStep:
		say, err = lifecycle.Progress(d.s, d.f.Time)
	case p.FinishReason == events.FinishTimeout:
		say, err = lifecycle.Timeout(d.s, d.f.Time)
	case p.FinishReason == events.FinishExpired:
		say, err = lifecycle.Rejected(d.s, d.f.Time)
	default:
		return taken() // somebody stopped it, a hook did, or there was no plan
	}
	say, _ = lifecycle.AtStop(d.s, say, true, p.Hooks)
	return said(say, err)
}

func (d deciding) gatekeeper(p events.Payload) (say []events.Payload, again bool, err error) {
	switch p := p.(type) {
	case *events.GateApprovedData:
		return d.answer(p.GateAnswer, "approve")
	case *events.GateVotedData:
		return d.answer(p.GateAnswer, "approve")
	case *events.GateRejectedData:
		return d.answer(p.GateAnswer, "reject")
	case *events.CallAllowedData:
		return d.verdict(p.Call, p.Hooks)
	case *events.CallRefusedData:
		if p.Code == events.RefusedUnknown {
			return taken() // what a toolrunner had then is not known here
		}
		return d.verdict(p.Call, p.Hooks)
	case *events.GateOpenedData:
		return d.verdict(p.Call, p.Hooks)
	case *events.StepAllowedData, *events.GateExpiredData:
		return d.verdict("", nil)
	}
	return taken()
}

// verdict asks what the gatekeeper owes the state, with the answers that hooks gave about a call then.
func (d deciding) verdict(callID string, hooks []events.HookAnswer) (say []events.Payload, again bool, err error) {
	if c := d.s.Open[callID]; callID != "" {
		if c == nil || !d.judgeable(c) {
			return taken()
		}
	}
	law := d.law.Law
	law.Hooks = func(_ events.Agent, c *run.Call, _ string, _ json.RawMessage) ([]events.HookAnswer, bool) {
		return hooks, c.ID == callID
	}
	return said(gate.Look(d.s, d.f.Time, law))
}

// judgeable reports whether all that the verdict on a call rests on is here.
func (d deciding) judgeable(c *run.Call) bool {
	st := d.s.Step(c.Step)
	if st == nil {
		return false
	}
	agent, _ := d.s.Agent(st.AssignedAgent)
	if (st.Kind != "" || slices.Contains(agent.Tools, c.Tool)) && !d.law.Knows(agent, c.Tool) {
		return false
	}
	g := d.s.GateFor(c.Step, c.ID)
	return c.InputRef == nil || g != nil && len(g.Edited) > 0
}

func (d deciding) answer(a events.GateAnswer, decision string) (say []events.Payload, again bool, err error) {
	r := gate.Reply{Gate: a.Gate, Decision: decision, Reason: a.Reason, By: a.By, Assurance: a.Assurance, Hash: a.ProposalHash,
		Key: a.Key, Signature: a.Signature, Edited: a.EditedInput, Input: a.Input}
	if len(a.EditedInput) > 0 {
		if c := d.s.Open[a.Call]; c == nil || !d.judgeable(&run.Call{RequestedCall: events.RequestedCall{ID: c.ID, Tool: c.Tool}, Step: c.Step}) {
			return taken()
		}
	}
	law := d.law.Law
	law.Hooks = func(events.Agent, *run.Call, string, json.RawMessage) ([]events.HookAnswer, bool) {
		return a.Hooks, true
	}
	return said(gate.AnswerEdited(d.s, d.f.Time, r, law))
}

func (d deciding) executor(p events.Payload) (say []events.Payload, again bool, err error) {
	s, now := d.s, d.f.Time
	switch p := p.(type) {
	case *events.StepFinishedData:
		return said(turn.Next(s, p.Step, now).Say, nil)
	case *events.StepFailedData:
		duty := turn.Next(s, p.Step, now)
		switch {
		case p.FinishReason == events.FinishHook:
			return taken()
		case p.FinishReason == events.FinishContext && duty.Ask != nil:
			return said(turn.Full(s, *duty.Ask, p.Error), nil) // how long its prompt was is not in the log
		case p.FinishReason == events.FinishError && duty.Ask != nil:
			duty.Ask.Lost = requests(p.Lost)
			return said(turn.Fail(s, *duty.Ask, turn.Failure{Error: p.Error, Class: "permanent"}, now), nil)
		}
		return said(duty.Say, nil)
	case *events.TurnDeferredData:
		duty := turn.Next(s, p.Step, now)
		switch {
		case p.Class == events.ClassInterrupted:
			return taken() // a hook held the turn back
		case duty.Ask == nil:
			return said(duty.Say, nil)
		}
		duty.Ask.Lost = requests(p.Lost)
		wait := time.Duration(p.DelayMS) * time.Millisecond // at least what a provider asked for
		return said(turn.Fail(s, *duty.Ask, turn.Failure{Error: p.Error, Class: p.Class, Retryable: true, RetryAfter: wait, Window: p.Window}, now), nil)
	case *events.TurnFinishedData:
		duty := turn.Next(s, p.Step, now)
		if duty.Ask == nil {
			return said(duty.Say, nil)
		}
		duty.Ask.Lost = requests(p.Lost)
		return said(turn.Finish(s, *duty.Ask, turn.Answer{Data: *p}), nil)
	}
	return taken()
}

// requests is how many requests were counted as lost: only those who made them knew.
func requests(l *events.Lost) int {
	if l == nil {
		return 0
	}
	return l.Requests
}

func (d deciding) toolrunner(p events.Payload) (say []events.Payload, again bool, err error) {
	s, now := d.s, d.f.Time
	took := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	switch p := p.(type) {
	case *events.CallStartedData:
		duty := call.Next(s, p.Call, now, call.Lease{})
		switch duty.Kind {
		case call.Begin, call.Verify:
			return said(call.Start(s, duty, p.Runner, p.Sandbox, p.Input), nil)
		case call.Exhausted:
			return said(call.GiveUp(s, duty), nil)
		case call.Unknown:
			return said(call.Lost(s, duty), nil)
		case call.Nothing, call.Wait, call.Watch:
		}
		return said(nil, nil)
	case *events.CallFinishedData:
		a, ok := d.attempt(p.Call, p.Attempt, p.Fence, p.Sandbox)
		if !ok {
			return said(nil, nil)
		}
		return said(call.Finish(s, a, call.Result{Output: p.Output, Ref: p.OutputRef, Images: p.Images, Success: p.Success, ExitCode: p.ExitCode,
			Took: took(p.DurationMS), Reconciled: p.Reconciled, Usage: p.Usage, Notes: p.Notes, Dir: p.Dir, Background: p.Background, Hooks: p.Hooks}), nil)
	case *events.CallDeferredData:
		a, ok := d.attempt(p.Call, p.Attempt, p.Fence, "")
		if !ok {
			return said(nil, nil)
		}
		return said(call.Fail(s, a, call.Failure{Error: p.Error, Class: p.Class, Transient: true, RetryAfter: took(p.DelayMS)}, now), nil)
	case *events.CallFailedData:
		return d.callFailed(p, took(p.DurationMS))
	}
	return taken()
}

func (d deciding) attempt(id string, number int, fence uint64, sandbox string) (call.Attempt, bool) {
	c := d.s.Open[id]
	if c == nil {
		return call.Attempt{}, false
	}
	return call.Attempt{Call: *c, Number: number, Fence: fence, Sandbox: sandbox}, true
}

// callFailed has several makers: an attempt that failed, one that was lost, and all of them used up.
func (d deciding) callFailed(p *events.CallFailedData, took time.Duration) (say []events.Payload, again bool, err error) {
	a, ok := d.attempt(p.Call, p.Attempt, p.Fence, p.Sandbox)
	if !ok {
		return said(nil, nil)
	}
	duty := call.Next(d.s, p.Call, d.f.Time, call.Lease{})
	say = call.Fail(d.s, a, call.Failure{Error: p.Error, Class: p.Class, Hint: p.Hint, Transient: p.Class == "transient", Took: took, Usage: p.Usage, Hooks: p.Hooks}, d.f.Time)
	switch {
	case duty.Kind == call.Exhausted:
		say = append(say, call.GiveUp(d.s, duty)...)
	case p.Class == events.OutcomeUnknown && p.Sandbox == "":
		if say = call.Lost(d.s, duty); duty.Kind == call.Begin {
			say = call.Start(d.s, duty, a.Call.Runner, "", "")
		}
	}
	return said(say, nil)
}
