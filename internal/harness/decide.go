package harness

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Refused says why something is not recorded. Code is stable for programs.
type Refused struct{ Code, Reason, Hint string }

func (r *Refused) Error() string { return r.Reason + ": " + r.Hint }

// Codes of refusals.
const (
	// Replaced means that another program was attached after this one.
	Replaced = "harness_replaced"
	// Busy means that another program records the harness.
	Busy = "harness_busy"
	// Ended means that the harness is complete.
	Ended = "harness_ended"
	// Other means that the harness is of another kind of program.
	Other = "harness_other"
	// Unknown means that there is no such harness.
	Unknown = "unknown_harness"
	// Order means that a record does not follow what is recorded.
	Order = "harness_order"
)

// Decide returns the events that record what a program asks for, none where they are recorded, or a *Refused.
func Decide(s State, id string, c events.HarnessControl, now time.Time) ([]events.Payload, error) {
	if c.Action == events.HarnessAttach {
		return attach(s, id, c, now)
	}
	done, err := s.recorded(c)
	switch {
	case err != nil || done:
		return nil, err
	case s.ID == "":
		return nil, &Refused{Unknown, fmt.Sprintf("there is no harness %q", id), "attach to it first"}
	case c.Epoch != s.Epoch:
		return nil, &Refused{Replaced, fmt.Sprintf("harness %s is recorded by %s, which attached later", id, s.Holder),
			"end this program, or run it again to take the harness over"}
	case s.Ended():
		return nil, &Refused{Ended, fmt.Sprintf("harness %s is complete after step %d", id, s.Steps),
			"nothing more is recorded"}
	}
	p := payload(c)
	if _, err := s.Next(p, now); err != nil {
		return nil, &Refused{Order, fmt.Sprintf("harness %s: %v", id, err),
			"run the program again: it goes on after the last step"}
	}
	return []events.Payload{p}, nil
}

// payload is the event that records a control.
func payload(c events.HarnessControl) events.Payload {
	switch c.Action {
	case events.HarnessBegin:
		return &events.HarnessBegunData{Event: "harness_begun", Epoch: c.Epoch, StepNumber: c.StepNumber, Effect: *c.Effect,
			Before: c.Before}
	case events.HarnessSettle:
		return &events.HarnessSettledData{Event: "harness_settled", Epoch: c.Epoch, StepNumber: c.StepNumber,
			Effect: *c.Effect}
	case events.HarnessRecord:
		return &events.HarnessSteppedData{Event: "harness_stepped", Epoch: c.Epoch, HarnessStep: *c.Step}
	}
	return &events.HarnessEndedData{Event: "harness_ended", Epoch: c.Epoch, Steps: c.Steps, Reason: c.Reason}
}

// recorded reports whether a control of the program that is attached was carried out.
func (s State) recorded(c events.HarnessControl) (bool, error) {
	if c.Epoch != s.Epoch {
		return false, nil // who was replaced learns that
	}
	switch c.Action {
	case events.HarnessBegin:
		return c.StepNumber <= s.Steps || c.StepNumber == s.Steps+1 && s.begun(c.Effect.Number) >= 0, nil
	case events.HarnessSettle:
		i := s.begun(c.Effect.Number)
		return c.StepNumber <= s.Steps || c.StepNumber == s.Steps+1 && i >= 0 && s.Begun[i].Settled, nil
	case events.HarnessRecord:
		return c.Step.Number <= s.Steps, nil
	}
	return s.Ended() && c.Steps == s.Steps, nil
}

func attach(s State, id string, c events.HarnessControl, now time.Time) ([]events.Payload, error) {
	takeOver, err := time.ParseDuration(cmp.Or(c.TakeOver, "0s"))
	switch {
	case s.ID != "" && s.Epoch > 0 && s.Token == c.Token:
		return nil, nil
	case s.ID != "" && s.Name != c.Name:
		return nil, &Refused{Other, fmt.Sprintf("harness %s is a %s, not a %s", id, s.Name, c.Name),
			"give the new one another id"}
	case s.Ended():
		return nil, &Refused{Ended, fmt.Sprintf("harness %s is complete after step %d", id, s.Steps),
			"give a new one another id"}
	case c.Epoch != s.Epoch:
		return nil, &Refused{Replaced,
			fmt.Sprintf("harness %s: program %d is attached, not program %d", id, s.Epoch, c.Epoch),
			"read what is recorded, and attach again"}
	case err != nil:
		return nil, &Refused{"bad_input", err.Error(), "take_over is a duration such as 10s"}
	case s.Epoch > 0 && s.Holder != c.Holder && now.Sub(s.UpdatedAt) < takeOver:
		return nil, &Refused{Busy, fmt.Sprintf("harness %s was recorded by %s %s ago", id, s.Holder,
			now.Sub(s.UpdatedAt).Round(time.Millisecond)), fmt.Sprintf("it is free %s after its last record", takeOver)}
	}
	a := &events.HarnessAttachedData{Event: "harness_attached", Epoch: s.Epoch + 1, Holder: c.Holder, Token: c.Token,
		Steps: s.Steps}
	if s.ID != "" {
		return []events.Payload{a}, nil
	}
	return []events.Payload{&events.HarnessOpenedData{Event: "harness_opened", Harness: id, Name: c.Name, State: c.State},
		a}, nil
}

