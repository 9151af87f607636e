package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// StepExpandedData makes steps of a step: of the items of a list, of a round of a loop, of an attempt. What they do
// follows from the plan; here is what the plan does not say.
type StepExpandedData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// From is the number of the first new part, Count how many there are.
	From  int `json:"from"`
	Count int `json:"count"`
	// Items of the list, one for each part, as they were when they were looked at. Empty for rounds and attempts.
	Items []json.RawMessage `json:"items,omitempty"`
	// When is the condition of the step that was found to hold; empty where it has none, or for later parts.
	When string `json:"when,omitempty"`
	// Error, FinishReason and Class say why the attempt before failed, and NotBefore when the next may begin: an attempt,
	// or a look of an agent whose step waits.
	Error        string    `json:"error,omitempty"`
	FinishReason string    `json:"finish_reason,omitempty"`
	Class        string    `json:"class,omitempty"`
	DelayMS      int64     `json:"delay_ms,omitempty"`
	NotBefore    time.Time `json:"not_before,omitzero"`
}

// StepSettledData ends a step that the plan itself decides about: it is skipped, computed, waited for, approved, the
// end of its parts, or out of time.
type StepSettledData struct {
	Event string `json:"event"`
	Step  string `json:"step_id"`
	// Status is completed, failed or skipped.
	Status StepStatus `json:"status"`
	Output string     `json:"output,omitempty"`
	// When is the condition that decided.
	When string `json:"when,omitempty"`
	// Reason in words where the step was skipped.
	Reason string `json:"reason,omitempty"`
	// Error and FinishReason of a step that failed; Class is transient or hard.
	Error        string `json:"error,omitempty"`
	FinishReason string `json:"finish_reason,omitempty"`
	Class        string `json:"class,omitempty"`
	// Parts that the step had.
	Parts int `json:"parts,omitempty"`
	// By sent the signal that the step waited for, Input is the position of that message.
	By    string `json:"by,omitempty"`
	Input uint64 `json:"input,omitempty"`
}

// Classes of the failure of a step.
const (
	FailureTransient = "transient"
	FailureHard      = "hard"
)

// FailureClass is that of the reason for which a step failed.
func FailureClass(reason string) string {
	switch reason {
	case FinishError, FinishTimeout, FinishEmpty, FinishChild:
		return FailureTransient
	}
	return FailureHard
}

func (d *StepExpandedData) line() string {
	what := fmt.Sprintf("step %s: part %d begins", d.Step, d.From)
	switch {
	case d.Error != "":
		what = fmt.Sprintf("step %s: attempt %d failed (%s, %s), attempt %d begins in %s: %.300s", d.Step, d.From-1,
			d.FinishReason, d.Class,
			d.From, time.Duration(d.DelayMS)*time.Millisecond, d.Error)
	case d.DelayMS > 0:
		what += " in " + (time.Duration(d.DelayMS) * time.Millisecond).String()
	case d.Count != 1 || len(d.Items) > 0:
		what = fmt.Sprintf("step %s becomes %d steps, one for each item", d.Step, d.Count)
	}
	return what
}

func (d *StepSettledData) line() string {
	if d.Status == StepIsSkipped {
		return fmt.Sprintf("step %s skipped: %.300s", d.Step, d.Reason)
	}
	if d.Status == StepIsFailed {
		return fmt.Sprintf("step %s failed (%s, %s): %.300s", d.Step, d.FinishReason, d.Class, d.Error)
	}
	if d.Input > 0 {
		return fmt.Sprintf("step %s completed by a signal of %.80s: %.120s", d.Step, d.By, d.Output)
	}
	return fmt.Sprintf("step %s completed: %.120s", d.Step, d.Output)
}

func (*StepExpandedData) Kind() Kind { return StepExpanded }
func (*StepSettledData) Kind() Kind  { return StepSettled }
