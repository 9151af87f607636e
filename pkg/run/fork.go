package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/pkg/events"
)

// Message is a message to the agent of a step, after one of its turns.
type Message struct {
	Step string `json:"step"`
	// After is the number of that turn, 0 before the first.
	After int    `json:"after"`
	Text  string `json:"text"`
	// Mail are the ids of the messages that it shows, where it is mail.
	Mail []string `json:"mail,omitempty"`
}

// MessagesAfter returns what was said to a step after a turn, in order.
func (s *State) MessagesAfter(step string, turn int) []string {
	var texts []string
	for _, m := range s.Messages {
		if m.Step == step && m.After == turn {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// Errors of Fork.
var (
	// ErrForkEnded means that nothing is left to do after that event.
	ErrForkEnded = errors.New("the run had ended at that event: give an instruction for the fork, or fork from an earlier event")
	// ErrForkUnplanned means that there is no one yet to whom something could be said.
	ErrForkUnplanned = errors.New("the run had no plan at that event: fork from a later event, or start a new run with the task")
	// ErrForkLarge means that the state is too large to begin another run with.
	ErrForkLarge = fmt.Errorf("the state at that event is larger than %d MiB: fork from an earlier event",
		events.MaxForkStart>>20)
)

// CodeInterrupted is the code of a call that had not begun where its run was forked.
const CodeInterrupted = "interrupted"

// Fork returns the state that another run begins with, from the one where it was forked. What was done stays done:
// turns, results, completed steps, the budget that was used. What was under way is not taken over: a call that had
// begun has an unknown outcome, one that had not is interrupted, and the agent reads so; a step that was ready or
// running is permitted anew, so that a gate before it stands again. say is a message to the step that works, or worked
// last, which takes it up again; "" says nothing. fresh tells agents that their files are not here. Fork is pure: the
// same state and words give the same start.
func Fork(old State, say string, fresh bool) (State, error) {
	switch {
	case old.Status.Ended() && say == "":
		return State{}, ErrForkEnded
	case old.Plan == nil && say != "":
		return State{}, ErrForkUnplanned
	}
	s := old
	s.Status, s.PauseReason, s.ResumedAt, s.Result, s.Created = events.Created, "", 0, nil, nil
	s.StartedAt, s.EndedAt, s.LastCheckpointAt, s.CheckpointCovers, s.CheckpointCount = nil, nil, nil, 0, 0
	s.CheckpointSaves = 0
	s.Checkpoints = List[Checkpoint]{} // they name events of the other run
	s.Inputs, s.Gates, s.Held, s.StopPassed, s.ForkStart, s.Forked = nil, nil, nil, false, "", false
	s.Planning = nil // it asks for a plan of its own
	s.Stopping, s.PausedByParent = nil, false
	s.Options.Funds = nil // it has funds of its own
	s.disown()
	s.Clock = Clock{}
	s.interruptAll()
	if s.Plan == nil {
		return s, nil
	}
	plan := *s.Plan
	plan.Steps = slices.Clone(plan.Steps)
	for i, st := range plan.Steps {
		next := *st
		next.Owed, next.ReadyAt, next.AllowedAt, next.Attempt, next.NotBefore, next.Passed = 0, 0, 0, 0, time.Time{}, false
		next.Outage, next.Claim = nil, nil // its checks saw the files of the other run
		next.BeganAt, next.ClockMS = time.Time{}, 0
		if st.Status == events.StepIsReady || st.Status == events.StepIsRunning && st.Parts == 0 {
			next.Status = events.StepIsPending
		}
		if st.Kind != "" {
			next.again()
		}
		if st.Child == events.ChildWorktree && st.Status != events.StepIsCompleted {
			next.Turns, next.Branched = 0, nil // its child begins with the working tree of the fork
		}
		plan.Steps[i] = &next
	}
	s.Plan = &plan
	s.Messages = slices.Clone(s.Messages)
	if fresh && s.Turns().Len() > 0 {
		there := "It works in a new, empty directory: files that were made before are not in it."
		if slices.ContainsFunc(Slice(s.Artifacts), func(a events.Artifact) bool { return a.Path != "" && a.Kept == events.StoredInBucket }) {
			there = "It works in a new directory: of the files that were made before, at most those that were kept as artifacts are in it."
		}
		if s.Harness(events.CheckoutStep) {
			there = "It works in a new working tree of the repository, at the last commit that the git tools told of: what was not committed then is not in it."
		}
		for _, st := range plan.Steps {
			if st.Status == events.StepIsPending && st.Kind == "" {
				s.addMessage(st.ID, fmt.Sprintf("This run was forked from run %s after its event %d. %s", old.HarnessID,
					old.Sequence, there))
			}
		}
	}
	if say != "" {
		s.takeUp(old, say)
	}
	s.CurrentStepIndex = firstIncomplete(s.Plan)
	return s, nil
}

// interruptAll ends the open calls.
func (s *State) interruptAll() {
	var open []*Call
	for _, c := range s.Open {
		open = append(open, c)
	}
	slices.SortFunc(open, func(a, b *Call) int { return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.ID, b.ID)) })
	for _, c := range open {
		r := CallRecord{ID: c.ID, Step: c.Step, Turn: c.Turn, CallName: c.Tool, Arguments: c.Input, Timestamp: s.UpdatedAt,
			Edited: c.Edited, Parent: c.Parent,
			Outcome: OutcomeRefused, Code: CodeInterrupted,
			Result: "the run was forked before the call was made: it did nothing",
			Hint:   "ask for it again where it is still needed"}
		if c.Phase != CallDelegated && (c.Phase == CallStarted || c.Fence > 0) {
			r.Outcome, r.Code, r.Result = OutcomeFailed, events.OutcomeUnknown,
				"the run was forked during the call; it is unknown whether the call took effect"
			r.Hint = "check the current state before you repeat it; the same call needs the approval of a person"
			s.Unknown = append(s.Unknown[:len(s.Unknown):len(s.Unknown)], c.Tool+":"+c.InputHash)
			if !s.Harness(c.Step) {
				s.TotalToolCalls++
			}
		}
		s.ToolCallHistory = Append(s.ToolCallHistory, r)
	}
	s.Open, s.CallsHeld = nil, 0
}

// addMessage adds a message behind the last turn of a step.
func (s *State) addMessage(step, text string) {
	m := Message{Step: step, Text: text}
	for _, t := range Backward(s.Turns()) {
		if t.Step == step {
			m.After = t.Number
			break
		}
	}
	s.Messages = append(s.Messages, m)
}

// takeUp gives a message to the step that was at work, or was last, and lets it go on. The plan was copied by the
// caller.
func (s *State) takeUp(old State, text string) {
	at := -1
	for i, st := range old.Plan.Steps {
		if st.Status == events.StepIsRunning && st.Works() && st.Parts == 0 && at < 0 {
			at = i
		}
	}
	for _, t := range Backward(s.Turns()) {
		if at < 0 && !s.Harness(t.Step) {
			at = slices.IndexFunc(s.Plan.Steps, func(st *Step) bool { return st.ID == t.Step })
			break
		}
	}
	for i, st := range s.Plan.Steps { // else the first that is not complete, or the last
		if at < 0 && st.Works() && st.Parts == 0 && (st.Status != events.StepIsCompleted || lastOwn(s.Plan) == i) {
			at = i
		}
	}
	st := s.Plan.Steps[at]
	if st.Status == events.StepIsFailed && st.Turns >= s.Options.MaxSteps {
		st.Turns = 0
	}
	st.Status, st.Final, st.Output, st.Error, st.RunReason, st.Mended = events.StepIsPending, false, "", "", "", false
	for whole := st; whole != nil && whole.Part != nil; { // what it is part of goes on, too
		if whole = s.Step(whole.Part.Of); whole != nil {
			whole.Status, whole.Output, whole.Error, whole.RunReason, whole.Reason = events.StepIsRunning, "", "", "", ""
		}
	}
	for _, other := range s.Plan.Steps {
		if other.Status == events.StepIsBlocked {
			other.Status = events.StepIsPending
		}
	}
	blockDependents(s.Plan)
	s.PlanDone = false
	s.addMessage(st.ID, text)
}

// lastOwn is the place of the last step of an agent.
func lastOwn(p *Plan) int {
	last := len(p.Steps) - 1
	for last > 0 && (!p.Steps[last].Works() || p.Steps[last].Parts > 0) {
		last--
	}
	return last
}

// ForkParts returns the events that bring a start over, and what run.created says of it. Its error is ErrForkLarge.
func ForkParts(old, start State) (events.ForkOrigin, []*events.RunForkedData, error) {
	whole, err := Codec{}.Encode(start)
	if err != nil {
		return events.ForkOrigin{}, nil, err
	}
	if len(whole) > events.MaxForkStart {
		return events.ForkOrigin{}, nil, ErrForkLarge
	}
	from := events.ForkOrigin{Run: old.HarnessID, Sequence: old.Sequence, Hash: old.Hash, StartBytes: len(whole),
		StartHash: HashOf(whole)}
	var parts []*events.RunForkedData
	for rest, offset := string(whole), 0; rest != ""; {
		n := min(len(rest), events.MaxForkPart)
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n--
		}
		parts = append(parts, &events.RunForkedData{Event: "run_forked", Offset: offset, Data: rest[:n]})
		rest, offset = rest[n:], offset+n
	}
	parts[0].Refs = refsOf(start)
	return from, parts, nil
}

