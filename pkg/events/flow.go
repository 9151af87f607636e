package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StepControl is what a step does in place of an agent.
type StepControl string

// The kinds of steps without an agent.
const (
	// ControlApproval asks a person.
	ControlApproval StepControl = "approval"
	// ControlSet computes its output.
	ControlSet StepControl = "set"
	// ControlWait lets time pass.
	ControlWait StepControl = "wait"
)

// Limits of the control flow of a plan.
const (
	// MaxParts bounds the items of one list, and the rounds of one loop.
	MaxParts = 500
	// MaxRetry bounds the attempts of a step, MaxFlowTime each time in its control flow.
	MaxRetry    = 20
	MaxFlowTime = 30 * 24 * time.Hour
	// MaxExpression bounds an expression, in bytes.
	MaxExpression = 4 << 10
	// MaxPlanVars bounds the values that a plan gives its expressions, in bytes.
	MaxPlanVars = 64 << 10
	// MaxItem bounds one item of a list that steps are made of, MaxList all items of one list, in bytes as JSON.
	MaxItem, MaxList = 8 << 10, 128 << 10
	// MaxSignal bounds what a signal carries, in bytes.
	MaxSignal = 16 << 10
	// maxFactor bounds by what each wait is longer than the one before.
	maxFactor = 100
)

// What follows when the last attempt of a step failed.
const (
	HardFail = "hard_fail"
	// SoftFail lets the steps go on that depend on it.
	SoftFail = "soft_fail"
)

// What becomes of a step whose signal did not come in time.
const (
	TimeoutFails = "fail"
	TimeoutSkips = "skip"
)

// Which failures are tried again.
const (
	RetryTransient = "transient"
	RetryAny       = "any"
)

// StepFlow is when and how often a step is carried out. Nil is a step that is carried out once, after those that it
// depends on.
type StepFlow struct {
	// Kind of a step that no agent carries out; empty for all others.
	Kind StepControl `json:"kind,omitempty"`
	// When is an expression: where it is false the step is skipped.
	When string `json:"when,omitempty"`
	// Set is the expression that a ControlSet computes.
	Set string `json:"set,omitempty"`
	// Each makes a step of each item of a list, or of each round of a loop.
	Each *StepEach `json:"each,omitempty"`
	// Retry carries the step out again where it failed.
	Retry *StepRetry `json:"retry,omitempty"`
	// TimeoutMS bounds one attempt, WaitMS is how long a ControlWait takes.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	WaitMS    int64 `json:"wait_ms,omitempty"`
	// Signal is the name of the message that ends a ControlWait. WaitMS is how long it waits for that, 0 for ever, and
	// OnTimeout what follows then: TimeoutFails (default) or TimeoutSkips.
	Signal    string `json:"signal,omitempty"`
	OnTimeout string `json:"on_timeout,omitempty"`
	// Wake has the agent of the step look for itself from time to time, until the signal comes.
	Wake *StepWake `json:"wake,omitempty"`
	// Always has the step carried out once those that it depends on have ended, however they did.
	Always bool `json:"always,omitempty"`
	// Check has the acceptance checks of the step decide at once: no agent takes a turn, and the step fails where one does
	// not pass.
	Check bool `json:"check,omitempty"`
	// Approval is what a ControlApproval asks.
	Approval *StepApproval `json:"approval,omitempty"`
}

// StepEach makes steps of a list. The step itself ends when they have.
type StepEach struct {
	// Over is an expression that gives a list; empty for a loop that ends by Until.
	Over string `json:"over,omitempty"`
	// Until is an expression that ends a loop after one of its rounds, with the names last and round.
	Until string `json:"until,omitempty"`
	// Most rounds of a loop; 0 means MaxParts.
	Most int `json:"most,omitempty"`
	// Parallel bounds how many are carried out at a time; 0 is without a limit.
	Parallel int `json:"parallel,omitempty"`
	// Need is how many must be completed; 0 means all.
	Need int `json:"need,omitempty"`
}

// StepRetry says how often and how fast a step that failed is carried out again.
type StepRetry struct {
	// Attempts in all, 1 for one.
	Attempts int `json:"max_attempts"`
	// BackoffMS before the second attempt; before each later one Factor times as long as before the last.
	BackoffMS int64   `json:"backoff_ms,omitempty"`
	Factor    float64 `json:"factor,omitempty"`
	// On is RetryTransient (default) or RetryAny, Exhausted HardFail (default) or SoftFail.
	On        string `json:"on,omitempty"`
	Exhausted string `json:"on_exhausted,omitempty"`
}

