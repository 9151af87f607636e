// Package loop finds an agent that goes round in circles, and says how far it has gone.
//
// Promises: everything here is a function of the turns of one step and of those it depends on; nothing is remembered
// elsewhere. Circles are: the same calls in turn after turn or within one turn, a few turns that alternate, the same
// error again and again, and calls with the same result that differ only by what changes: times, counters, random ids,
// names of temporary files, or the step. A circle is answered in grades: a nudge in the conversation, a person who is
// asked, the end of the step. Another tool, input, result or error ends the circle, and the next one counts from the
// beginning: polling that sees progress, paging, and tests that run again after an edit are none.
package loop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// What holds where an agent does not say.
const (
	// DefaultThreshold is how often a circle is gone round before it is one (LOOP-5).
	DefaultThreshold = 3
	// DefaultCycle is the most turns that may alternate and still be seen as a circle.
	DefaultCycle = 4
	// MinThreshold and MaxCycle bound what an agent may ask for.
	MinThreshold = 2
	MaxCycle     = 16
)

// Rule is what counts as a circle, and how far it is answered.
type Rule struct {
	Threshold, Cycle int
	// Action is one of the events.Doom words.
	Action string
}

// RuleOf is the rule in force for an agent.
func RuleOf(a events.Agent) Rule {
	d := a.DoomLoop
	return Rule{Threshold: max(cmp.Or(d.Threshold, DefaultThreshold), MinThreshold),
		Cycle: min(max(cmp.Or(d.Cycle, DefaultCycle), 1), MaxCycle), Action: cmp.Or(d.Action, events.DoomPause)}
}

// window is how many turns tell all that a rule needs to know: one more than those that end the step.
func (r Rule) window() int { return 3*r.Threshold*r.Cycle + 2 }

// Grade of the answer to a circle.
type Grade int

// The grades.
const (
	None Grade = iota
	// Nudge puts a word into the conversation.
	Nudge
	// Gate asks a person before the next call of the circle.
	Gate
	// End refuses the calls and ends the step.
	End
)

// Kind of a circle.
type Kind string

// The kinds.
const (
	SameCall  Kind = "same_call"
	Cycle     Kind = "cycle"
	SameError Kind = "same_error"
	// SameResult are calls that differ only by times, counters, random ids or the step they are of, and get the same
	// result.
	SameResult Kind = "same_result"
)

// Circle is what a step is found in. The zero Circle is none.
type Circle struct {
	Kind Kind
	// Tools whose calls it is made of.
	Tools string
	// Times it was gone round; Turns it took.
	Times, Turns int
	Grade        Grade
	action       string
}

// Walk goes over the laps of a step, oldest first. The zero Walk has no rule; make one with New or Begin.
type Walk struct {
	rule Rule
	laps []*Lap
	// same[p] counts the last laps that each are exactly as the one p before, alike[p] those that are at least loosely
	// so.
	same, alike [MaxCycle + 1]int
	// full counts the last laps that are exactly the same and each go round within their own turn.
	full int
	// errors counts the last laps that failed in the same way.
	errors int
}

// New begins a walk.
func New(r Rule) *Walk { return &Walk{rule: r} }

// Add takes the next lap and says what circle it is part of.
func (w *Walk) Add(l Lap) Circle {
	if n := len(w.laps); n > 0 && w.laps[n-1].Restarted {
		*w = Walk{rule: w.rule}
	}
	n := len(w.laps)
	for p := 1; p <= w.rule.Cycle; p++ {
		how := other
		if n >= p {
			how = l.like(w.laps[n-p])
		}
		if w.same[p]++; how < exact {
			w.same[p] = 0
		}
		if w.alike[p]++; how < loose {
			w.alike[p] = 0
		}
	}
	switch {
	case l.Same < w.rule.Threshold:
		w.full = 0
	case w.same[1] == 0:
		w.full = 1
	default:
		w.full++
	}
	switch {
	case l.Error == "":
		w.errors = 0
	case n > 0 && w.laps[n-1].Error == l.Error:
		w.errors++
	default:
		w.errors = 1
	}
	if w.laps = append(w.laps, &l); len(w.laps) > w.rule.Cycle+1 {
		w.laps = w.laps[1:]
	}
	return w.circle()
}

