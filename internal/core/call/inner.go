package call

import (
	"encoding/json"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Inner is what a program of others asks to do inside of a call.
type Inner struct {
	Tool string
	// Program is what the program calls it, Title what it shows of it.
	Program, Title string
	// Input are the arguments; Ref names them where they are large.
	Input json.RawMessage
	Ref   *events.Ref
}

// Progress records that the program of an attempt is given its work, in a session of that name. It answers nothing
// where that is known, or the attempt is not the current one any more.
func Progress(s run.State, a Attempt, session string) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	if p := s.Open[a.Call.ID].Program; p != nil && (p.Session == session || session == "") {
		return nil
	}
	return []events.Payload{&events.CallProgressedData{Event: "tool_progress", ToolRef: ref(a.Call), Fence: a.Fence,
		Session: session}}
}

// Keep records that the files of the session of an attempt were stored. It answers nothing where that is known, or the
// attempt is not the current one any more.
func Keep(s run.State, a Attempt, transcript events.Ref) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	p := s.Open[a.Call.ID].Program
	if p == nil || p.Transcript != nil && p.Transcript.SHA256 == transcript.SHA256 {
		return nil
	}
	return []events.Payload{&events.CallProgressedData{Event: "tool_progress", ToolRef: ref(a.Call), Fence: a.Fence,
		Session:    p.Session,
		Transcript: &transcript}}
}

// Request records what a program asks to do inside of an attempt. It answers nothing where the attempt is not the
// current one any more, or as much is open inside as may be.
func Request(s run.State, a Attempt, q Inner) []events.Payload {
	if !a.holds(s) || len(s.InnerOf(a.Call.ID)) >= run.MaxInner {
		return nil
	}
	c := s.Open[a.Call.ID]
	return []events.Payload{&events.CallRequestedData{Event: "tool_requested", Fence: a.Fence, ProgramID: q.Program,
		Title:   q.Title,
		ToolRef: events.ToolRef{Step: c.Step, Call: run.InnerID(c), Tool: q.Tool, Parent: c.ID}, Input: q.Input,
		InputRef: q.Ref}}
}

// Verdict is what became of a call inside.
type Verdict int

// The verdicts.
const (
	// Pending has none yet.
	Pending Verdict = iota
	// Allowed may be made, and was not begun.
	Allowed
	// Refused is never made, or was ended.
	Refused
)

// VerdictOn returns what became of a call that was requested inside of an attempt, and why it was refused.
func VerdictOn(s run.State, a Attempt, id string) (v Verdict, reason string) {
	c := s.Open[id]
	switch {
	case !a.holds(s):
		return Refused, "the call that the program works for has ended"
	case c == nil:
		for _, r := range run.Backward(s.ToolCallHistory) {
			if r.ID == id {
				return Refused, r.Result
			}
		}
		return Refused, "it is not known"
	case c.Phase == run.CallAllowed:
		return Allowed, ""
	case c.Phase == run.CallRequested:
		return Pending, ""
	}
	return Refused, "it was begun before"
}

// StartInner records that a permitted call inside of an attempt begins: the program is answered after that. It answers
// nothing where it may not begin.
func StartInner(s run.State, a Attempt, id, runner, preview string) []events.Payload {
	if v, _ := VerdictOn(s, a, id); v != Allowed {
		return nil
	}
	c := s.Open[id]
	return []events.Payload{&events.CallStartedData{Event: "tool_start", ToolRef: ref(*c), Input: preview, Attempt: 1,
		Effect: c.Effect, Runner: runner, Sandbox: a.Sandbox}}
}

// FinishInner records what a program says that became of a call inside.
func FinishInner(s run.State, a Attempt, id string, r Result) []events.Payload {
	c := s.Open[id]
	if !a.holds(s) || c == nil || c.Parent != a.Call.ID || c.Phase != run.CallStarted {
		return nil
	}
	return []events.Payload{&events.CallFinishedData{Event: "tool_result", ToolRef: ref(*c), Output: r.Output,
		OutputRef: r.Ref,
		Success:   r.Success, DurationMS: positive(r.Took), Attempt: c.Attempt, Fence: c.Fence, Sandbox: a.Sandbox,
		Reported: true}}
}

// Abandon ends what is open inside of an attempt whose program has ended and is started again. It answers nothing where
// nothing is open, or the attempt is not the current one any more.
func Abandon(s run.State, a Attempt) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	return abandoned(s, a.Call.ID)
}

// abandoned ends what is open inside of a call before the call itself ends or its program begins again. Of what had
// begun no one knows whether it took effect.
func abandoned(s run.State, id string) (say []events.Payload) {
	for _, c := range s.InnerOf(id) {
		d := &events.CallFailedData{Event: "tool_result", ToolRef: ref(*c), Class: "permanent", DurationMS: 1,
			Error:   "the program that asked for it ended before it was answered: it was not told that it may",
			Attempt: max(1, c.Attempt), Fence: c.Fence}
		if c.Phase == run.CallStarted {
			d.Class, d.Hint = events.OutcomeUnknown, events.OutcomeUnknownHint
			d.Error = "the program that asked for it did not say what became of it: it is unknown whether it took effect"
		}
		say = append(say, d)
	}
	return say
}
