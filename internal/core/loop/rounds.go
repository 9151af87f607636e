package loop

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Rounds says of the calls of one state whether they go round. What the calls of a turn have in common is found once: a
// turn may ask for hundreds of them.
type Rounds struct {
	s       run.State
	circles map[string]circles
	keys    map[lastTurn][]string
}

// circles are those of the last turn of a step and of the one before it.
type circles struct{ before, last Circle }

type lastTurn struct {
	step   string
	number int
}

// RoundsOf looks at a state.
func RoundsOf(s run.State) *Rounds {
	return &Rounds{s: s, circles: map[string]circles{}, keys: map[lastTurn][]string{}}
}

// Asking says what stands before a call of the last turn of a step: the circle that its turn goes on with, or the error
// that calls of the same tool ended with again and again before.
func (r *Rounds) Asking(step, tool string) Circle {
	c, ok := r.circles[step]
	if !ok {
		c = circlesOf(r.s, step)
		r.circles[step] = c
	}
	if c.before.Kind == SameError && c.before.Grade == Gate && c.before.Tools == tool && c.last.Grade < Gate {
		return c.before
	}
	if c.last.Kind == SameError {
		return Circle{} // of calls that ended: the turn's own have not
	}
	return c.last
}

// circlesOf finds the circles of a step. Of the turn before the last one only an error matters.
func circlesOf(s run.State, step string) (c circles) {
	rule := ruleOf(s, step)
	recent := laps(s, with(s, step), rule.Cycle+1)
	if n := len(recent); !rule.suspects(recent) && (n < 2 || recent[n-2].Error == "") {
		return circles{}
	}
	w, laps := walk(s, step)
	for _, l := range laps {
		c.before, c.last = c.last, w.Add(l)
	}
	return c
}

// Surplus reports whether a call repeats, within its turn, one that the turn asks for as often as the rule allows.
func (r *Rounds) Surplus(c *run.Call) bool {
	st := r.s.Step(c.Step)
	if st == nil {
		return false
	}
	rule := RuleOf(r.s.Agents[st.AssignedAgent])
	for _, t := range run.Backward(r.s.Turns()) {
		if t.Step != c.Step || t.Number != c.Turn {
			continue
		}
		if len(t.Calls) <= rule.Threshold || rule.Action == events.DoomWarn {
			return false
		}
		keys := r.keysOf(t)
		key, before := run.KeyOf([]events.RequestedCall{c.RequestedCall}), 0
		for i, o := range t.Calls {
			if o.ID == c.ID {
				break
			}
			if keys[i] == key {
				before++
			}
		}
		return before >= rule.Threshold
	}
	return false
}

// keysOf are the keys of the single calls of a turn.
func (r *Rounds) keysOf(t run.Turn) []string {
	at := lastTurn{t.Step, t.Number}
	keys, ok := r.keys[at]
	if !ok {
		keys = make([]string, len(t.Calls))
		for i := range t.Calls {
			keys[i] = run.KeyOf(t.Calls[i : i+1])
		}
		r.keys[at] = keys
	}
	return keys
}
