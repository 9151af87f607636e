// Package call decides about attempts of tool calls: when one may begin, and what its end means.
//
// Promises: an attempt with effects begins only with its call.started in the log, and its result counts only with
// the fence of that event. A once call whose lease ran out is never begun again: its outcome is unknown. A call is
// attempted at most 1 + MaxRetries times, each delay at least twice the one before (TOOL-3, TOOL-4).
package call

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Defaults of a retry policy.
const (
	DefaultMaxRetries  = 3
	DefaultBaseBackoff = time.Second
)

// Effect classes as they stand in events.
const (
	Read         = "read"
	Idempotent   = "idempotent"
	Reconcilable = "reconcilable"
	Once         = "once"
)

// Kind of a duty.
type Kind int

// The duties.
const (
	// Nothing is owed: the call ended, or somebody else owes it.
	Nothing Kind = iota
	// Begin an attempt; for effects, write call.started first.
	Begin
	// Verify whether an earlier attempt took effect, then conclude or begin another.
	Verify
	// Unknown: record that no one knows the outcome.
	Unknown
	// Wait until Duty.At.
	Wait
	// Watch: another instance holds the lease; look again soon.
	Watch
	// Exhausted: all attempts are used up.
	Exhausted
)

// Duty is what the toolrunner owes a call.
type Duty struct {
	Kind    Kind
	Call    run.Call
	Attempt int
	At      time.Time
	// Key is the number of the station's key that the idempotency key of the attempt is made with.
	Key int
	// Last is true where no further attempt may follow: what is to be verified either took effect or is given up.
	Last bool
	// Why the call cannot be gone on with, where it is lost and that is known.
	Why string
}

// Lease tells whether an instance still holds the attempt it began.
type Lease struct {
	// Held is true while the instance that wrote the current call.started is alive.
	Held bool
}

// Next says what is owed to a call.
func Next(s run.State, id string, now time.Time, lease Lease) Duty {
	c := s.Open[id]
	if c == nil || s.Status.Ended() || c.Parent != "" { // what is inside belongs to whoever drives the program
		return Duty{}
	}
	d := Duty{Call: *c, Attempt: c.Attempt + 1}
	exhausted := c.Attempt > retries(s, c)
	switch c.Phase {
	case run.CallAllowed:
		d.Kind = Begin
	case run.CallDeferred:
		switch {
		case now.Before(c.NotBefore):
			d.Kind, d.At = Wait, c.NotBefore
		case exhausted:
			d.Kind = Exhausted
		default:
			d.Kind = Begin
		}
	case run.CallStarted:
		switch {
		case lease.Held:
			d.Kind = Watch
		case c.Effect == Reconcilable:
			d.Kind, d.Last = Verify, exhausted
		case c.Effect != Idempotent:
			d.Kind = Unknown
		case exhausted:
			d.Kind = Exhausted
		default:
			d.Kind = Begin
		}
	case run.CallRequested, run.CallDelegated, run.CallMailed:
	}
	return d
}

// NeedsStart reports whether an attempt must be announced before it begins.
func NeedsStart(effect string) bool { return effect != Read }

// Start announces an attempt. It answers nothing where the call is no longer as it was when the duty was found.
func Start(s run.State, d Duty, runner, sandbox string, preview string) []events.Payload {
	if !current(s, d) {
		return nil
	}
	return append(abandoned(s, d.Call.ID),
		&events.CallStartedData{Event: "tool_start", ToolRef: ref(d.Call), Input: preview,
			Attempt: d.Attempt, Effect: d.Call.Effect, Runner: runner, Sandbox: sandbox, Key: d.Key})
}

// current reports whether the call still is in the very phase, attempt and fence that a duty was found in.
func current(s run.State, d Duty) bool {
	c := s.Open[d.Call.ID]
	return c != nil && !s.Status.Ended() && c.Phase == d.Call.Phase && c.Attempt == d.Call.Attempt &&
		c.Fence == d.Call.Fence
}

