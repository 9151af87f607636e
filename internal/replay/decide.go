package replay

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/call"
	"github.com/inspan/inspan/internal/core/child"
	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/core/gate"
	"github.com/inspan/inspan/internal/core/lifecycle"
	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/core/turn"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// deciding is one event that is decided again, in the state before it.
type deciding struct {
	policy Policy
	s      run.State
	f      events.Event
	// grants that the permission of a call rested on.
	grants []events.GrantUse
}

// known are the grants of the session that were known then: those that the log of the run does not have itself.
func (d deciding) known(string) (all []events.GrantUse, known bool) {
	for _, g := range d.grants {
		if g.Scope == events.GrantSession {
			all = append(all, g)
		}
	}
	return all, true
}

// taken says that an event is taken as recorded.
func taken() ([]events.Payload, bool, error) { return nil, false, nil }

func decided(say []events.Payload, err error) ([]events.Payload, bool, error) { return say, true, err }

// redecide makes the decision behind an event again; again is false for what is taken as recorded.
type redecide func(d deciding, p events.Payload) (say []events.Payload, again bool, err error)

// rule decides the events of one type again.
type rule struct {
	kind   events.Kind
	decide redecide
}

// on makes a rule of a function; its payload type says of which event type.
func on[P events.Payload](decide func(d deciding, p P) ([]events.Payload, bool, error)) rule {
	var none P
	return rule{none.Kind(), func(d deciding, p events.Payload) ([]events.Payload, bool, error) {
		own, ok := p.(P)
		if !ok {
			return taken()
		}
		return decide(d, own)
	}}
}

// looks are what services do when they look at a run without being asked for anything: the decision behind an event
// type that has no rule of its own. A toolrunner looks at one call, so each of its event types needs a rule.
var looks = map[events.Service]redecide{
	events.Planner: func(d deciding, _ events.Payload) ([]events.Payload, bool, error) {
		return decided(lifecycle.Progress(d.s, d.f.Time))
	},
	events.Gatekeeper: func(d deciding, _ events.Payload) ([]events.Payload, bool, error) { return d.verdict("", nil) },
	events.Executor: func(d deciding, p events.Payload) ([]events.Payload, bool, error) {
		step, _ := document(p)["step_id"].(string)
		return decided(turn.Next(d.s, step, d.f.Time).Append, nil)
	},
}

var decisions = func() map[events.Kind]redecide {
	byKind := map[events.Kind]redecide{}
	for _, r := range slices.Concat(plannerRules, gatekeeperRules, executorRules, toolrunnerRules) {
		byKind[r.kind] = r.decide
	}
	return byKind
}()

// decide returns what the role would say today; again is false for what is taken as recorded.
func (d deciding) decide(p events.Payload) (say []events.Payload, again bool, err error) {
	w, _ := events.Lookup(p.Kind())
	if w.Origin != events.Decided {
		return taken()
	}
	if decide := decisions[p.Kind()]; decide != nil {
		return decide(d, p)
	}
	if look := looks[w.Author]; look != nil {
		return look(d, p)
	}
	return taken()
}

