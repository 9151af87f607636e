package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HaltAggregate is the name of the aggregate that says whether the station is halted, HaltID the id of its one log.
const (
	HaltAggregate = "halt"
	HaltID        = "station"
)

// HaltRow is the key of its row in the bucket of sessions.
const HaltRow = HaltAggregate + "." + HaltID

// The kinds of the events of halts.
const (
	HaltOrdered  Kind = "halt.ordered"
	HaltReleased Kind = "halt.released"
	HaltMoved    Kind = "halt.moved"
	HaltReturned Kind = "halt.returned"
)

// MaxHaltPeriods is how many halts that have ended are known: what they took does not count towards deadlines.
const MaxHaltPeriods = 256

// MaxMovedTo bounds the names of the place where a station has moved to, in bytes.
const MaxMovedTo = 512

// HaltRegistry returns the event types of halts.
func HaltRegistry() []Type { return haltTypes[:] }

var haltTypes = [...]Type{
	{HaltOrdered, Planner, "halt_ordered", Recorded, InLog, line((*HaltOrderedData).line),
		"Somebody stopped the whole station: no service but the persister takes anything until it is released.",
		func() Payload { return new(HaltOrderedData) }},
	{HaltReleased, Planner, "halt_released", Recorded, InLog, line((*HaltReleasedData).line),
		"Somebody released the station: all goes on where it was.",
		func() Payload { return new(HaltReleasedData) }},
	{HaltMoved, Planner, "halt_moved", Recorded, InLog, line((*HaltMovedData).line),
		"The halted station has moved: its runs go on at another place, and here it is not released.",
		func() Payload { return new(HaltMovedData) }},
	{HaltReturned, Planner, "halt_returned", Recorded, InLog, line((*HaltReturnedData).line),
		"A move was taken back before the release at the other place: the station is halted here, and may be released.",
		func() Payload { return new(HaltReturnedData) }},
}

// LookupHalt is Lookup for the event types of halts.
func LookupHalt(k Kind) (Type, bool) { return lookup(haltTypes[:], k) }

// HaltOrderedData is the payload of halt.ordered.
type HaltOrderedData struct {
	Event string `json:"event"`
	// Number counts the halts of the station from 1.
	Number int `json:"number"`
	WorkBy
}

// HaltReleasedData is the payload of halt.released.
type HaltReleasedData struct {
	Event string `json:"event"`
	// Number is that of the halt that ends.
	Number int `json:"number"`
	WorkBy
}

// HaltMovedData is the payload of halt.moved.
type HaltMovedData struct {
	Event string `json:"event"`
	// Number is that of the halt in force.
	Number int `json:"number"`
	// To is where the station goes on, for people; Place identifies its log there.
	To    string `json:"to"`
	Place string `json:"place,omitempty"`
	WorkBy
}

// HaltReturnedData is the payload of halt.returned.
type HaltReturnedData struct {
	Event string `json:"event"`
	// Number is that of the halt in force.
	Number int `json:"number"`
	WorkBy
}

// Kind implements Payload.
func (*HaltOrderedData) Kind() Kind { return HaltOrdered }

// Kind implements Payload.
func (*HaltReleasedData) Kind() Kind { return HaltReleased }

// Kind implements Payload.
func (*HaltMovedData) Kind() Kind { return HaltMoved }

// Kind implements Payload.
func (*HaltReturnedData) Kind() Kind { return HaltReturned }

func (d *HaltMovedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("halt %d: the station moved to %s, by %s %s", d.Number, d.To, d.By, d.Reason))
}

func (d *HaltReturnedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("halt %d: the move was taken back by %s %s", d.Number, d.By, d.Reason))
}

func (d *HaltOrderedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("halt %d by %s: %s", d.Number, d.By, d.Reason))
}

func (d *HaltReleasedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("halt %d released by %s %s", d.Number, d.By, d.Reason))
}

