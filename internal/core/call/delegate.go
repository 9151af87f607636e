package call

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Waits reports whether calls of a tool are answered out of the log, with what child runs came to or a planner did.
func Waits(tool string) bool { return Asks(tool) || tool == events.ToolDelegateResult }

// Asks reports whether a permitted call of a tool is left to a planner.
func Asks(tool string) bool { return tool == events.ToolDelegate || events.IsMailTool(tool) }

// Ask is what is recorded of a permitted call that is left to a planner: that it waits, or what is wrong with its
// arguments.
func Ask(s run.State, id string, input json.RawMessage) []events.Payload {
	c := s.Open[id]
	if c == nil || c.Phase != run.CallAllowed || !Asks(c.Tool) || s.Status.Ended() {
		return nil
	}
	if events.IsMailTool(c.Tool) {
		return askMail(s, *c, input)
	}
	st := s.Step(c.Step)
	d, err := events.Delegating(input)
	fault := ""
	if err != nil {
		fault = err.Error()
	} else {
		fault = d.Fault(s.Agents[st.AssignedAgent])
	}
	if fault != "" {
		return []events.Payload{&events.CallFailedData{Event: "tool_result", ToolRef: ref(*c), Error: ClipError(fault),
			Class: "invalid", Hint: "fix the arguments and retry", DurationMS: 1, Attempt: 1}}
	}
	return []events.Payload{&events.CallDelegatedData{Event: "tool_start", ToolRef: ref(*c), Delegation: d, Attempt: 1,
		Effect: c.Effect}}
}

// Answer is what an open call is answered with; ok is false where it still waits for a child.
func Answer(s run.State, id string, input json.RawMessage, now time.Time) (r Result, ok bool) {
	c := s.Open[id]
	switch {
	case c == nil || s.Status.Ended():
		return r, false
	case c.Phase == run.CallDelegated:
		return ofChild(s, c, now)
	case c.Phase == run.CallMailed && c.Answer != nil:
		return Result{Output: c.Answer.Output, Success: c.Answer.Success, Took: now.Sub(c.StartedAt)}, true
	case c.Phase == run.CallAllowed && c.Tool == events.ToolDelegateResult:
		return ofResult(s, input)
	}
	return r, false
}

// ofChild answers a call of delegate.
func ofChild(s run.State, c *run.Call, now time.Time) (r Result, ok bool) {
	k := s.ChildAt(c.Step, c.ID)
	switch {
	case k == nil:
		return r, false
	case k.Background && k.ID != "":
		return Result{Success: true, Output: k.ID}, true
	case k.Lives() || k.Retry:
		return r, false
	}
	r.Output, r.Success = came(s, k)
	r.Took = now.Sub(c.StartedAt)
	return r, true
}

// came is what the work of a child that has ended came to, in words for the agent that gave it away.
func came(s run.State, k *run.Child) (text string, success bool) {
	switch k.Outcome {
	case events.ChildIsCompleted:
		if text = s.SubAgentResults[k.ID]; text == "" {
			text = "(the agent gave no answer)"
		}
		if k.Branch != "" {
			text += fmt.Sprintf("\n\n(Its work is on the branch %s at commit %s, which is not merged into yours.)", k.Branch, k.Commit)
		}
		return text, true
	case events.ChildIsRefused:
		return fmt.Sprintf("no child run was begun (%s): %s", k.FinishReason, k.Error), false
	}
	return fmt.Sprintf("agent %s failed, attempt %d of %d (%s): %s", k.Agent, k.Attempt, events.MaxChildAttempts,
		k.FinishReason,
		k.Error), false
}

// question is what a call of delegate_result asks.
type question struct {
	ID   string `json:"id"`
	Wait *bool  `json:"wait"`
}

// ofResult answers a call of delegate_result.
func ofResult(s run.State, input json.RawMessage) (r Result, ok bool) {
	var a question
	if err := json.Unmarshal(input, &a); err != nil {
		return Result{Output: "the arguments are unreadable: " + err.Error()}, true
	}
	if a.ID == "" {
		return Result{Success: true, Output: listed(s)}, true
	}
	k := background(s, a.ID)
	switch {
	case k == nil:
		return Result{Output: fmt.Sprintf("there is no work %.80q in the background; without id all of it is listed",
			a.ID)}, true
	case (k.Lives() || k.Retry) && (a.Wait == nil || *a.Wait):
		return r, false
	case k.Lives() || k.Retry:
		return Result{Success: true, Output: "still working: " + line(k)}, true
	}
	r.Output, r.Success = came(s, k)
	return r, true
}

// background returns the last attempt at the work that an id was given for.
func background(s run.State, id string) *run.Child {
	for _, k := range s.Children {
		if k.Background && k.ID == id && k.ID != "" {
			return s.ChildAt(k.Step, k.Call)
		}
	}
	return nil
}

// maxListed bounds how much work in the background is listed.
const maxListed = 100

// listed names all work in the background.
func listed(s run.State) string {
	var lines []string
	left := 0
	for _, k := range s.Children {
		switch {
		case !k.Background || k.ID == "" || k.Attempt > 1:
		case len(lines) == maxListed:
			left++
		default:
			lines = append(lines, k.ID+": "+line(s.ChildAt(k.Step, k.Call)))
		}
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	if len(lines) == 0 {
		return "nothing was given away in the background"
	}
	return strings.Join(lines, "\n")
}

func line(k *run.Child) string {
	state := k.Outcome
	if k.Lives() || k.Retry {
		state = "at work"
	}
	return fmt.Sprintf("agent %s, attempt %d, %s", k.Agent, k.Attempt, state)
}

// Waiting are the open calls of a run that wait for children, in no order.
func Waiting(s run.State) (ids []string) {
	for id, c := range s.Open {
		if c.Phase == run.CallDelegated || c.Phase == run.CallAllowed && c.Tool == events.ToolDelegateResult {
			ids = append(ids, id)
		}
	}
	return ids
}

// Answered records the answer of a call; nothing where it was answered, or waits again.
func Answered(s run.State, id string, input json.RawMessage, r Result, now time.Time) []events.Payload {
	if _, ok := Answer(s, id, input, now); !ok {
		return nil
	}
	c := s.Open[id]
	return []events.Payload{&events.CallFinishedData{Event: "tool_result", ToolRef: ref(*c),
		Output: r.Output, Success: r.Success, DurationMS: max(1, r.Took.Milliseconds()), Attempt: 1, Fence: c.Fence,
		Hooks: r.Hooks}}
}