// plannerRules have no plan.completed: that comes of its look.
var plannerRules = []rule{
	on(func(d deciding, p *events.StepReadyData) ([]events.Payload, bool, error) {
		if p.When != "" {
			return taken() // its condition was evaluated
		}
		return decided(lifecycle.Progress(d.s, d.f.Time))
	}),
	on(func(d deciding, p *events.RunStartedData) ([]events.Payload, bool, error) {
		created := *d.s.Created
		created.Agents = d.s.Agents
		if created.ForkOf != nil {
			return decided(lifecycle.Fork(d.s, d.f.Time, &created, nil, p.Hooks))
		}
		return decided(lifecycle.Begin(d.s, d.f.Time, &created, nil, p.Hooks))
	}),
	on(func(d deciding, p *events.PlanRequestedData) ([]events.Payload, bool, error) {
		if d.s.Planning != nil { // why the answer before was none rests on the agents that were registered then
			return decided(lifecycle.RefusePlan(d.s, d.f.Time, d.s.Planning.Answered, p.Agents, p.Fault, p.Hint))
		}
		return decided(lifecycle.RequestPlan(d.s, d.f.Time, p.Agents))
	}),
	on(func(d deciding, p *events.PlanMadeData) ([]events.Payload, bool, error) {
		if p.Origin == events.OriginSingle {
			return []events.Payload{delivery.Wrap(d.s.Created.Git, plan.Single(d.s.TaskID, d.s.Created.Task, d.s.AgentName))},
				true, nil
		}
		known := func(agent string) bool { _, here := d.s.Agents[agent]; _, more := p.Agents[agent]; return here || more }
		return []events.Payload{p}, true, plan.Check(p.Steps, known)
	}),
	on(func(d deciding, p *events.PlanRevisedData) ([]events.Payload, bool, error) {
		return decided(plan.Revise(d.s, plan.Revision{Plan: given(p.Steps), Agents: p.Agents, Prices: p.Prices, By: p.By,
			Reason: p.Reason, Input: p.Input}))
	}),
	on(func(d deciding, p *events.RunCompletedData) ([]events.Payload, bool, error) {
		say, err := lifecycle.Progress(d.s, d.f.Time)
		say, _ = lifecycle.AtStop(d.s, say, true, p.Hooks)
		return decided(say, err)
	}),
	on(func(d deciding, p *events.RunFailedData) ([]events.Payload, bool, error) {
		return d.failed(p)
	}),
	on(func(d deciding, p *events.RunPausedData) ([]events.Payload, bool, error) {
		switch {
		case p.Gate != "":
			return decided(lifecycle.Rejected(d.s, d.f.Time))
		case d.s.Held != nil || len(p.Hooks) > 0:
			return taken() // a hook stopped it
		case p.Parent:
			return taken() // it follows another run
		case p.Input == 0 && d.s.GivenUp() != nil:
			return decided(lifecycle.Interrupted(d.s))
		}
		return decided(lifecycle.Pause(d.s, d.f.Time, lifecycle.Wish{By: p.By, Reason: p.Reason, Input: p.Input,
			Interrupt: p.Interrupt}))
	}),
	on(func(d deciding, p *events.RunStoppingData) ([]events.Payload, bool, error) {
		switch p.FinishReason {
		case events.FinishTimeout:
			return decided(lifecycle.Timeout(d.s, d.f.Time, 0))
		case events.FinishExpired:
			return decided(lifecycle.Rejected(d.s, d.f.Time))
		}
		return taken() // somebody stopped it
	}),
	on(func(d deciding, p *events.ChildSpawnedData) ([]events.Payload, bool, error) {
		return decided(child.Next(d.s, d.spawnedAt(p), func(string, string, string, int) string { return p.Child }), nil)
	}),
	on(func(d deciding, p *events.RunResumedData) ([]events.Payload, bool, error) {
		return decided(lifecycle.Resume(d.s, lifecycle.Wish{By: p.By, Input: p.Input}))
	}),
	on(func(d deciding, p *events.RunAdjustedData) ([]events.Payload, bool, error) {
		return decided(lifecycle.Adjust(d.s, p.Autonomy, lifecycle.Wish{By: p.By, Input: p.Input}))
	}),
}

// given are the steps of a revision as they were asked for, without that of the harness.
func given(steps []events.PlanStep) *events.TaskPlan {
	p := &events.TaskPlan{}
	for _, st := range steps {
		if st.Kind == "" {
			p.Steps = append(p.Steps, events.TaskStep{ID: st.ID, Description: st.Description, Agent: st.Agent,
				Dependencies: st.Dependencies, Critical: st.Critical, Child: st.Child, Accept: st.Accept,
				Flow: st.Flow})
		}
	}
	return p
}

// spawnedAt is when a child was decided on, a moment before its event was written: the moment at which so much of its
// parent's time was left as the child was given, where that is after the event before.
func (d deciding) spawnedAt(p *events.ChildSpawnedData) time.Time {
	deadline, ok := d.s.Deadline()
	at := deadline.Add(-time.Duration(p.TimeoutMS) * time.Millisecond)
	if !ok || at.Before(d.s.UpdatedAt) || at.After(d.f.Time) {
		return d.f.Time
	}
	return at
}

func (d deciding) failed(p *events.RunFailedData) (say []events.Payload, again bool, err error) {
	switch {
	case d.s.Stopping != nil:
		say, err = lifecycle.Stopped(d.s, d.f.Time)
	case p.FinishReason == events.FinishStep:
		say, err = lifecycle.Progress(d.s, d.f.Time)
	case p.FinishReason == events.FinishTimeout:
		say, err = lifecycle.Timeout(d.s, d.f.Time, 0)
	case p.FinishReason == events.FinishExpired:
		say, err = lifecycle.Rejected(d.s, d.f.Time)
	default:
		return taken() // somebody stopped it, a hook did, or there was no plan
	}
	say, _ = lifecycle.AtStop(d.s, say, true, p.Hooks)
	return decided(say, err)
}

// gatekeeperRules have no step.allowed and gate.expired: those come of its look.
var gatekeeperRules = []rule{
	on(func(d deciding, p *events.GateApprovedData) ([]events.Payload, bool, error) {
		return d.answer(p.GateAnswer, "approve")
	}),
	on(func(d deciding, p *events.GateVotedData) ([]events.Payload, bool, error) {
		return d.answer(p.GateAnswer, "approve")
	}),
	on(func(d deciding, p *events.GateRejectedData) ([]events.Payload, bool, error) {
		return d.answer(p.GateAnswer, "reject")
	}),
	on(func(d deciding, p *events.CallAllowedData) ([]events.Payload, bool, error) {
		d.grants = p.Grants
		return d.verdict(p.Call, p.Hooks)
	}),
	on(func(d deciding, p *events.CallRefusedData) ([]events.Payload, bool, error) {
		if p.Code == events.RefusedUnknown {
			return taken() // what a toolrunner had then is not known here
		}
		return d.verdict(p.Call, p.Hooks)
	}),
	on(func(d deciding, p *events.GateOpenedData) ([]events.Payload, bool, error) {
		return d.verdict(p.Call, p.Hooks)
	}),
}

// verdict asks what the gatekeeper owes the state, with the answers that hooks gave about a call then.
func (d deciding) verdict(callID string, hooks []events.HookAnswer) (say []events.Payload, again bool, err error) {
	if c := d.s.Open[callID]; callID != "" {
		if c == nil || !d.judgeable(c) {
			return taken()
		}
	}
	law := d.policy.Policy
	law.Hooks = func(_ events.Agent, c *run.Call, _ string, _ json.RawMessage) ([]events.HookAnswer, bool) {
		return hooks, c.ID == callID
	}
	law.Grants = d.known
	return decided(gate.Look(d.s, d.f.Time, law))
}

// judgeable reports whether all that the verdict on a call rests on is here.
func (d deciding) judgeable(c *run.Call) bool {
	st := d.s.Step(c.Step)
	if st == nil {
		return false
	}
	agent, _ := d.s.Agent(st.AssignedAgent)
	if (st.Harness() || slices.Contains(agent.Tools, c.Tool)) && !d.policy.Knows(agent, c.Tool) {
		return false
	}
	g := d.s.GateFor(c.Step, c.ID)
	return c.InputRef == nil || g != nil && len(g.Edited) > 0
}

func (d deciding) answer(a events.GateAnswer, decision string) (say []events.Payload, again bool, err error) {
	r := gate.Reply{Gate: a.Gate, Decision: decision, Reason: a.Reason, By: a.By, Assurance: a.Assurance,
		Hash: a.ProposalHash,
		Key:  a.Key, Signature: a.Signature, Edited: a.EditedInput, Input: a.Input,
		// that the station was halted is in another log: an answer that was taken came in time
		Stood: func(since, now time.Time) time.Duration { return now.Sub(since) }}
	at := d.f.Time
	if g := a.Grant; g != nil {
		r.Always, r.Term = g.Scope, took(g.TermMS)
		at = g.At // it was decided a moment before the event was written, and the end of the grant counts from then
		if g.Action == "" {
			r.Pattern = g.Pattern
		}
		if c := d.s.Open[a.Call]; r.Pattern != "" && (c == nil || !d.judgeable(c)) {
			return taken()
		}
	}
	if len(a.EditedInput) > 0 {
		if c := d.s.Open[a.Call]; c == nil || !d.judgeable(&run.Call{RequestedCall: events.RequestedCall{ID: c.ID,
			Tool: c.Tool}, Step: c.Step}) {
			return taken()
		}
	}
	law := d.policy.Policy
	law.Hooks = func(events.Agent, *run.Call, string, json.RawMessage) ([]events.HookAnswer, bool) {
		return a.Hooks, true
	}
	law.Grants = d.known
	return decided(gate.AnswerEdited(d.s, at, r, law))
}

