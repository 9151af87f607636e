package run

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Loop is the inner state of the agent loop (LOOP-17): its turns, and the text of the last one as scratchpad.
type Loop struct {
	Scratchpad string     `json:"scratchpad"`
	Turns      List[Turn] `json:"turns"`
	// Cut are the ids of the messages that ended an answer of the run, in their order.
	Cut []string `json:"cut,omitempty"`
}

// Outcomes of a call record.
const (
	OutcomeFinished = "finished"
	OutcomeFailed   = "failed"
	OutcomeRefused  = "refused"
)

// turn folds a model turn: its calls become open, or the step only needs its end. A first last answer that does not fit
// makes another turn owed, and so does one that a person interrupted.
func (s *State) turn(d *events.TurnFinishedData, at time.Time, seq uint64) string {
	loop := s.AgentLoopSnapshot
	if loop == nil {
		loop = &Loop{}
	}
	if d.Turn != loop.Turns.Len()+1 {
		return fmt.Sprintf("turn %d does not follow turn %d", d.Turn, loop.Turns.Len())
	}
	if st := s.Step(d.Step); st != nil && st.Status == events.StepIsRunning && st.Owed == 0 {
		return fmt.Sprintf("step %s is owed no turn", d.Step)
	}
	if d.Interrupted && len(d.Calls) > 0 {
		return fmt.Sprintf("turn %d was interrupted and asks for calls", d.Turn)
	}
	fault := s.step(d.Step, events.StepIsRunning, func(st *Step) {
		st.Turns++
		st.Owed, st.Attempt, st.NotBefore, st.Outage, st.Passed, st.TooLong = 0, 0, time.Time{}, nil, false, 0
		st.Final = len(d.Calls) == 0
		if st.Final && d.OutputFault != "" && !st.Mended {
			st.Final, st.Mended, st.Owed = false, true, seq
		}
		if d.Interrupted {
			st.Final, st.Owed = false, seq
		}
	})
	if fault != "" {
		return fault
	}
	s.AgentLoopSnapshot = &Loop{Scratchpad: d.Text, Cut: loop.Cut, Turns: Append(loop.Turns, Turn{
		Number: d.Turn, Step: d.Step, Text: d.Text, TextRef: d.TextRef, Calls: d.Calls, Key: d.CallsKey,
		FinishReason: d.FinishReason, Fault: d.OutputFault,
		InputTokens: d.InputTokens, OutputTokens: d.OutputTokens, Model: d.Model, Provider: d.Provider,
		Raw: d.Raw, RawRef: d.RawRef, At: at, Interrupted: d.Interrupted,
	})}
	if s.Harness(d.Step) {
		s.HarnessTurns++
	}
	s.spend(d.ModelRef, s.Step(d.Step).AssignedAgent, d.InputTokens, d.OutputTokens, d.CachedTokens, d.Cost)
	s.lose(d.Lost)
	open := maps.Clone(s.Open)
	if open == nil && len(d.Calls) > 0 {
		open = make(map[string]*Call, len(d.Calls))
	}
	for _, c := range d.Calls {
		if open[c.ID] != nil {
			return fmt.Sprintf("call %s is open already", c.ID)
		}
		open[c.ID] = &Call{RequestedCall: c, Step: d.Step, Turn: d.Turn, Phase: CallRequested}
	}
	s.Open = open
	return ""
}

// callRules fold the events about a tool call.
var callRules = []rule{on(callAllowed), on(callStarted), on(callDelegated), on(callDeferred), on(callRefused),
	on(callFinished),
	on(callFailed)}

func callAllowed(s *State, f events.Event, d *events.CallAllowedData) string {
	c, fault := s.open(d.ToolRef, CallRequested)
	if fault == "" {
		fault = s.rests(d, f.Time)
	}
	if fault != "" {
		return fault
	}
	if fault := s.permitted(&c, d); fault != "" {
		return fault
	}
	c.Phase, c.Effect, c.TimeoutMS, c.InputHash = CallAllowed, d.Effect, d.TimeoutMS, d.InputHash
	if !s.Harness(c.Step) {
		s.CallsHeld++
	}
	s.setOpen(d.Call, &c)
	return ""
}

func callStarted(s *State, f events.Event, d *events.CallStartedData) string {
	c, fault := s.open(d.ToolRef, CallAllowed, CallStarted, CallDeferred)
	if fault == "" && c.Parent != "" && c.Phase != CallAllowed {
		fault = fmt.Sprintf("call %s inside of %s is not made again", c.ID, c.Parent)
	}
	if fault == "" {
		fault = s.closed(c.ID)
	}
	if fault != "" {
		return fault
	}
	s.forsake(&c)
	c.Phase, c.Attempt, c.Fence, c.Runner, c.StartedAt = CallStarted, d.Attempt, f.Sequence, d.Runner, f.Time
	c.Made, c.Key = false, d.Key
	s.setOpen(d.Call, &c)
	return ""
}

func callDeferred(s *State, _ events.Event, d *events.CallDeferredData) string {
	c, fault := s.attempted(d.ToolRef, d.Fence)
	if fault == "" && c.Parent != "" {
		fault = fmt.Sprintf("call %s inside of %s is not made again", c.ID, c.Parent)
	}
	if fault == "" {
		fault = s.closed(c.ID)
	}
	if fault != "" {
		return fault
	}
	s.forsake(&c)
	c.Phase, c.Attempt, c.NotBefore = CallDeferred, d.Attempt, d.NotBefore
	s.setOpen(d.Call, &c)
	return ""
}

func callRefused(s *State, f events.Event, d *events.CallRefusedData) string {
	c, fault := s.open(d.ToolRef, CallRequested)
	if fault != "" {
		return fault
	}
	s.record(c, CallRecord{Result: d.Reason, Outcome: OutcomeRefused, Code: d.Code, Rule: d.Rule, Hint: d.Hint}, f.Time,
		f.Sequence)
	return ""
}

func callFinished(s *State, f events.Event, d *events.CallFinishedData) string {
	c, fault := s.attempted(d.ToolRef, d.Fence)
	if fault == "" && (d.Reported != (c.Parent != "") || c.Parent != "" && c.Phase != CallStarted) {
		fault = fmt.Sprintf("call %s is %s inside of %q, and its result is reported: %t", c.ID, c.Phase, c.Parent, d.Reported)
	}
	if fault == "" {
		fault = s.closed(c.ID)
	}
	if fault == "" {
		fault = s.unanswered(c, d.Success)
	}
	if fault != "" {
		return fault
	}
	fresh := s.ranOn(c.Step, d.Background)
	s.record(c, CallRecord{Result: d.Output, ResultRef: d.OutputRef, Images: d.Images, DurationMS: d.DurationMS,
		RetryCount: d.RetryCount, Outcome: OutcomeFinished, Success: d.Success, Notes: d.Notes, Dir: d.Dir, Fresh: fresh,
		Uncommitted: d.Uncommitted},
		f.Time, f.Sequence)
	s.interrupted(d.Hooks)
	return ""
}

func callFailed(s *State, f events.Event, d *events.CallFailedData) string {
	c, fault := s.attempted(d.ToolRef, d.Fence)
	if fault == "" {
		fault = s.closed(c.ID)
	}
	if fault == "" {
		fault = s.unanswered(c, false)
	}
	if fault != "" {
		return fault
	}
	if d.Class == events.OutcomeUnknown {
		s.Unknown = append(s.Unknown[:len(s.Unknown):len(s.Unknown)], c.Tool+":"+c.InputHash)
	}
	outcome := OutcomeFailed
	if c.Phase == CallRequested { // inside of one: it was never permitted, and is none that was made
		outcome = OutcomeRefused
	}
	s.record(c, CallRecord{Result: d.Error, DurationMS: d.DurationMS, RetryCount: d.RetryCount,
		Outcome: outcome, Code: d.Class, Hint: d.Hint}, f.Time, f.Sequence)
	s.interrupted(d.Hooks)
	return ""
}

