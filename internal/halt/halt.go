// Package halt is the aggregate of the emergency stop: whether a station is halted, since when, by whom and why.
//
// Promises: a station has one such log, and the row that people read is a view of it. A decision is a function of a
// state and a time; it returns the state with what it decided noted in Changes. A station that is halted is not halted
// again, and only the halt that its author has seen is released, so that a release that comes late ends no later halt.
// A station that has moved is released only by who says that it has.
package halt

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of the halts of a station: the fold of their log, and what was decided on it and is not stored yet. It is a
// value: no function changes what can be reached from it.
type State struct {
	events.Halt
	kernel.Folded
}

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// Halted means that the station is halted already; NotHalted that it is not; Stale that another halt is in force than
	// the one that was to be released. Moved means that the station goes on elsewhere, NotMoved that it does not.
	Halted    = "already_halted"
	NotHalted = "not_halted"
	Stale     = "stale_release"
	Moved     = "station_moved"
	NotMoved  = "not_moved"
)

// Wish is a control with where it came from: Input is its position in the input stream.
type Wish struct {
	events.HaltControl
	Input uint64
}

// Steer carries out a control, or returns a *Refused.
func Steer(s State, w Wish, now time.Time) (State, error) {
	if s.Took(w.Input) {
		return s, nil
	}
	by := events.WorkBy{Input: w.Input, By: w.By, Reason: w.Reason}
	switch {
	case w.Action == events.HaltAction && s.Halted:
		return s, &Refused{Halted, fmt.Sprintf("the station is halted since %s, by %s: %s",
			s.Since.UTC().Format(time.RFC3339), s.By, s.Reason),
			"inspan release lets it go on"}
	case w.Action == events.HaltAction:
		return s.then(&events.HaltOrderedData{Event: "halt_ordered", Number: s.Number + 1, WorkBy: by}, now), nil
	case !s.Halted:
		return s, &Refused{NotHalted, "the station is not halted", "inspan halt REASON stops it"}
	case w.Number != s.Number:
		return s, &Refused{Stale, fmt.Sprintf("halt %d was meant, and halt %d is in force, by %s: %s", w.Number,
			s.Number, s.By, s.Reason),
			"read its reason, then inspan release again"}
	}
	return s.steerMoved(w, by, now)
}

// steerMoved carries out what is asked of a station that is halted.
func (s State) steerMoved(w Wish, by events.WorkBy, now time.Time) (State, error) {
	switch {
	case w.Action == events.ReturnAction && s.MovedTo == "":
		return s, &Refused{NotMoved, "the station has not moved", "inspan release lets it go on"}
	case w.Action == events.ReturnAction:
		return s.then(&events.HaltReturnedData{Event: "halt_returned", Number: s.Number, WorkBy: by}, now), nil
	case s.MovedTo != "" && !w.AlthoughMoved:
		return s, &Refused{Moved, fmt.Sprintf("the station moved to %s at %s: its runs go on there, and would go on here as well",
			s.MovedTo, s.MovedAt.UTC().Format(time.RFC3339)),
			"use it there; only where that copy is gone for good: inspan release --although-moved"}
	case w.Action == events.MoveAction:
		return s.then(&events.HaltMovedData{Event: "halt_moved", Number: s.Number, To: w.To, Place: w.Place, WorkBy: by},
			now), nil
	}
	return s.then(&events.HaltReleasedData{Event: "halt_released", Number: s.Number, WorkBy: by}, now), nil
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

var rules = kernel.Rules[State]{kernel.On(ordered), kernel.On(released), kernel.On(moved), kernel.On(returned)}

func ordered(s State, d *events.HaltOrderedData, at time.Time) (State, error) {
	if s.Halted || d.Number != s.Number+1 {
		return s, fmt.Errorf("halt %d is ordered after halt %d", d.Number, s.Number)
	}
	s.Number, s.Halted, s.By, s.Reason, s.Since, s.ReleasedBy = d.Number, true, d.By, d.Reason, at, ""
	return s.took(d.WorkBy), nil
}

func released(s State, d *events.HaltReleasedData, at time.Time) (State, error) {
	if !s.Halted || d.Number != s.Number {
		return s, fmt.Errorf("halt %d is released and is not in force", d.Number)
	}
	s.Halted, s.ReleasedBy = false, d.By
	s.MovedTo, s.MovedPlace, s.MovedAt = "", "", time.Time{}
	s.Past = append(slices.Clone(s.Past), events.HaltPeriod{From: s.Since, To: at})
	s.Past = s.Past[max(0, len(s.Past)-events.MaxHaltPeriods):]
	return s.took(d.WorkBy), nil
}

func moved(s State, d *events.HaltMovedData, at time.Time) (State, error) {
	if !s.Halted || d.Number != s.Number || s.MovedTo != "" || d.To == "" {
		return s, fmt.Errorf("the station moves in halt %d, which is not in force, or has moved", d.Number)
	}
	s.MovedTo, s.MovedPlace, s.MovedAt = d.To, d.Place, at
	return s.took(d.WorkBy), nil
}

func returned(s State, d *events.HaltReturnedData, _ time.Time) (State, error) {
	if !s.Halted || d.Number != s.Number || s.MovedTo == "" {
		return s, fmt.Errorf("the move in halt %d is taken back, and there is none", d.Number)
	}
	s.MovedTo, s.MovedPlace, s.MovedAt = "", "", time.Time{}
	return s.took(d.WorkBy), nil
}

// took notes that a control was carried out.
func (s State) took(by events.WorkBy) State {
	if by.Input == 0 {
		return s
	}
	s.Inputs = append(slices.Clone(s.Inputs), by.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxWorkInputs):]
	return s
}

// definition is what the kernel needs to know of halts.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "halt", Prefix: events.HaltAggregate + ".",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Halt, &s.Log, &s.Folded
		}},
	Token:  events.HaltAggregate,
	Lookup: events.LookupHalt,
	ID:     func(_ *State) string { return events.HaltID },
	Next:   rules.Fold,
}

// Types of the kernel for halts.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of halts.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of halts.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how halts are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