// HaltPeriod is a halt that has ended.
type HaltPeriod struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Halt is all that a station knows of its halts. It is the fold of their log; the row in the bucket of sessions is a
// view of it.
type Halt struct {
	// Number is that of the last halt, 0 where there was none.
	Number int `json:"number"`
	// Halted says that the station is halted, By whom, for which Reason, and Since when; of a station that was released
	// they are those of the last halt.
	Halted bool      `json:"halted"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// MovedTo is where the halted station went, for people, empty where it did not; MovedPlace identifies its log there.
	MovedTo    string    `json:"moved_to,omitempty"`
	MovedPlace string    `json:"moved_place,omitempty"`
	MovedAt    time.Time `json:"moved_at,omitzero"`
	// ReleasedBy ended the last halt.
	ReleasedBy string `json:"released_by,omitempty"`
	// Past are the last halts that have ended, in order.
	Past []HaltPeriod `json:"past,omitempty"`
	// Inputs are the positions of the last controls that were carried out.
	Inputs []uint64 `json:"inputs,omitempty"`
	// Log is the last event that a row includes.
	Log *LogHead `json:"log,omitempty"`
}

// Took reports whether the control at that position was carried out.
func (h Halt) Took(input uint64) bool { return slices.Contains(h.Inputs, input) }

// Stood is how long the station was halted between two times.
func (h Halt) Stood(since, now time.Time) (d time.Duration) {
	periods := h.Past
	if h.Halted {
		periods = append(slices.Clone(periods), HaltPeriod{From: h.Since, To: now})
	}
	for _, p := range periods {
		from, to := p.From, p.To
		if from.Before(since) {
			from = since
		}
		if to.After(now) {
			to = now
		}
		d += max(0, to.Sub(from))
	}
	return d
}

// Actions of a HaltControl.
const (
	HaltAction    = "halt"
	ReleaseAction = "release"
	// MoveAction marks a halted station as moved, so that it is not released; ReturnAction takes the mark away.
	MoveAction   = "move"
	ReturnAction = "return"
)

// HaltControl is what a user publishes to halt the station or to release it.
type HaltControl struct {
	Action string `json:"action"`
	// Number goes with all but halt: the halt that its author has seen. Another one is not released.
	Number int `json:"number,omitempty"`
	// To goes with move: where the station goes on, one line of at most MaxMovedTo bytes. Place identifies its log there.
	To    string `json:"to,omitempty"`
	Place string `json:"place,omitempty"`
	// AlthoughMoved goes with release: the station is released although it has moved.
	AlthoughMoved bool `json:"although_moved,omitempty"`
	// By is one line of at most MaxBy bytes, Reason a text of at most MaxReason. A halt needs a reason.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Check returns what is wrong with a control, in words for its author.
func (c *HaltControl) Check() error {
	var err error
	actions := []string{HaltAction, ReleaseAction, MoveAction, ReturnAction}
	switch {
	case !slices.Contains(actions, c.Action):
		err = fmt.Errorf("unknown action %.80q: the actions are %s", c.Action, strings.Join(actions, ", "))
	case c.Action == HaltAction && strings.TrimSpace(c.Reason) == "":
		err = errors.New("a halt needs a reason: whoever comes to work reads it")
	case (c.Action != HaltAction) != (c.Number > 0):
		err = errors.New("number names the halt in force: it goes with every action but halt, and those need it")
	case (c.Action == MoveAction) != (strings.TrimSpace(c.To) != ""), c.Action != MoveAction && c.Place != "":
		err = errors.New("to says where the station goes on: it goes with move, which needs it, as place does")
	case c.AlthoughMoved && c.Action != ReleaseAction:
		err = errors.New("although_moved goes with release")
	}
	return firstOf(err, checkText("to", c.To, MaxMovedTo, false),
		checkText("place", c.Place, MaxMovedTo, false), CheckBy(c.By), CheckReason(c.Reason))
}

// HaltSubject is where users halt and release a station.
func HaltSubject(station string) string {
	return strings.Join([]string{"station", station, HaltAggregate, HaltID, "control"}, ".")
}
