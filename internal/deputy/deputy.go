// Package deputy is the aggregate of deputies: who answers gates in the place of somebody who is away, and until when.
//
// Promises: a station has one such log. Only who is away names a deputy, on a subject that permissions bind to them. A
// deputy ends by itself at its time, which is compared with the time that a decision is given, and is never handed on:
// what somebody may do as a deputy they cannot give to another one. A decision is a function of a state and a time.
package deputy

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of the deputies of a station: the fold of their log, and what was decided on it and is not stored yet. It is a
// value: no function changes what can be reached from it.
type State struct {
	events.Deputies
	kernel.Folded
}

// Refused says why something may not be. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// Input means that the control makes no sense, Here that the person has no deputy, Full that there are too many,
	// Overtaken that a later control of the same person was carried out before.
	Input     = "bad_input"
	Here      = "not_away"
	Full      = "too_many_deputies"
	Overtaken = "overtaken"
)

// Wish is a control with who it is of, which the subject says, and its position in the input stream.
type Wish struct {
	events.DeputyControl
	For   string
	Input uint64
}

// Steer carries out a control, or returns a *Refused.
func Steer(s State, w Wish, now time.Time) (State, error) {
	if s.Took(w.Input) {
		return s, nil
	}
	old := s.Of(w.For)
	switch {
	case s.Overtaken(w.For, w.Input):
		return s, &Refused{Overtaken, "a later control of " + w.For + " was carried out before this one",
			"inspan away lists who answers for whom; name a deputy again"}
	case w.Action == events.BackAction && !old.Holds(now):
		return s, &Refused{Here, w.For + " has no deputy", "nothing to do; inspan away lists who has one"}
	case w.Action == events.BackAction:
		return s.then(&events.DeputyEndedData{Event: "deputy_ended", Number: old.Number, For: w.For, Reason: w.Reason,
			Input: w.Input}, now), nil
	case strings.EqualFold(w.To, w.For):
		return s, &Refused{Input, w.For + " cannot be the deputy of " + w.For, "name somebody else"}
	case !w.Until.After(now):
		return s, &Refused{Input, "the absence would have ended at " + w.Until.UTC().Format(time.RFC3339),
			"name a time that is to come"}
	case w.Until.Sub(now) > events.MaxAbsence:
		return s, &Refused{Input, "the absence would last until " + w.Until.UTC().Format(time.RFC3339),
			fmt.Sprintf("name a time within %d days", events.MaxAbsence/(24*time.Hour))}
	case old.Number == 0 && len(s.holding(now)) >= events.MaxDeputies:
		return s, &Refused{Full, fmt.Sprintf("%d people have a deputy", events.MaxDeputies),
			"those who are back can end that: inspan away --end"}
	}
	return s.then(&events.DeputyNamedData{Event: "deputy_named", Number: s.Number + 1, For: w.For, To: w.To,
		Until: w.Until.UTC(), Reason: w.Reason, Input: w.Input}, now), nil
}

// holding are the deputies that have not ended at a time.
func (s State) holding(now time.Time) []events.Deputy {
	return slices.DeleteFunc(slices.Clone(s.Deputies.Deputies), func(d events.Deputy) bool { return !now.Before(d.Until) })
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

var rules = kernel.Rules[State]{kernel.On(named), kernel.On(ended)}

func named(s State, d *events.DeputyNamedData, at time.Time) (State, error) {
	switch {
	case d.Number != s.Number+1:
		return s, fmt.Errorf("deputy %d is named after deputy %d", d.Number, s.Number)
	case d.For == "" || d.To == "" || strings.EqualFold(d.For, d.To):
		return s, fmt.Errorf("deputy %d: %q cannot be that of %q", d.Number, d.To, d.For)
	case !d.Until.After(at):
		return s, fmt.Errorf("deputy %d ends before it begins", d.Number)
	}
	all := slices.DeleteFunc(s.holding(at), func(o events.Deputy) bool { return o.For == d.For })
	all = append(all, events.Deputy{Number: d.Number, For: d.For, To: d.To, Since: at, Until: d.Until, Reason: d.Reason})
	sort.Slice(all, func(i, j int) bool { return all[i].For < all[j].For })
	s.Number, s.Deputies.Deputies, s.Inputs = d.Number, all, s.Noted(d.For, d.Input)
	return s, nil
}

func ended(s State, d *events.DeputyEndedData, at time.Time) (State, error) {
	if old := s.Of(d.For); old.Number != d.Number || !old.Holds(at) {
		return s, fmt.Errorf("deputy %d of %s ends and does not hold", d.Number, d.For)
	}
	s.Deputies.Deputies = slices.DeleteFunc(s.holding(at), func(o events.Deputy) bool { return o.For == d.For })
	s.Inputs = s.Noted(d.For, d.Input)
	return s, nil
}

// definition is what the kernel needs to know of deputies.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "deputies", Prefix: events.DeputyAggregate + ".",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Deputies, &s.Log, &s.Folded
		}},
	Token:  events.DeputyAggregate,
	Lookup: events.LookupDeputy,
	ID:     func(_ *State) string { return events.DeputyID },
	Next:   rules.Fold,
}

// Types of the kernel for deputies.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of deputies.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of deputies.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }
