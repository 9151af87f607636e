package loop

import (
	"slices"

	"github.com/inspan/inspan/pkg/run"
)

// Look says what circle the last turn of a step is part of. Calls of it that have not ended have no error yet.
func Look(s run.State, step string) Circle {
	w, laps := walk(s, step)
	var c Circle
	for _, l := range laps {
		c = w.Add(l)
	}
	return c
}

// Asking says what stands before a call of the last turn of a step: the circle that its turn goes on with, or the error
// that calls of the same tool ended with again and again before.
func Asking(s run.State, step, tool string) Circle {
	w, laps := walk(s, step)
	var before, c Circle
	for _, l := range laps {
		before, c = c, w.Add(l)
	}
	if before.Kind == SameError && before.Grade == Gate && before.Tools == tool && c.Grade < Gate {
		return before
	}
	if c.Kind == SameError {
		return Circle{} // of calls that ended: the turn's own have not
	}
	return c
}

// Row counts how often the last calls of a step were asked for in a row, at most Threshold+2 times.
func Row(s run.State, step string) int {
	w, laps := walk(s, step)
	for _, l := range laps {
		w.Add(l)
	}
	return min(w.same[1]+1, w.rule.Threshold+2)
}

func walk(s run.State, step string) (*Walk, []Lap) {
	var r Rule
	if st := s.Step(step); st != nil {
		r = RuleOf(s.Agents[st.AssignedAgent])
	}
	return New(r), laps(s, step, r.window())
}

// laps returns the last laps of a step, oldest first, at most so many.
func laps(s run.State, step string, most int) []Lap {
	var out []Lap
	history := s.ToolCallHistory
	at := history.Len() - 1
	var results []run.CallRecord
	for _, t := range s.Turns().Backward() {
		if t.Step != step {
			continue
		}
		if len(out) == most {
			break
		}
		results = results[:0]
		for ; at >= 0; at-- {
			r := history.At(at)
			if r.Step == step && r.Turn < t.Number {
				break
			}
			if r.Step == step && r.Turn == t.Number {
				results = append(results, r)
			}
		}
		out = append(out, LapOf(s, t, results))
	}
	slices.Reverse(out)
	return out
}