// executorRules have no step.finished: that comes of its look.
var executorRules = []rule{
	on(func(d deciding, p *events.PlanDeferredData) ([]events.Payload, bool, error) {
		if p.Pause {
			return taken() // how long a provider is waited for is a setting of the executor
		}
		f := turn.Failure{Error: p.Error, Class: p.Class, Retryable: true, RetryAfter: took(p.DelayMS),
			Provider: p.Provider, HTTPStatus: p.HTTPStatus}
		return decided(turn.FailPlan(d.s, d.planTask(p.Try, p.Attempt, p.Lost), f, d.f.Time), nil)
	}),
	on(func(d deciding, p *events.PlanAnsweredData) ([]events.Payload, bool, error) {
		task := d.planTask(p.Try, p.Attempt, p.Lost)
		switch {
		case p.Error == "":
			return decided(turn.FinishPlan(d.s, task, *p), nil)
		case p.RunReason == events.FinishError:
			return decided(turn.FailPlan(d.s, task, turn.Failure{Error: p.Error}, d.f.Time), nil)
		}
		return decided(turn.NextPlan(d.s, d.f.Time, task.Lost).Append, nil)
	}),
	on(func(d deciding, p *events.StepFailedData) ([]events.Payload, bool, error) {
		duty := turn.Next(d.s, p.Step, d.f.Time)
		switch {
		case p.FinishReason == events.FinishHook:
			return taken()
		case p.FinishReason == events.FinishContext && duty.Ask != nil:
			return decided(turn.Full(d.s, *duty.Ask, p.Error), nil) // how long its prompt was is not in the log
		case p.FinishReason == events.FinishError && duty.Ask != nil:
			duty.Ask.Lost = requests(p.Lost)
			return decided(turn.Fail(d.s, *duty.Ask, turn.Failure{Error: p.Error, Class: "permanent"}, d.f.Time), nil)
		}
		return decided(duty.Append, nil)
	}),
	on(func(d deciding, p *events.TurnDeferredData) ([]events.Payload, bool, error) {
		duty := turn.Next(d.s, p.Step, d.f.Time)
		switch {
		case p.Class == events.ClassInterrupted:
			return taken() // a hook held the turn back
		case p.Pause:
			return taken() // how long a provider is waited for is a setting of the executor
		case duty.Ask == nil:
			return decided(duty.Append, nil)
		}
		duty.Ask.Lost = requests(p.Lost)
		wait := time.Duration(p.DelayMS) * time.Millisecond // at least what a provider asked for
		return decided(turn.Fail(d.s, *duty.Ask, turn.Failure{Error: p.Error, Class: p.Class, Retryable: true,
			RetryAfter: wait, Window: p.Window, Provider: p.Provider, HTTPStatus: p.HTTPStatus}, d.f.Time), nil)
	}),
	on(func(d deciding, p *events.TurnFinishedData) ([]events.Payload, bool, error) {
		if p.Interrupted {
			return taken() // a person did, while the run was paused
		}
		duty := turn.Next(d.s, p.Step, d.f.Time)
		if duty.Ask == nil {
			return decided(duty.Append, nil)
		}
		duty.Ask.Lost = requests(p.Lost)
		return decided(turn.Finish(d.s, *duty.Ask, turn.Answer{Data: *p}), nil)
	}),
}

// planTask is the request for a plan that an event is about, where the run waits for one.
func (d deciding) planTask(try, attempt int, lost *events.Lost) turn.PlanTask {
	task := turn.PlanTask{Try: try, Attempt: attempt, Lost: requests(lost)}
	if d.s.Planning != nil {
		task.Owed = d.s.Planning.Owed
	}
	return task
}

