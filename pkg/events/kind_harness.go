package events

import (
	"encoding/json"
	"fmt"
	"strings"
)

// HarnessAggregate is the name of the aggregates that are harnesses, as it stands in subjects.
const HarnessAggregate = "harness"

// The kinds of the events of a harness.
const (
	HarnessOpened   Kind = "harness.opened"
	HarnessAttached Kind = "harness.attached"
	HarnessBegan    Kind = "harness.begun"
	HarnessSettled  Kind = "harness.settled"
	HarnessStepped  Kind = "harness.stepped"
	HarnessEnded    Kind = "harness.ended"
)

// HarnessRegistry returns the event types of harnesses, in the order of a harness's life.
func HarnessRegistry() []Type { return harnessTypes[:] }

var harnessTypes = [...]Type{
	{HarnessOpened, Planner, "harness_opened", Recorded, InLog, line((*HarnessOpenedData).line),
		"A program began a harness; this is its first state.",
		func() Payload { return new(HarnessOpenedData) }},
	{HarnessAttached, Planner, "harness_attached", Recorded, InLog, line((*HarnessAttachedData).line),
		"A program records the harness from now on; what an earlier one still sends is refused.",
		func() Payload { return new(HarnessAttachedData) }},
	{HarnessBegan, Planner, "harness_begun", Recorded, InLog, line((*HarnessBegunData).line),
		"An effect that must not simply happen again is about to begin.",
		func() Payload { return new(HarnessBegunData) }},
	{HarnessSettled, Planner, "harness_settled", Recorded, InLog, line((*HarnessSettledData).line),
		"What came of an effect that was begun.",
		func() Payload { return new(HarnessSettledData) }},
	{HarnessStepped, Planner, "harness_stepped", Recorded, InLog, line((*HarnessSteppedData).line),
		"The harness yielded an input and an output: one step.",
		func() Payload { return new(HarnessSteppedData) }},
	{HarnessEnded, Planner, "harness_ended", Recorded, InLog, line((*HarnessEndedData).line),
		"The harness is complete.",
		func() Payload { return new(HarnessEndedData) }},
}

// LookupHarness is Lookup for the event types of harnesses.
func LookupHarness(k Kind) (Type, bool) { return lookup(harnessTypes[:], k) }

// HarnessOpenedData is the payload of harness.opened.
type HarnessOpenedData struct {
	Event   string          `json:"event"`
	Harness string          `json:"harness"`
	Name    string          `json:"name"`
	State   json.RawMessage `json:"state"`
}

// HarnessAttachedData is the payload of harness.attached.
type HarnessAttachedData struct {
	Event string `json:"event"`
	// Epoch counts the programs that were attached, from 1.
	Epoch  int    `json:"epoch"`
	Holder string `json:"holder"`
	Token  string `json:"token"`
	// Steps is how many steps were recorded before.
	Steps int `json:"steps,omitempty"`
}

// HarnessBegunData is the payload of harness.begun.
type HarnessBegunData struct {
	Event      string          `json:"event"`
	Epoch      int             `json:"epoch"`
	StepNumber int             `json:"stepNumber"`
	Effect     HarnessEffect   `json:"effect"`
	Before     []HarnessEffect `json:"before,omitempty"`
}

// HarnessSettledData is the payload of harness.settled.
type HarnessSettledData struct {
	Event      string        `json:"event"`
	Epoch      int           `json:"epoch"`
	StepNumber int           `json:"stepNumber"`
	Effect     HarnessEffect `json:"effect"`
}

// HarnessSteppedData is the payload of harness.stepped.
type HarnessSteppedData struct {
	Event string `json:"event"`
	Epoch int    `json:"epoch"`
	HarnessStep
}

// HarnessEndedData is the payload of harness.ended.
type HarnessEndedData struct {
	Event  string `json:"event"`
	Epoch  int    `json:"epoch"`
	Steps  int    `json:"steps"`
	Reason string `json:"reason,omitempty"`
}

// Kind implements Payload.
func (*HarnessOpenedData) Kind() Kind { return HarnessOpened }

// Kind implements Payload.
func (*HarnessAttachedData) Kind() Kind { return HarnessAttached }

// Kind implements Payload.
func (*HarnessBegunData) Kind() Kind { return HarnessBegan }

// Kind implements Payload.
func (*HarnessSettledData) Kind() Kind { return HarnessSettled }

// Kind implements Payload.
func (*HarnessSteppedData) Kind() Kind { return HarnessStepped }

// Kind implements Payload.
func (*HarnessEndedData) Kind() Kind { return HarnessEnded }

func (d *HarnessOpenedData) line() string {
	return fmt.Sprintf("harness %s opened: %s", d.Harness, d.Name)
}

func (d *HarnessAttachedData) line() string {
	return fmt.Sprintf("program %d attached: %s, after step %d", d.Epoch, d.Holder, d.Steps)
}

func (d *HarnessBegunData) line() string {
	return fmt.Sprintf("step %d begins effect %d %s (%s)", d.StepNumber, d.Effect.Number, d.Effect.Name, d.Effect.Class)
}

func (d *HarnessSettledData) line() string {
	return fmt.Sprintf("step %d, effect %d %s: %s", d.StepNumber, d.Effect.Number, d.Effect.Name, d.Effect.Outcome())
}

func (d *HarnessSteppedData) line() string {
	text := fmt.Sprintf("step %d: %.120s -> %.120s", d.Number, d.Input, d.Output)
	if len(d.StateDelta.Modified) > 0 {
		text += ", changed " + strings.Join(d.StateDelta.Modified, ", ")
	}
	return text
}

func (d *HarnessEndedData) line() string {
	return strings.TrimSpace(fmt.Sprintf("harness completed after step %d %s", d.Steps, d.Reason))
}

// Outcome is what came of an effect in one word.
func (e HarnessEffect) Outcome() string {
	switch {
	case e.Unknown:
		return "unknown"
	case e.Error != "":
		return "failed: " + e.Error
	}
	return "done"
}