// StepApproval is a question to a person.
type StepApproval struct {
	// Approvers who may answer, proven; empty lets everybody answer who may answer gates.
	Approvers []string `json:"approvers,omitempty"`
	// TimeoutMS is how long it waits, 0 for ever; OnTimeout is ExpiryRejects (default), ExpiryFails, ExpiryApproves or
	// ExpiryEscalates.
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	OnTimeout string `json:"on_timeout,omitempty"`
	// EscalateTo goes with ExpiryEscalates: they may answer, too, once the time is up. That question has no time limit of
	// its own.
	EscalateTo []string `json:"escalate_to,omitempty"`
}

// StepPart says what a step is part of, where another one was made into several.
type StepPart struct {
	// Of is the step, Number counts its parts from 1.
	Of     string `json:"of"`
	Number int    `json:"number"`
	// Item of the list that the part is about, as JSON.
	Item json.RawMessage `json:"item,omitempty"`
	// NotBefore is when a further attempt may begin.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// PartID is the id of a part of a step.
func PartID(step string, number int) string { return step + "-" + strconv.Itoa(number) }

// Whole returns the step that an id would be a part of, as PartID makes it; ok is false where it cannot be one.
func Whole(id string) (step string, ok bool) {
	step = strings.TrimRight(id, "0123456789")
	if step == id || !strings.HasSuffix(step, "-") {
		return "", false
	}
	return step[:len(step)-1], true
}

// Group reports whether steps are made of the step, which does nothing itself.
func (f *StepFlow) Group() bool { return f != nil && (f.Each != nil || f.Retry.Again()) }

// Again reports whether there is more than one attempt.
func (r *StepRetry) Again() bool { return r != nil && r.Attempts > 1 }

// Soft reports whether steps that depend on this one go on after it failed.
func (f *StepFlow) Soft() bool { return f != nil && f.Retry != nil && f.Retry.Exhausted == SoftFail }

// Controls reports whether no agent carries the step out.
func (f *StepFlow) Controls() bool { return f != nil && f.Kind != "" }

// Checks reports whether the step is its acceptance checks and nothing else.
func (f *StepFlow) Checks() bool { return f != nil && f.Check && !f.Group() }

// Delay is how long an attempt waits after so many failed ones.
func (r *StepRetry) Delay(failed int) time.Duration {
	d, factor := float64(r.BackoffMS)*float64(time.Millisecond), max(r.Factor, 1)
	for range failed - 1 {
		d = min(d*factor, float64(MaxFlowTime))
	}
	return time.Duration(min(d, float64(MaxFlowTime)))
}

// Fault returns what is wrong with the control flow of a step, "" for nothing. Expressions are not parsed.
func (f *StepFlow) Fault(id, child string) string {
	if f == nil {
		return ""
	}
	for _, ms := range []int64{f.TimeoutMS, f.WaitMS} {
		if ms < 0 || ms > MaxFlowTime.Milliseconds() {
			return fmt.Sprintf("a time of %d ms is not between 0 and %s", ms, MaxFlowTime)
		}
	}
	for _, e := range []string{f.When, f.Set} {
		if len(e) > MaxExpression {
			return fmt.Sprintf("an expression has %d bytes, the limit is %d", len(e), MaxExpression)
		}
	}
	if fault := f.kindFault(child); fault != "" {
		return fault
	}
	if child != "" && f.TimeoutMS > 0 {
		return "a step that is a run of its own has no timeout: its agent's file sets one"
	}
	if f.Parted() && len(id) > maxGroupID {
		return fmt.Sprintf("the id of a step that others are made of has at most %d characters", maxGroupID)
	}
	if fault := f.Each.fault(); fault != "" {
		return fault
	}
	if fault := f.Wake.fault(); fault != "" {
		return fault
	}
	return f.Retry.fault()
}

// maxGroupID leaves room in an id for the numbers of parts: an item, and an attempt of it.
const maxGroupID = MaxID - 8

func (f *StepFlow) kindFault(child string) string {
	switch f.Kind {
	case "", ControlSet, ControlWait, ControlApproval:
	default:
		return fmt.Sprintf("the kind %.40q is none of %s, %s, %s", f.Kind, ControlApproval, ControlSet, ControlWait)
	}
	switch {
	case f.Kind != "" && (f.Each != nil || f.Retry != nil || f.TimeoutMS > 0 || child != ""):
		return fmt.Sprintf("a step of the kind %s has no list, loop, retry, timeout or child", f.Kind)
	case (f.Kind == ControlSet) != (f.Set != ""):
		return "an expression to compute goes with the kind set"
	case (f.Kind == ControlWait) != (f.WaitMS > 0 || f.Signal != ""):
		return "a time to wait or a signal goes with the kind wait"
	case f.Wake != nil && f.Signal == "":
		return "wake goes with a signal"
	case f.Signal != "" && !ValidID(f.Signal):
		return fmt.Sprintf("the signal %.40q is not a single token", f.Signal)
	case f.OnTimeout != "" && (f.Signal == "" || f.WaitMS == 0 || f.OnTimeout != TimeoutFails &&
		f.OnTimeout != TimeoutSkips):
		return fmt.Sprintf("on_timeout of a signal is %s or %s, and goes with a timeout", TimeoutFails, TimeoutSkips)
	case (f.Kind == ControlApproval) != (f.Approval != nil):
		return "a question goes with the kind approval"
	case f.Check && (f.Kind != "" || child != "" || f.Each != nil && f.Each.Until != ""):
		return "a step that only checks has no kind, no loop with a condition and is no run of its own"
	case f.Always && (f.When != "" || f.Each != nil):
		return "a step that is always carried out has no condition, list or loop"
	}
	if a := f.Approval; a != nil {
		switch {
		case a.TimeoutMS < 0 || a.TimeoutMS > MaxFlowTime.Milliseconds():
			return fmt.Sprintf("the approval waits %d ms, not between 0 and %s", a.TimeoutMS, MaxFlowTime)
		case a.OnTimeout != "" && !slices.Contains([]string{ExpiryRejects, ExpiryFails, ExpiryApproves,
			ExpiryEscalates}, a.OnTimeout):
			return fmt.Sprintf("on_timeout %.40q is none of %s, %s, %s, %s", a.OnTimeout, ExpiryRejects, ExpiryFails,
				ExpiryApproves,
				ExpiryEscalates)
		case (a.OnTimeout == ExpiryEscalates) != (len(a.EscalateTo) > 0):
			return "escalate_to goes with on_timeout escalate, which needs it"
		case a.OnTimeout != "" && a.TimeoutMS == 0:
			return "on_timeout goes with a timeout"
		case len(a.Approvers) > MaxApprovers || len(a.EscalateTo) > MaxApprovers:
			return fmt.Sprintf("%d approvers, the limit is %d", max(len(a.Approvers), len(a.EscalateTo)), MaxApprovers)
		}
		for _, by := range slices.Concat(a.Approvers, a.EscalateTo) {
			if !ValidID(by) {
				return fmt.Sprintf("the approver %.40q is not a single token", by)
			}
		}
	}
	return ""
}

func (e *StepEach) fault() string {
	switch {
	case e == nil:
		return ""
	case len(e.Over) > MaxExpression || len(e.Until) > MaxExpression:
		return fmt.Sprintf("an expression is longer than %d bytes", MaxExpression)
	case (e.Over == "") == (e.Until == ""):
		return "a loop needs a list, or a condition that ends it"
	case e.Until != "" && e.Parallel != 1:
		return "the rounds of a loop come one after the other"
	case e.Most < 0 || e.Most > MaxParts:
		return fmt.Sprintf("%d rounds are not between 0 and %d", e.Most, MaxParts)
	case e.Parallel < 0 || e.Parallel > MaxParts:
		return fmt.Sprintf("%d at a time are not between 0 and %d", e.Parallel, MaxParts)
	case e.Need < 0 || e.Need > MaxParts:
		return fmt.Sprintf("%d that must be completed are not between 0 and %d", e.Need, MaxParts)
	case e.Until != "" && e.Need != 0:
		return "a loop has no join"
	}
	return ""
}

func (r *StepRetry) fault() string {
	switch {
	case r == nil:
		return ""
	case r.Attempts < 1 || r.Attempts > MaxRetry:
		return fmt.Sprintf("max_attempts is %d, want 1 to %d", r.Attempts, MaxRetry)
	case r.BackoffMS < 0 || r.BackoffMS > MaxFlowTime.Milliseconds():
		return fmt.Sprintf("a backoff of %d ms is not between 0 and %s", r.BackoffMS, MaxFlowTime)
	case r.Factor != 0 && (r.Factor < 1 || r.Factor > maxFactor || r.Factor != r.Factor):
		return fmt.Sprintf("a factor of %g is not between 1 and %d", r.Factor, maxFactor)
	case r.On != "" && r.On != RetryTransient && r.On != RetryAny:
		return fmt.Sprintf("on is %.40q, want %s or %s", r.On, RetryTransient, RetryAny)
	case r.Exhausted != "" && r.Exhausted != HardFail && r.Exhausted != SoftFail:
		return fmt.Sprintf("on_exhausted is %.40q, want %s or %s", r.Exhausted, HardFail, SoftFail)
	}
	return ""
}