func ref(c run.Call) events.ToolRef {
	return events.ToolRef{Step: c.Step, Call: c.ID, Tool: c.Tool, Parent: c.Parent}
}

// Attempt names an attempt under way.
type Attempt struct {
	Call   run.Call
	Number int
	// Fence is the sequence of its call.started, 0 for read-only tools.
	Fence uint64
	// Sandbox it ran in.
	Sandbox string
}

// holds reports whether the attempt's fence is still the current one, and nothing was said yet of how it ended.
func (a Attempt) holds(s run.State) bool {
	c := s.Open[a.Call.ID]
	return c != nil && !s.Status.Ended() && c.Fence == a.Fence && a.under(c)
}

// Holds reports whether what the attempt does may still take effect: its fence is the current one, and nothing was said
// of how it ended.
func (a Attempt) Holds(s run.State) bool { return a.holds(s) }

// under reports whether a call is still in this attempt. One without a fence, of a read-only tool, is told by its
// number.
func (a Attempt) under(c *run.Call) bool {
	if NeedsStart(c.Effect) {
		return c.Phase == run.CallStarted
	}
	return c.Attempt < a.Number
}

// Result of an attempt that was carried out, with its large parts already stored.
type Result struct {
	Output     string
	Ref        *events.Ref
	Images     []events.Image
	Success    bool
	ExitCode   *int
	Took       time.Duration
	Reconciled bool
	// Usage of the commands; nil where there were none.
	Usage *events.Usage
	// Notes is the path of the workspace's notes to agents that the output ends with; empty for none.
	Notes string
	// Dir is the folder that later shells of the step begin in; empty where it stays.
	Dir string
	// Background is the command that runs on, or whose output this is; nil for none.
	Background *events.Background
	// Hooks are the answers about it.
	Hooks []events.HookAnswer
	// Uncommitted is what the working tree has that no commit has; nil where no one looked.
	Uncommitted *events.Uncommitted
}

// Finish records a result. A late result, without the current fence, changes nothing.
func Finish(s run.State, a Attempt, r Result) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	return append(abandoned(s, a.Call.ID),
		&events.CallFinishedData{Event: "tool_result", ToolRef: ref(a.Call), Output: r.Output,
			OutputRef: r.Ref, Images: r.Images, Success: r.Success, DurationMS: positive(r.Took), Attempt: a.Number,
			RetryCount: a.Number - 1,
			Fence:      a.Fence, ExitCode: r.ExitCode, Reconciled: r.Reconciled, Sandbox: a.Sandbox, Usage: r.Usage,
			Notes: r.Notes,
			Dir:   r.Dir, Background: r.Background, Hooks: r.Hooks, Uncommitted: r.Uncommitted})
}

// Judged is a result after the hooks were asked about it. Where one blocks, the agent does not see it: what the tool
// did is done, and the call ends without success and with the reason.
func Judged(r Result, answers []events.HookAnswer) Result {
	r.Hooks = answers
	if a, ok := events.Decisive(answers); ok && a.Answer != events.HookInterrupt {
		r.Output, r.Ref, r.Images, r.Success, r.Notes = "The call was executed, its result is withheld. "+hook.Why(a), nil, nil, false, ""
		r.Background = nil // the agent has no handle of what was started, so it does not run on
	}
	return r
}

// Last reports whether no further attempt follows where this one failed in that way.
func Last(s run.State, a Attempt, f Failure) bool {
	return !f.Transient || a.Number > retries(s, &a.Call)
}

