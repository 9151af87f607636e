package harness

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/kernel/kerneltest"
	"github.com/inspan/inspan/pkg/events"
)

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-13 each event type of a harness has one fold rule", func(t *testing.T) {
		t.Parallel()
		for _, gap := range kerneltest.Registration(Aggregate(), rules) {
			t.Error(gap)
		}
		if got := kerneltest.Registration(Aggregate(), rules[1:]); len(got) != 1 {
			t.Errorf("without the rule of harness.opened: %q", got)
		}
	})
}

// drawn is a control that may or may not fit.
func drawn(t *rapid.T) events.HarnessControl {
	raw := json.RawMessage(`{}`)
	small := func(what string) int { return rapid.IntRange(0, 3).Draw(t, what) }
	effect := &events.HarnessEffect{Number: small("effect") + 1, Name: "e", Class: "once", Result: raw}
	c := events.HarnessControl{Epoch: small("epoch")}
	switch c.Action = rapid.SampledFrom([]string{"attach", "begin", "settle", "step", "step", "end"}).Draw(t, "action"); c.Action {
	case "attach":
		c.Name, c.Holder, c.State, c.TakeOver = "n", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "holder"), raw, "10s"
		c.Token = rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "token")
	case "begin", "settle":
		c.StepNumber, c.Effect = small("step")+1, effect
	case "step":
		c.Step = &events.HarnessStep{Number: small("step") + 1, Input: raw, Output: raw}
	case "end":
		c.Steps = small("steps")
	}
	return c
}

// TestLaws has any controls come in any order, twice and late.
func TestLaws(t *testing.T) {
	t.Parallel()
	t.Run("SDK-21 a second look answers nothing, steps have no gap, only the last program records, nothing follows the end", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var s State
			now := time.Unix(0, 0)
			for range rapid.IntRange(1, 40).Draw(t, "controls") {
				now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
				c := drawn(t)
				if err := Check(c); err != nil {
					t.Fatalf("%+v: %v", c, err)
				}
				before := s
				answer, err := Decide(s, "h", c, now)
				if _, refused := errors.AsType[*Refused](err); err != nil && (!refused || len(answer) > 0) {
					t.Fatalf("%+v: %v", c, err)
				}
				for i, p := range answer { // each prefix is a history, from which the rest is decided again
					next, err := s.Next(p, now)
					if err != nil {
						t.Fatalf("%+v decided what does not fold: %v", c, err)
					}
					s = next
					rest, err := Decide(s, "h", c, now)
					if err != nil || len(rest) != len(answer)-i-1 {
						t.Fatalf("%+v after %d of %d events: %d more, %v", c, i+1, len(answer), len(rest), err)
					}
				}
				recorded := len(answer) > 0
				if recorded && !Records(answer[len(answer)-1], c) {
					t.Fatalf("%+v is not known by its event", c)
				}
				switch {
				case before.Ended() && recorded:
					t.Fatalf("%+v was recorded after the end", c)
				case recorded && c.Action != "attach" && c.Epoch != before.Epoch:
					t.Fatalf("%+v was recorded, program %d is attached", c, before.Epoch)
				case recorded && c.Action == "attach" && c.Epoch != before.Epoch:
					t.Fatalf("a program attached that had seen program %d, after program %d", c.Epoch, before.Epoch)
				case s.Steps != before.Steps && (s.Steps != before.Steps+1 || c.Step.Number != s.Steps):
					t.Fatalf("step %d follows %d", s.Steps, before.Steps)
				case recorded && c.Action == "attach" && before.Epoch > 0 && c.Holder != before.Holder && now.Sub(before.UpdatedAt) < 10*time.Second:
					t.Fatalf("%s took over from %s after %s", c.Holder, before.Holder, now.Sub(before.UpdatedAt))
				}
				if _, open := before.Unsettled(); open && s.Steps != before.Steps {
					t.Fatal("a step was recorded with an effect open")
				}
			}
		})
	})
	t.Run("SDK-21 what is too large or makes no sense is refused before it is judged", func(t *testing.T) {
		t.Parallel()
		raw := json.RawMessage(`{}`)
		long := json.RawMessage(`"` + strings.Repeat("x", events.MaxHarnessRecord) + `"`)
		step := func(s events.HarnessStep) events.HarnessControl {
			return events.HarnessControl{Action: "step", Step: &s}
		}
		for what, c := range map[string]events.HarnessControl{
			"action":  {Action: "sing"},
			"epoch":   {Action: "end", Epoch: -1},
			"holder":  {Action: "attach", Name: "n", Token: "t", State: raw},
			"state":   {Action: "attach", Name: "n", Token: "t", Holder: "h"},
			"reason":  {Action: "end", Reason: strings.Repeat("x", events.MaxHarnessText+1)},
			"effect":  {Action: "begin", StepNumber: 1},
			"step":    {Action: "step"},
			"bytes":   step(events.HarnessStep{Number: 1, Input: long, Output: raw}),
			"input":   step(events.HarnessStep{Number: 1, Output: raw}),
			"want 1":  step(events.HarnessStep{Number: 0, Input: raw, Output: raw}),
			"class":   step(events.HarnessStep{Number: 1, Input: raw, Output: raw, Effects: []events.HarnessEffect{{Number: 1, Name: "e", Class: "maybe"}}}),
			"effects": step(events.HarnessStep{Number: 1, Input: raw, Output: raw, Effects: make([]events.HarnessEffect, events.MaxHarnessEffects+1)}),
			"more":    step(events.HarnessStep{Number: 1, Input: raw, Output: raw, Changed: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", events.MaxHarnessState) + `"`)}}),
			"summary": step(events.HarnessStep{Number: 1, Input: raw, Output: raw, StateDelta: events.HarnessDelta{Summary: strings.Repeat("x", events.MaxHarnessText+1)}}),
		} {
			if err := Check(c); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: got %v", what, err)
			}
		}
		fits := events.HarnessStep{Number: events.MaxHarnessSteps, Input: raw, Output: raw, StateDelta: events.HarnessDelta{Summary: strings.Repeat("x", events.MaxHarnessText)}}
		if err := Check(step(fits)); err != nil {
			t.Error(err)
		}
	})
}
