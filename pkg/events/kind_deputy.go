package events

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DeputyAggregate is the name of the aggregate that says who answers gates in whose place, DeputyID the id of its one
// log.
const (
	DeputyAggregate = "deputy"
	DeputyID        = "station"
)

// The kinds of the events of deputies.
const (
	DeputyNamed Kind = "deputy.named"
	DeputyEnded Kind = "deputy.ended"
)

// Limits of deputies: how many people have one at the same time, and for how long at most.
const (
	MaxDeputies  = 1000
	MaxAbsence   = 90 * 24 * time.Hour
	maxDeputyIns = 64
)

// DeputyRegistry returns the event types of deputies.
func DeputyRegistry() []Type { return deputyTypes[:] }

var deputyTypes = [...]Type{
	{DeputyNamed, Gatekeeper, "deputy_named", Recorded, InLog, line((*DeputyNamedData).line),
		"Somebody who is away named who answers gates in their place, until a time.",
		func() Payload { return new(DeputyNamedData) }},
	{DeputyEnded, Gatekeeper, "deputy_ended", Recorded, InLog, line((*DeputyEndedData).line),
		"Somebody who was away is back: no one answers gates in their place any more.",
		func() Payload { return new(DeputyEndedData) }},
}

// LookupDeputy is Lookup for the event types of deputies.
func LookupDeputy(k Kind) (Type, bool) { return lookup(deputyTypes[:], k) }

// DeputyNamedData is the payload of deputy.named. It replaces an earlier deputy of the same person.
type DeputyNamedData struct {
	Event string `json:"event"`
	// Number counts the deputies of the station from 1.
	Number int `json:"number"`
	// For is who is away: the owner of the subject that it was asked for on. To answers in their place Until then.
	For    string    `json:"for"`
	To     string    `json:"to"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	// Input is the position of the control in the input stream.
	Input uint64 `json:"input_seq,omitempty"`
}

// DeputyEndedData is the payload of deputy.ended.
type DeputyEndedData struct {
	Event string `json:"event"`
	// Number is that of the deputy that ends.
	Number int    `json:"number"`
	For    string `json:"for"`
	Reason string `json:"reason,omitempty"`
	Input  uint64 `json:"input_seq,omitempty"`
}

// Kind implements Payload.
func (*DeputyNamedData) Kind() Kind { return DeputyNamed }

// Kind implements Payload.
func (*DeputyEndedData) Kind() Kind { return DeputyEnded }

func (d *DeputyNamedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("%s answers gates for %s until %s %s", d.To, d.For,
		d.Until.UTC().Format(time.RFC3339), d.Reason))
}

func (d *DeputyEndedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("%s is back %s", d.For, d.Reason))
}

// Deputy is who answers gates in somebody's place.
type Deputy struct {
	Number int    `json:"number"`
	For    string `json:"for"`
	To     string `json:"to"`
	// Since is when it was recorded; it holds from then to Until.
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}

// Holds reports whether a deputy may answer at a time.
func (d Deputy) Holds(now time.Time) bool {
	return d.Number > 0 && !now.Before(d.Since) && now.Before(d.Until)
}

// Deputies are those of a station: the fold of their log.
type Deputies struct {
	// Number is that of the last one.
	Number int `json:"number"`
	// Deputies by the name of who is away, in order of it.
	Deputies []Deputy `json:"deputies,omitempty"`
	// Inputs are the last controls that were carried out.
	Inputs []DeputyInput `json:"inputs,omitempty"`
	// Log is the last event that they include.
	Log *LogHead `json:"log,omitempty"`
}

// Of is the deputy of somebody; its Number is 0 where there is none.
func (d Deputies) Of(name string) Deputy {
	for _, one := range d.Deputies {
		if one.For == name {
			return one
		}
	}
	return Deputy{}
}

// DeputyInput is a control that was carried out: its position in the input stream, and of whom it is.
type DeputyInput struct {
	Seq uint64 `json:"seq"`
	For string `json:"for"`
}

// Took reports whether the control at that position was carried out.
func (d Deputies) Took(input uint64) bool {
	return slices.ContainsFunc(d.Inputs, func(in DeputyInput) bool { return in.Seq == input })
}

// Overtaken reports whether a later control of somebody was carried out than the one at a position.
func (d Deputies) Overtaken(name string, input uint64) bool {
	return input > 0 && slices.ContainsFunc(d.Inputs, func(in DeputyInput) bool {
		return in.For == name && in.Seq > input
	})
}

// Noted is the last controls with one more.
func (d Deputies) Noted(name string, input uint64) []DeputyInput {
	if input == 0 {
		return d.Inputs
	}
	all := append(slices.Clone(d.Inputs), DeputyInput{input, name})
	return all[max(0, len(all)-maxDeputyIns):]
}

// Actions of a DeputyControl.
const (
	AwayAction = "away"
	BackAction = "back"
)

// DeputyControl is what a person publishes on the own subject to name a deputy, or to end that.
type DeputyControl struct {
	Action string `json:"action"`
	// To and Until go with away.
	To    string    `json:"to,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Reason is a text of at most MaxReason bytes.
	Reason string `json:"reason,omitempty"`
}

// Check returns what is wrong with a control, in words for its author.
func (c *DeputyControl) Check() error {
	var err error
	switch {
	case c.Action == AwayAction && c.To == Gateway:
		err = fmt.Errorf("to: %s is no person", Gateway)
	case c.Action == AwayAction && c.Until.IsZero():
		err = fmt.Errorf("until names when the absence ends, such as 2026-12-01T08:00:00Z: it goes with %s", AwayAction)
	case c.Action == AwayAction:
		err = CheckID("to", c.To)
	case c.Action != BackAction:
		err = fmt.Errorf("unknown action %.80q: the actions are %s and %s", c.Action, AwayAction, BackAction)
	case c.To != "" || !c.Until.IsZero():
		err = fmt.Errorf("to and until go with %s only", AwayAction)
	}
	return firstOf(err, CheckReason(c.Reason))
}

// DeputySubject is where somebody names a deputy. Permissions bind it to that user.
func DeputySubject(station, name string) string {
	return strings.Join([]string{"station", station, DeputyAggregate, name, "control"}, ".")
}

// DeputyAnswer says that an answer was given in somebody's place: By is who gave it, Number the deputy.named that lets
// them, Until when that ends.
type DeputyAnswer struct {
	By     string    `json:"by"`
	Number int       `json:"number"`
	Until  time.Time `json:"until"`
}

// checkDeputy returns what is wrong with in whose place an answer is given.
func (a *Answer) checkDeputy() error {
	if a.DeputyFor == "" {
		return nil
	}
	if a.Decision == "revoke" || a.Always != "" {
		return fmt.Errorf("a deputy answers one gate: deputy_for goes with no grant")
	}
	return CheckID("deputy_for", a.DeputyFor)
}