// ranOn remembers a command that was started to run beyond its call, or how much of its output was shown; fresh is true
// where that is more than before.
func (s *State) ranOn(step string, b *events.Background) (fresh bool) {
	if b == nil {
		return false
	}
	_ = s.step(step, events.StepIsRunning, func(st *Step) {
		i := slices.IndexFunc(st.Background, func(known events.Background) bool { return known.ID == b.ID })
		switch {
		case i >= 0:
			st.Background = slices.Clone(st.Background)
			fresh = b.At > st.Background[i].At
			st.Background[i].At = max(st.Background[i].At, b.At)
		case b.Runner != "":
			st.Background = append(st.Background[:len(st.Background):len(st.Background)], *b)
		}
	})
	return fresh
}

// interrupted remembers that a hook wants the run to stand still after a call. A block was followed in the result.
func (s *State) interrupted(answers []events.HookAnswer) {
	if a, ok := events.Decisive(answers); ok && a.Answer == events.HookInterrupt {
		s.hold(answers)
	}
}

// attempted returns a copy of an open call that was permitted, where the fence is that of its current attempt.
func (s *State) attempted(ref events.ToolRef, fence uint64) (Call, string) {
	want := []Phase{CallAllowed, CallStarted, CallDeferred, CallDelegated, CallMailed}
	if ref.Parent != "" { // what was requested inside ends with the program that asked
		want = append(want, CallRequested)
	}
	c, fault := s.open(ref, want...)
	if fault == "" && c.Fence != fence {
		fault = fmt.Sprintf("fence %d is not the current fence %d", fence, c.Fence)
	}
	return c, fault
}

// open returns a copy of an open call in one of the phases given.
func (s *State) open(ref events.ToolRef, want ...Phase) (Call, string) {
	c := s.Open[ref.Call]
	if c == nil {
		return Call{}, fmt.Sprintf("call %s is not open", ref.Call)
	}
	if c.Parent != ref.Parent {
		return Call{}, fmt.Sprintf("call %s is inside of %q, not of %q", ref.Call, c.Parent, ref.Parent)
	}
	if c.Tool != ref.Tool || c.Step != ref.Step {
		return Call{}, fmt.Sprintf("call %s is %s in step %s, not %s in step %s", ref.Call, c.Tool, c.Step, ref.Tool,
			ref.Step)
	}
	for _, w := range want {
		if c.Phase == w {
			return *c, ""
		}
	}
	return Call{}, fmt.Sprintf("call %s is %s", ref.Call, c.Phase)
}

// setOpen replaces or, with nil, removes an open call in a copy of the map. No calls are nil, so that a state that was
// written and read again is the very same.
func (s *State) setOpen(id string, c *Call) {
	open := maps.Clone(s.Open)
	if c == nil {
		delete(open, id)
	} else {
		open[id] = c
	}
	if len(open) == 0 {
		open = nil
	}
	s.Open = open
}

// record ends a call: into the history, out of the budget's hold, and the turn is owed once all are in.
func (s *State) record(c Call, r CallRecord, at time.Time, seq uint64) {
	r.ID, r.Step, r.Turn, r.CallName, r.Arguments, r.Timestamp, r.Edited, r.Effect = c.ID, c.Step, c.Turn, c.Tool, c.Input,
		at, c.Edited, c.Effect
	r.Parent = c.Parent
	s.forsake(&c)
	if r.Outcome != OutcomeRefused && !s.Harness(c.Step) {
		s.TotalToolCalls++
		s.CallsHeld--
	}
	s.ToolCallHistory = Append(s.ToolCallHistory, r)
	s.setOpen(c.ID, nil)
	for _, o := range s.Open {
		if o.Step == c.Step {
			return
		}
	}
	_ = s.step(c.Step, events.StepIsRunning, func(st *Step) { st.Owed = seq })
}
