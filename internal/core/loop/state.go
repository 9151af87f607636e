package loop

import (
	"cmp"
	"slices"

	"github.com/inspan/inspan/pkg/run"
)

// Look says what circle the last turn of a step is part of. Calls of it that have not ended have no error yet.
func Look(s run.State, step string) Circle {
	rule, steps := ruleOf(s, step), with(s, step)
	if recent := laps(s, steps, rule.Cycle+1); !rule.suspects(recent) {
		return Circle{}
	}
	w, laps := walk(s, step)
	var c Circle
	for _, l := range laps {
		c = w.Add(l)
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

// Begin begins a walk over the turns of a step, behind those of the steps that it depends on.
func Begin(s run.State, step string) *Walk {
	w := New(ruleOf(s, step))
	for _, l := range laps(s, before(s, step), w.rule.window()) {
		w.Add(l)
	}
	return w
}

func walk(s run.State, step string) (*Walk, []Lap) {
	r := ruleOf(s, step)
	return New(r), laps(s, with(s, step), r.window())
}

// suspects reports whether the last of some laps may be part of a circle. They are at least as many as may alternate,
// and one more, or all that there are: nearly every turn is like none of them, and then no more of them need be read.
func (r Rule) suspects(recent []Lap) bool {
	if len(recent) == 0 {
		return false
	}
	n := len(recent) - 1
	last := &recent[n]
	if last.Error != "" || last.Same >= r.Threshold {
		return true
	}
	for p := 1; p <= min(r.Cycle, n); p++ {
		if last.like(&recent[n-p]) != other {
			return true
		}
	}
	return false
}

// with are a step and those before it.
func with(s run.State, step string) map[string]bool {
	steps := before(s, step)
	steps[step] = true
	return steps
}

func ruleOf(s run.State, step string) (r Rule) {
	if st := s.Step(step); st != nil {
		r = RuleOf(s.Agents[st.AssignedAgent])
	}
	return r
}

// before are the steps of the same agent that a step depends on, directly or not: they had ended before it began. Steps
// that run side by side tell nothing of each other.
func before(s run.State, step string) map[string]bool {
	found := map[string]bool{}
	st := s.Step(step)
	if st == nil {
		return found
	}
	seen := map[string]bool{step: true}
	for open := st.Dependencies; len(open) > 0; open = open[1:] {
		on := s.Step(open[0])
		if on == nil || seen[on.ID] {
			continue
		}
		seen[on.ID] = true
		open = append(slices.Clone(open), on.Dependencies...)
		if on.AssignedAgent == st.AssignedAgent && on.Kind == "" {
			found[on.ID] = true
		}
	}
	return found
}

// laps returns the last laps of steps, oldest first, at most so many. A last turn without calls, with which a step
// ends, is none, as long as it is not that of the newest step.
func laps(s run.State, steps map[string]bool, most int) []Lap {
	var turns []run.Turn
	newest, missing := "", 0
	for _, t := range run.Backward(s.Turns()) {
		if !steps[t.Step] || newest != "" && newest != t.Step && len(t.Calls) == 0 {
			continue
		}
		if len(turns) == most {
			break
		}
		newest = cmp.Or(newest, t.Step)
		turns, missing = append(turns, t), missing+len(t.Calls)
	}
	if len(turns) == 0 {
		return nil
	}
	oldest, results := turns[len(turns)-1], map[int][]run.CallRecord{}
	for _, r := range run.Backward(s.ToolCallHistory) {
		if missing == 0 || r.Step == oldest.Step && r.Turn < oldest.Number {
			break // the events about later turns come behind it
		}
		if steps[r.Step] && r.Turn >= oldest.Number && r.Parent == "" {
			results[r.Turn], missing = append(results[r.Turn], r), missing-1
		}
	}
	out := make([]Lap, len(turns))
	for i, t := range turns {
		out[len(out)-1-i] = LapOf(s, t, results[t.Number])
	}
	return out
}
