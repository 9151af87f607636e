package events

import (
	"fmt"
	"time"
)

// StepWake says when the agent of a step that waits is woken: it looks for itself, and what it found is the output of
// one part of the step. The signal that the step waits for ends it at any time.
type StepWake struct {
	// EveryMS is the time before the agent looks first; before each later look the time is Factor times as long as
	// before the last, at most MostMS. Without them that is DefaultWakeFactor and MaxFlowTime.
	EveryMS int64   `json:"every_ms"`
	Factor  float64 `json:"factor,omitempty"`
	MostMS  int64   `json:"most_ms,omitempty"`
	// Until is an expression that ends the wait after a look, with the names last and round.
	Until string `json:"until"`
}

// DefaultWakeFactor is how many times as long each time between two looks is as the one before it.
const DefaultWakeFactor = 2

// Delay is the time before a look; the first has the number 1.
func (w *StepWake) Delay(look int) time.Duration {
	factor, most := w.Factor, w.MostMS
	if factor == 0 {
		factor = DefaultWakeFactor
	}
	if most == 0 {
		most = MaxFlowTime.Milliseconds()
	}
	d := float64(w.EveryMS)
	for range look - 1 {
		if d = d * factor; d >= float64(most) {
			break
		}
	}
	return time.Duration(min(int64(min(d, float64(most))), most)) * time.Millisecond
}

// Parted reports whether steps are made of the step at some time.
func (f *StepFlow) Parted() bool { return f.Group() || f != nil && f.Wake != nil }

// Until is the expression that is evaluated after each part that the step has one after the other; empty where nothing
// is.
func (f *StepFlow) Until() string {
	switch {
	case f == nil:
		return ""
	case f.Wake != nil:
		return f.Wake.Until
	case f.Each != nil:
		return f.Each.Until
	}
	return ""
}

func (w *StepWake) fault() string {
	longest := MaxFlowTime.Milliseconds()
	switch {
	case w == nil:
		return ""
	case w.EveryMS < 1 || w.EveryMS > longest:
		return fmt.Sprintf("an agent that is woken every %d ms: want 1 to %d", w.EveryMS, longest)
	case w.Factor != 0 && !(w.Factor >= 1 && w.Factor <= maxFactor):
		return fmt.Sprintf("a factor of %g is not between 1 and %d", w.Factor, maxFactor)
	case w.MostMS != 0 && (w.MostMS < w.EveryMS || w.MostMS > longest):
		return fmt.Sprintf("at most %d ms between two looks: want %d to %d", w.MostMS, w.EveryMS, longest)
	case w.Until == "":
		return "an agent that is woken needs a condition that ends the wait"
	case len(w.Until) > MaxExpression:
		return fmt.Sprintf("an expression has %d bytes, the limit is %d", len(w.Until), MaxExpression)
	}
	return ""
}