// circle is what the last lap is part of: of several circles the one with the strictest answer, and of those the
// surest.
func (w *Walk) circle() Circle {
	found := w.exactly()
	for _, c := range []Circle{w.inTurn(), w.failing(), w.loosely()} {
		if c.Grade > found.Grade {
			found = c
		}
	}
	if found.Grade = w.rule.limit(found.Grade); found.Grade == None {
		return Circle{}
	}
	found.action = w.rule.Action
	return found
}

// exactly is the circle of the same calls: of several the one that went on longest.
func (w *Walk) exactly() Circle {
	var found Circle
	over := -1
	for p := 1; p <= w.rule.Cycle; p++ {
		turns := w.same[p] + p
		if beyond := turns - w.rule.Threshold*p; w.same[p] > 0 && beyond > over {
			over, found = beyond, w.round(SameCall, p, turns)
		}
	}
	found.Grade = grade(over)
	return found
}

// inTurn is the circle of turns that go round within themselves.
func (w *Walk) inTurn() Circle {
	l := w.last()
	return Circle{Kind: SameCall, Times: l.Same * w.full, Turns: w.full, Tools: l.Tools, Grade: grade(w.full - 1)}
}

// grade answers once in each grade; over is how often it went on beyond the first time that counts.
func grade(over int) Grade {
	switch {
	case over == 0:
		return Nudge
	case over == 1:
		return Gate
	case over > 1:
		return End
	}
	return None
}

// failing is the circle of the same error. It has twice the room before a person is asked: other input that fails in
// the same way may be a search.
func (w *Walk) failing() Circle {
	return Circle{Kind: SameError, Times: w.errors, Turns: w.errors, Tools: w.last().Tools, Grade: w.errorGrade()}
}

// loosely is the circle of calls that are the same but for what changes, or of other steps. It is a guess, and has more
// room: the same number may name another thing.
func (w *Walk) loosely() Circle {
	var found Circle
	for p := 1; p <= w.rule.Cycle; p++ {
		turns, most := w.alike[p]+p, w.rule.Threshold*p
		g := None
		switch {
		case w.alike[p] == 0 || turns < most:
		case turns == most:
			g = Nudge
		case turns >= 3*most:
			g = End
		case turns >= 2*most:
			g = Gate
		}
		if g > found.Grade {
			found = w.round(SameResult, p, turns)
			found.Grade = g
		}
	}
	return found
}

func (w *Walk) round(k Kind, p, turns int) Circle {
	if p > 1 {
		k = Cycle
	}
	return Circle{Kind: k, Times: turns / p, Turns: turns, Tools: w.tools(p)}
}

func (w *Walk) errorGrade() Grade {
	switch t := w.rule.Threshold; {
	case w.errors == t:
		return Nudge
	case w.errors > 2*t:
		return End
	case w.errors == 2*t:
		return Gate
	}
	return None
}

func (w *Walk) last() *Lap { return w.laps[len(w.laps)-1] }

func (w *Walk) tools(p int) string {
	var names []string
	for _, l := range w.laps[max(0, len(w.laps)-p):] {
		if !slices.Contains(names, l.Tools) {
			names = append(names, l.Tools)
		}
	}
	return strings.Join(names, " and ")
}

// limit is what the action of the rule leaves of a grade.
func (r Rule) limit(g Grade) Grade {
	switch {
	case r.Action == events.DoomWarn && g != Nudge:
		return None
	case r.Action != events.DoomPause && r.Action != events.DoomWarn && g == Gate:
		return End
	}
	return g
}