// positive is a duration in milliseconds, at least 1: a call that took place took time (TOOL-2).
func positive(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// Failure of an attempt.
type Failure struct {
	Error, Class, Hint string
	Transient          bool
	RetryAfter         time.Duration
	Took               time.Duration
	// Usage is what its commands used; nil for none.
	Usage *events.Usage
	// Hooks are the answers about it.
	Hooks []events.HookAnswer
}

// Fail records a failed attempt: the call is tried again later, or it failed for good.
func Fail(s run.State, a Attempt, f Failure, now time.Time) []events.Payload {
	if !a.holds(s) {
		return nil
	}
	if !Last(s, a, f) {
		delay := max(Backoff(s, &a.Call, a.Number), f.RetryAfter)
		return append(abandoned(s, a.Call.ID),
			&events.CallDeferredData{Event: "error", ToolRef: ref(a.Call), Error: f.Error, Class: f.Class,
				Attempt: a.Number, Fence: a.Fence, DelayMS: delay.Milliseconds(), NotBefore: now.Add(delay)})
	}
	return append(abandoned(s, a.Call.ID),
		&events.CallFailedData{Event: "tool_result", ToolRef: ref(a.Call), Error: f.Error,
			Class: f.Class,
			Hint:  f.Hint, DurationMS: positive(f.Took), Attempt: a.Number, RetryCount: a.Number - 1, Fence: a.Fence,
			Sandbox: a.Sandbox,
			Usage:   f.Usage, Hooks: f.Hooks})
}

// Lost records that no one knows the outcome of an attempt whose lease ran out.
func Lost(s run.State, d Duty) []events.Payload {
	if !current(s, d) {
		return nil
	}
	why := ""
	if d.Why != "" {
		why = ": " + d.Why
	}
	return append(abandoned(s, d.Call.ID), &events.CallFailedData{Event: "tool_result", ToolRef: ref(d.Call),
		Class: events.OutcomeUnknown,
		Error: fmt.Sprintf("the toolrunner %s was lost during the call; it is unknown whether the call took effect%s",
			d.Call.Runner, why),
		Hint:    events.OutcomeUnknownHint,
		Attempt: d.Call.Attempt, RetryCount: d.Call.Attempt - 1, Fence: d.Call.Fence, DurationMS: 1})
}

// GiveUp records that all attempts are used up.
func GiveUp(s run.State, d Duty) []events.Payload {
	if !current(s, d) {
		return nil
	}
	why := ""
	if d.Call.Phase == run.CallStarted {
		why = fmt.Sprintf(": the toolrunner %s was lost during the last one", d.Call.Runner)
	}
	return append(abandoned(s, d.Call.ID),
		&events.CallFailedData{Event: "tool_result", ToolRef: ref(d.Call), Class: "transient",
			Error: fmt.Sprintf("gave up after %d attempts%s", d.Call.Attempt, why), Attempt: d.Call.Attempt,
			RetryCount: d.Call.Attempt - 1, Fence: d.Call.Fence, DurationMS: 1})
}

// Again records when an attempt follows that takes the place of one that was lost and did not take effect. The first
// follows at once: it answers nothing, and the attempt begins. A call that is lost again and again waits longer each
// time.
func Again(s run.State, d Duty, now time.Time) []events.Payload {
	if d.Call.Attempt < 2 || !current(s, d) {
		return nil
	}
	delay := Backoff(s, &d.Call, d.Call.Attempt)
	return append(abandoned(s, d.Call.ID), &events.CallDeferredData{Event: "error", ToolRef: ref(d.Call),
		Error:   fmt.Sprintf("the toolrunner %s was lost during the call, as the one before it", d.Call.Runner),
		Class:   "transient",
		Attempt: d.Call.Attempt, Fence: d.Call.Fence, DelayMS: delay.Milliseconds(), NotBefore: now.Add(delay)})
}

// Backoff before the attempt after number: base, 2 base, 4 base ...
func Backoff(s run.State, c *run.Call, number int) time.Duration {
	base := DefaultBaseBackoff
	if r := policy(s, c); r.BaseBackoffMS > 0 {
		base = time.Duration(r.BaseBackoffMS) * time.Millisecond
	}
	return base << min(number-1, 20)
}

func retries(s run.State, c *run.Call) int {
	if r := policy(s, c); r.MaxRetries != nil {
		return max(0, *r.MaxRetries)
	}
	return DefaultMaxRetries
}

func policy(s run.State, c *run.Call) events.Retry {
	if st := s.Step(c.Step); st != nil {
		return s.Agents[st.AssignedAgent].Retry
	}
	return events.Retry{}
}