// Check returns what is wrong with a control, whatever the harness.
func Check(c events.HarnessControl) error {
	b, err := json.Marshal(c)
	switch {
	case err != nil:
		return fmt.Errorf("encode the record: %w", err)
	case len(b) > events.MaxHarnessRecord:
		return fmt.Errorf("the record has %d bytes, the limit is %d: keep large inputs and outputs elsewhere and yield their names", len(b), events.MaxHarnessRecord)
	case c.Epoch < 0:
		return errors.New("epoch is below zero")
	}
	for what, text := range map[string]string{"name": c.Name, "holder": c.Holder, "token": c.Token, "reason": c.Reason} {
		if len(text) > events.MaxHarnessText {
			return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(text), events.MaxHarnessText)
		}
	}
	switch c.Action {
	case events.HarnessAttach:
		return checkAttach(c)
	case events.HarnessBegin, events.HarnessSettle:
		if c.Effect == nil || c.StepNumber < 1 {
			return fmt.Errorf("an effect and a stepNumber go with %s", c.Action)
		}
		return checkEffects(append(slices.Clone(c.Before), *c.Effect))
	case events.HarnessRecord:
		return checkStep(c.Step)
	case events.HarnessEnd:
		return nil
	}
	return fmt.Errorf("unknown action %.80q: want attach, begin, settle, step or end", c.Action)
}

func checkAttach(c events.HarnessControl) error {
	switch {
	case c.Name == "" || c.Holder == "" || c.Token == "":
		return errors.New("name, holder and token go with attach")
	case len(c.State) > events.MaxHarnessState:
		return fmt.Errorf("the state has %d bytes, the limit is %d", len(c.State), events.MaxHarnessState)
	case c.Epoch == 0 && len(c.State) == 0:
		return errors.New("a state goes with the first attach")
	}
	return nil
}

func checkStep(s *events.HarnessStep) error {
	switch {
	case s == nil:
		return errors.New("a step goes with step")
	case s.Number < 1 || s.Number > events.MaxHarnessSteps:
		return fmt.Errorf("step %d: want 1 to %d", s.Number, events.MaxHarnessSteps)
	case len(s.Input) == 0 || len(s.Output) == 0:
		return errors.New("an input and an output go with a step")
	case len(s.StateDelta.Summary) > events.MaxHarnessText:
		return fmt.Errorf("the summary has %d bytes, the limit is %d", len(s.StateDelta.Summary), events.MaxHarnessText)
	}
	size := 0
	for _, v := range s.Changed {
		size += len(v)
	}
	if size > events.MaxHarnessState {
		return fmt.Errorf("the state has %d bytes more, the limit is %d", size, events.MaxHarnessState)
	}
	return checkEffects(s.Effects)
}

var classes = []string{"read", "idempotent", "reconcilable", "once"}

func checkEffects(all []events.HarnessEffect) error {
	if len(all) > events.MaxHarnessEffects {
		return fmt.Errorf("%d effects in one step, the limit is %d", len(all), events.MaxHarnessEffects)
	}
	for _, e := range all {
		switch {
		case e.Name == "" || len(e.Name) > events.MaxHarnessText:
			return fmt.Errorf("the name of an effect has %d bytes, want 1 to %d", len(e.Name), events.MaxHarnessText)
		case e.Number < 1 || e.Number > events.MaxHarnessEffects:
			return fmt.Errorf("effect %d: want 1 to %d", e.Number, events.MaxHarnessEffects)
		case !slices.Contains(classes, e.Class):
			return fmt.Errorf("effect %s has the class %.40q: want one of %v", e.Name, e.Class, classes)
		}
	}
	return nil
}

// Records reports whether an event is what records a control.
func Records(p events.Payload, c events.HarnessControl) bool {
	switch d := p.(type) {
	case *events.HarnessAttachedData:
		return c.Action == events.HarnessAttach && d.Token == c.Token
	case *events.HarnessBegunData:
		return c.Action == events.HarnessBegin && d.Epoch == c.Epoch && d.StepNumber == c.StepNumber &&
			d.Effect.Number == c.Effect.Number
	case *events.HarnessSettledData:
		return c.Action == events.HarnessSettle && d.Epoch == c.Epoch && d.StepNumber == c.StepNumber &&
			d.Effect.Number == c.Effect.Number
	case *events.HarnessSteppedData:
		return c.Action == events.HarnessRecord && d.Epoch == c.Epoch && d.Number == c.Step.Number
	case *events.HarnessEndedData:
		return c.Action == events.HarnessEnd && d.Epoch == c.Epoch
	}
	return false
}