// requests is how many requests were counted as lost: only those who made them knew.
func requests(l *events.Lost) int {
	if l == nil {
		return 0
	}
	return l.Requests
}

// toolrunnerRules have all that it decides: it has no look at a run.
var toolrunnerRules = []rule{
	on(func(d deciding, p *events.CallStartedData) ([]events.Payload, bool, error) {
		if p.Parent != "" {
			return taken() // it follows from what a program of others did
		}
		duty := call.Next(d.s, p.Call, d.f.Time, call.Lease{})
		duty.Key = p.Key
		if duty.Last {
			return decided(call.GiveUp(d.s, duty), nil)
		}
		switch duty.Kind {
		case call.Begin, call.Verify:
			return decided(call.Start(d.s, duty, p.Runner, p.Sandbox, p.Input), nil)
		case call.Exhausted:
			return decided(call.GiveUp(d.s, duty), nil)
		case call.Unknown:
			return decided(call.Lost(d.s, duty), nil)
		case call.Nothing, call.Wait, call.Watch:
		}
		return decided(nil, nil)
	}),
	on(func(d deciding, p *events.CallFinishedData) ([]events.Payload, bool, error) {
		if p.Parent != "" {
			return taken()
		}
		a, ok := d.attempt(p.Call, p.Attempt, p.Fence, p.Sandbox)
		if !ok {
			return decided(nil, nil)
		}
		return decided(call.Finish(d.s, a, call.Result{Output: p.Output, Ref: p.OutputRef, Images: p.Images,
			Success: p.Success, ExitCode: p.ExitCode,
			Took: took(p.DurationMS), Reconciled: p.Reconciled, Usage: p.Usage, Notes: p.Notes, Dir: p.Dir,
			Background: p.Background, Hooks: p.Hooks, Uncommitted: p.Uncommitted}), nil)
	}),
	on(func(d deciding, p *events.CallDeferredData) ([]events.Payload, bool, error) {
		a, ok := d.attempt(p.Call, p.Attempt, p.Fence, "")
		if !ok {
			return decided(nil, nil)
		}
		return decided(call.Fail(d.s, a, call.Failure{Error: p.Error, Class: p.Class, Transient: true,
			RetryAfter: took(p.DelayMS)}, d.f.Time), nil)
	}),
	on(func(d deciding, p *events.CallFailedData) ([]events.Payload, bool, error) {
		if p.Parent != "" || p.Tool == events.ToolRuntime && p.Class == events.OutcomeUnknown {
			return taken() // why a program cannot go on is not known here
		}
		return d.callFailed(p, took(p.DurationMS))
	}),
}

func took(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (d deciding) attempt(id string, number int, fence uint64, sandbox string) (call.Attempt, bool) {
	c := d.s.Open[id]
	if c == nil {
		return call.Attempt{}, false
	}
	return call.Attempt{Call: *c, Number: number, Fence: fence, Sandbox: sandbox}, true
}

// callFailed has several makers: an attempt that failed, one that was lost, and all of them used up.
func (d deciding) callFailed(p *events.CallFailedData,
	took time.Duration) (say []events.Payload, again bool, err error) {
	a, ok := d.attempt(p.Call, p.Attempt, p.Fence, p.Sandbox)
	if !ok {
		return decided(nil, nil)
	}
	duty := call.Next(d.s, p.Call, d.f.Time, call.Lease{})
	say = call.Fail(d.s, a, call.Failure{Error: p.Error, Class: p.Class, Hint: p.Hint, Transient: p.Class == "transient",
		Took: took, Usage: p.Usage, Hooks: p.Hooks}, d.f.Time)
	switch {
	case duty.Kind == call.Exhausted, duty.Last && p.Class == "transient" && p.Sandbox == "":
		say = append(say, call.GiveUp(d.s, duty)...)
	case p.Class == events.OutcomeUnknown && p.Sandbox == "":
		if say = call.Lost(d.s, duty); duty.Kind == call.Begin {
			duty.Key = duty.Call.Key
			say = call.Start(d.s, duty, a.Call.Runner, "", "")
		}
	}
	return decided(say, nil)
}
