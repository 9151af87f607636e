package harness

import (
	"errors"
	"fmt"
)

// Errors that a program may want to tell apart.
var (
	// ErrReplaced means that another program attached to the harness after this one.
	ErrReplaced = errors.New("another program records this harness now")
	// ErrBusy means that another program records the harness; WithStandby waits for it.
	ErrBusy = errors.New("another program records this harness")
	// ErrUnknownOutcome means that no one can say whether an effect happened.
	ErrUnknownOutcome = errors.New("the outcome is unknown")
	// ErrNoAgents means that Dispatch has no one to ask.
	ErrNoAgents = errors.New("no agents: give Run the option OnStation or WithAgents")
)

// RefusedError is what a store answers to what it does not record.
type RefusedError struct {
	// Code is stable for programs, Reason and Hint are for people.
	Code, Reason, Hint string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused (%s): %s; %s", e.Code, e.Reason, e.Hint)
}

// Is reports whether it is ErrReplaced or ErrBusy.
func (e *RefusedError) Is(target error) bool {
	return target == ErrReplaced && e.Code == codeReplaced || target == ErrBusy && e.Code == codeBusy
}

// DivergedError means that Execute did not repeat what is recorded: it depends on something that did not go through
// the Execution, or the program was changed.
type DivergedError struct {
	// Step is where, What is the part that differs.
	Step      int
	What      string
	Got, Want string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("step %d: Execute does not repeat its record: %s is %.200s, recorded is %.200s: what Execute computes may depend on the Execution alone (Do, Ask, Now); a changed program needs a new id, or WithoutReplay",
		e.Step, e.What, e.Got, e.Want)
}

// EffectError is an error that an effect returned. It is recorded as a text, so that it is the same after a restart.
type EffectError struct {
	Step   int
	Effect string
	Text   string
}

func (e *EffectError) Error() string { return fmt.Sprintf("step %d, %s: %s", e.Step, e.Effect, e.Text) }

// UnknownOutcomeError says of which effect the outcome is unknown: the program was lost after it had begun, and its
// class is Once. It is an ErrUnknownOutcome. The effect is not carried out again; Execute decides what follows.
type UnknownOutcomeError struct {
	Step   int
	Effect string
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("step %d: the program was lost during %s: %v", e.Step, e.Effect, ErrUnknownOutcome)
}

// Unwrap is ErrUnknownOutcome.
func (*UnknownOutcomeError) Unwrap() error { return ErrUnknownOutcome }