// refsOf are the objects that a start refers to.
func refsOf(s State) []events.Ref {
	var refs []events.Ref
	add := func(r *events.Ref) {
		if r != nil && !slices.Contains(refs, *r) {
			refs = append(refs, *r)
		}
	}
	for _, t := range All(s.Turns()) {
		add(t.TextRef)
		add(t.RawRef)
		for _, c := range t.Calls {
			add(c.InputRef)
		}
	}
	for _, r := range All(s.ToolCallHistory) {
		add(r.ResultRef)
		for i := range r.Images {
			add(&r.Images[i].Ref)
		}
	}
	for _, a := range All(s.Artifacts) {
		if ref := a.Ref(); a.Kept == events.StoredWithLog { // its call may not have ended
			add(&ref)
		}
	}
	return refs
}

// Torn reports whether the run is a fork that does not have all of the state that it is to begin with.
func (s State) Torn() bool { return s.Created != nil && s.Created.ForkOf != nil && !s.Forked }

// forked folds a part of the start; with the last one the run stands where the other one stood.
func (s *State) forked(d *events.RunForkedData) string {
	from := s.Created.ForkOf
	switch {
	case from == nil:
		return "the run is no fork"
	case s.Status != events.Created || s.Forked:
		return "the run has all of the state that it begins with"
	case d.Offset != len(s.ForkStart) || d.Data == "" || len(d.Data) > from.StartBytes-d.Offset:
		return fmt.Sprintf("a part at byte %d does not follow the %d of %d bytes that are there", d.Offset, len(s.ForkStart),
			from.StartBytes)
	}
	whole := strings.Join([]string{s.ForkStart, d.Data}, "")
	if len(whole) < from.StartBytes {
		s.ForkStart = whole
		return ""
	}
	if HashOf([]byte(whole)) != from.StartHash {
		return "the state that the run begins with is not that of its start_hash"
	}
	start, err := Codec{}.Decode([]byte(whole))
	if err != nil {
		return "the state that the run begins with cannot be read: " + err.Error()
	}
	if start.Status != events.Created || len(start.Open) > 0 || len(start.Gates) > 0 {
		return "the state that the run begins with is none that a run can begin with"
	}
	own := *s
	*s = start
	s.SchemaVersion, s.HarnessID, s.TaskID, s.CreatedAt, s.Identity, s.Created = own.SchemaVersion, own.HarnessID,
		own.TaskID, own.CreatedAt, own.Identity, own.Created
	s.Options.Funds = own.Options.Funds
	s.Forked, s.ForkStart = true, ""
	return ""
}
