package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Tree is a run as people see it: its steps, their turns, the calls of each turn and the gates before them, with times.
// It is made by Apply, event by event. A time that has not come yet is zero.
type Tree struct {
	Run, Agent, Model, Task string
	Status                  events.Status
	Created, Started, Ended time.Time
	// Paused is since when and why, while it is.
	Paused      time.Time
	PauseReason string
	Steps       []*StepNode
	Result      *events.Result
	// Turns and Calls so far, the Budget of calls, and the tokens used.
	Turns, Calls, Budget int
	// Direct is true for a run on the direct path.
	Direct bool
	Tokens run.Tokens
	Cost   events.MicroUSD
	// Below is what the children that have ended spent.
	Below events.Use

	steps map[string]*StepNode
	calls map[string]*CallNode
	gates map[string]*GateNode
	// origin of a fork, and what is there of the state that it begins with.
	origin *events.ForkOrigin
	start  []byte
}

// StepNode is a step of the plan.
type StepNode struct {
	ID, Description, Agent string
	Critical               bool
	Kind                   events.StepKind
	Needs                  []string
	Status                 events.StepStatus
	Ready, Began, Ended    time.Time
	Output, Error          string
	Turns                  []*TurnNode
	Gate                   *GateNode
	// Asked is since when the model's turn is waited for. Retry says why it is asked again and NotBefore when.
	Asked, NotBefore time.Time
	Retry            string
	// Claim is the last time that the agent called the step done, where checks decide.
	Claim ClaimNode
	FlowNode
	// Child is the run that the step was last given to; its ID is empty before that, and its Workspace, too, where the
	// step is part of this run.
	Child ChildNode
}

// TurnNode is a model turn.
type TurnNode struct {
	Number       int
	Text         string
	At           time.Time
	Took         time.Duration
	In, Out      int
	Cost         events.MicroUSD
	FinishReason string
	Calls        []*CallNode
}

// CallState is where a call stands.
type CallState string

// The states of a call, in the order it goes through them.
const (
	CallAsked   CallState = "asked"
	CallAllowed CallState = "allowed"
	CallRuns    CallState = "runs"
	CallRetries CallState = "retries"
	CallDone    CallState = "done"
	CallNotOK   CallState = "not ok"
	CallFailed  CallState = "failed"
	CallRefused CallState = "refused"
)

// CallNode is a tool call.
type CallNode struct {
	ID, Tool, Input string
	State           CallState
	Asked, Began    time.Time
	Ended           time.Time
	Took            time.Duration
	Attempt         int
	NotBefore       time.Time
	Runner, Sandbox string
	// Outcome in one line.
	Outcome string
	// Diff is the beginning of what the call changed in files, and DiffLines how many lines the whole has.
	Diff      string
	DiffLines int
	Step      string
	Gate      *GateNode
	// Inner are the calls that the program of others has asked for which carries this one out.
	Inner []*CallNode
	input json.RawMessage // until it has ended
}

// GateNode is a gate before a step or a call.
type GateNode struct {
	ID, Step, Call, Description, Reason, Subject, Hash string
	Opened, Answered                                   time.Time
	Status                                             run.GateStatus
	By, Why                                            string
	// Votes it has, of Approvers that it needs where that is more than one; Expires is zero where it waits for ever.
	Votes, Approvers int
	Expires          time.Time
}

// Open reports whether nothing more will come of a call by itself but its end.
func (s CallState) Open() bool {
	return s == CallAsked || s == CallAllowed || s == CallRuns || s == CallRetries
}

// Waiting returns the gates that have no answer yet, in the order of the plan.
func (t *Tree) Waiting() []*GateNode {
	if t.Status.Ended() {
		return nil
	}
	var w []*GateNode
	add := func(g *GateNode, needed bool) {
		if g != nil && needed && g.Status == run.GatePending {
			w = append(w, g)
		}
	}
	for _, st := range t.Steps {
		add(st.Gate, st.Status == events.StepIsReady)
		for _, turn := range st.Turns {
			for _, c := range turn.Calls {
				add(c.Gate, c.State.Open() && st.Status == events.StepIsRunning)
				for _, in := range c.Inner {
					add(in.Gate, in.State.Open() && st.Status == events.StepIsRunning)
				}
			}
		}
	}
	return w
}

// Call returns a call of the run, nil where there is none of that id.
func (t *Tree) Call(id string) *CallNode { return t.calls[id] }

// StepsDone counts the completed steps.
func (t *Tree) StepsDone() int {
	n := 0
	for _, st := range t.Steps {
		if st.done() {
			n++
		}
	}
	return n
}

// Apply adds an event. The events of a run must come in order, each once; an event about a step or call that the tree
// does not know is left out, because the fold has already refused it.
func (t *Tree) Apply(f events.Event, p events.Payload) {
	if apply := nodes[p.Kind()]; apply != nil {
		apply(t, f, p)
	}
}

// Stopped reports whether a person stopped the run. In its events it has failed.
func (t *Tree) Stopped() bool { return t.Result != nil && Stopped(*t.Result) }

// Stopped reports whether a result is that of a run that a person stopped.
func Stopped(r events.Result) bool {
	return r.Status == events.Failed && r.FinishReason == events.FinishStopped
}

// HandedOff reports whether the next run of its agent goes on with the work. In its events the run has failed.
func (t *Tree) HandedOff() bool { return t.Result != nil && HandedOff(*t.Result) }

// HandedOff reports whether a result is that of a run of an agent whose next run goes on with the work.
func HandedOff(r events.Result) bool {
	return r.Status == events.Failed && r.FinishReason == events.FinishHandedOff
}

func (t *Tree) end(at time.Time, r events.Result) {
	t.Ended, t.Status, t.Result = at, r.Status, &r
}

func (t *Tree) plan(d *events.PlanMadeData) {
	t.spend(d.InputTokens, d.OutputTokens, 0, d.Cost)
	for _, st := range d.Steps {
		n := &StepNode{ID: st.ID, Description: st.Description, Agent: st.Agent, Critical: st.Critical, Kind: st.Kind,
			Needs: st.Dependencies, Status: events.StepIsPending, FlowNode: FlowNode{Flow: st.Flow},
			Child: ChildNode{Workspace: st.Child}}
		t.Steps, t.steps[st.ID] = append(t.Steps, n), n
	}
}

// revise takes the steps out that a revision removed, and adds its own. A step that is planned anew begins anew.
func (t *Tree) revise(at time.Time, d *events.PlanRevisedData) {
	for _, g := range t.gates {
		if st := t.steps[g.Step]; g.Call == "" && g.Status == run.GatePending && st != nil && !slices.Contains(d.Kept,
			st.ID) {
			g.Status, g.Answered, g.By, g.Why = run.GateSuperseded, at, d.By, "the plan was revised"
		}
	}
	t.Steps = slices.DeleteFunc(slices.Clone(t.Steps), func(st *StepNode) bool { return !slices.Contains(d.Kept, st.ID) })
	for _, id := range d.Removed {
		delete(t.steps, id)
	}
	t.plan(&events.PlanMadeData{Steps: d.Steps})
	t.block()
}

// block marks what depends on a failed step, as the fold does.
func (t *Tree) block() {
	for changed := true; changed; {
		changed = false
		for _, st := range t.Steps {
			if st.Status != events.StepIsPending && st.Status != events.StepIsReady || st.Flow != nil && st.Flow.Always {
				continue
			}
			for _, need := range st.Needs {
				if on := t.steps[need]; on != nil && (st.Kind != events.StepDeliver || on.Kind == events.StepCheckout) &&
					(on.Status == events.StepIsFailed && !on.spared() || on.Status == events.StepIsBlocked) {
					st.Status, changed = events.StepIsBlocked, true
				}
			}
		}
	}
}

func (t *Tree) turn(at time.Time, d *events.TurnFinishedData) {
	st := t.steps[d.Step]
	if st == nil {
		return
	}
	n := &TurnNode{Number: d.Turn, Text: d.Text, At: at, Took: time.Duration(d.DurationMS) * time.Millisecond,
		In:  d.InputTokens,
		Out: d.OutputTokens, Cost: d.Cost, FinishReason: d.FinishReason}
	for _, c := range d.Calls {
		call := &CallNode{ID: c.ID, Tool: c.Tool, Step: d.Step, Input: Input(c.Input), input: c.Input, State: CallAsked,
			Asked: at}
		n.Calls, t.calls[c.ID] = append(n.Calls, call), call
	}
	st.Turns, st.Asked, st.NotBefore, st.Retry = append(st.Turns, n), time.Time{}, time.Time{}, ""
	if st.Kind == "" {
		t.Turns++
	}
	t.spend(d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
}

// spend counts what a request to a model used.
func (t *Tree) spend(in, out, cached int, cost events.MicroUSD) {
	t.Tokens.Input += in
	t.Tokens.Output += out
	t.Tokens.Cached += cached
	t.Cost += cost
}

func (t *Tree) gate(at time.Time, d *events.GateOpenedData) {
	g := &GateNode{ID: d.Gate, Step: d.Step, Call: d.Call, Description: d.Description, Reason: d.Reason,
		Subject: d.AnswerSubject,
		Hash:    d.ProposalHash, Opened: at, Status: run.GatePending, Approvers: d.Approvers, Expires: d.ExpiresAt}
	t.gates[d.Gate] = g
	if c := t.calls[d.Call]; c != nil {
		c.Gate = g
	} else if st := t.steps[d.Step]; st != nil && d.Call == "" {
		st.Gate = g
	}
}

func (t *Tree) answer(at time.Time, a events.GateAnswer, to run.GateStatus) {
	g := t.gates[a.Gate]
	if g == nil {
		return
	}
	if g.Votes = a.Votes; to == run.GatePending {
		return
	}
	if c := t.calls[g.Call]; c != nil && len(a.EditedInput) > 0 {
		c.Input, c.input = "(edited) "+Input(a.EditedInput), a.EditedInput
	}
	g.Status, g.Answered, g.By, g.Why = to, at, giver(a), a.Reason
}

func (t *Tree) endCall(at time.Time, ref events.ToolRef, to CallState, took int64, outcome string) {
	if c := t.calls[ref.Call]; c != nil {
		c.State, c.Ended, c.Outcome, c.Took = to, at, outcome, time.Duration(took)*time.Millisecond
	}
	if st := t.steps[ref.Step]; to != CallRefused && (st == nil || st.Kind == "") {
		t.Calls++
	}
	for _, st := range t.Steps {
		if st.ID == ref.Step && st.Status == events.StepIsRunning && !st.busy() {
			st.Asked = at
		}
	}
}

// busy reports whether a call of the step's last turn is open.
func (st *StepNode) busy() bool {
	if len(st.Turns) == 0 {
		return false
	}
	for _, c := range st.Turns[len(st.Turns)-1].Calls {
		if c.State.Open() {
			return true
		}
	}
	return false
}

func outcome(d *events.CallFinishedData) string {
	if text := atCommit(d.Tool, d.Output); text != "" {
		return text
	}
	gist := Gist(or(d.Output, d.Error), d.ExitCode != nil)
	if d.ExitCode != nil && *d.ExitCode != 0 {
		return fmt.Sprintf("exit %d, %s", *d.ExitCode, gist)
	}
	return gist
}
