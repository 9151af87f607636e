// Package loop finds an agent that goes round in circles, and says how far it has gone.
//
// Promises: everything here is a function of the turns of one step; nothing is remembered elsewhere. Three kinds of
// circle are seen: the same calls in turn after turn, a few turns that alternate, and the same error again and again. A
// circle is answered in grades, each once: a nudge in the conversation, a person who is asked, the end of the step. Any
// other tool, input or error ends the circle, and the next one counts from the beginning.
package loop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
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
func (r Rule) window() int { return max(r.Threshold*r.Cycle, 2*r.Threshold) + 2 }

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

// Lap is one turn as far as circles are concerned.
type Lap struct {
	// Key is the same for turns that ask for the same calls; Tools names them.
	Key, Tools string
	// Error is the same for turns all of whose calls failed in the same way, "" where one did not fail or has no result.
	Error string
	// Told is true where a person has said something after it, or forked the run in it: the next lap begins anew.
	Told bool
}

// LapOf reads a turn of a run and the results of its calls, in any order.
func LapOf(s run.State, t run.Turn, results []run.CallRecord) Lap {
	l := Lap{Key: t.Key, Told: len(s.SaidAfter(t.Step, t.Number)) > 0}
	if l.Key == "" {
		l.Key = run.KeyOf(t.Calls)
	}
	var tools []string
	for _, c := range t.Calls {
		tools = append(tools, c.Tool)
	}
	slices.Sort(tools)
	l.Tools = strings.Join(slices.Compact(tools), ", ")
	if len(t.Calls) == 0 || len(results) < len(t.Calls) {
		return l
	}
	l.Told = l.Told || slices.ContainsFunc(results, func(r run.CallRecord) bool { return r.Code == run.CodeInterrupted })
	if slices.ContainsFunc(results, func(r run.CallRecord) bool { return r.Fresh }) {
		l.Key = "" // to ask again is the way to read on
	}
	for i, r := range results {
		e := r.CallName + "\x00" + r.Code + "\x00" + r.Result
		if r.Outcome == run.OutcomeFinished && r.Success || i > 0 && e != l.Error {
			l.Error = ""
			return l
		}
		l.Error = e
	}
	return l
}

// Walk goes over the laps of a step, oldest first. The zero Walk has no rule; make one with New.
type Walk struct {
	rule Rule
	laps []Lap
	// same[p] counts the last laps that each are the same as the one p before.
	same [MaxCycle + 1]int
	// errors counts the last laps that failed in the same way.
	errors int
}

// New begins a walk.
func New(r Rule) *Walk { return &Walk{rule: r} }

// Add takes the next lap and says what circle it is part of.
func (w *Walk) Add(l Lap) Circle {
	if n := len(w.laps); n > 0 && w.laps[n-1].Told {
		*w = Walk{rule: w.rule}
	}
	for p := 1; p <= w.rule.Cycle; p++ {
		if n := len(w.laps); l.Key != "" && n >= p && w.laps[n-p].Key == l.Key {
			w.same[p]++
		} else {
			w.same[p] = 0
		}
	}
	switch n := len(w.laps); {
	case l.Error == "":
		w.errors = 0
	case n > 0 && w.laps[n-1].Error == l.Error:
		w.errors++
	default:
		w.errors = 1
	}
	if w.laps = append(w.laps, l); len(w.laps) > w.rule.Cycle+1 {
		w.laps = w.laps[1:]
	}
	return w.circle()
}

// circle is what the last lap is part of: of several circles the one that went on longest.
func (w *Walk) circle() Circle {
	var found Circle
	over := -1
	for p := 1; p <= w.rule.Cycle; p++ {
		turns := w.same[p] + p
		if beyond := turns - w.rule.Threshold*p; w.same[p] > 0 && beyond > over {
			over, found = beyond, Circle{Kind: SameCall, Times: turns / p, Turns: turns, Tools: w.tools(p)}
			if p > 1 {
				found.Kind = Cycle
			}
		}
	}
	grade := None
	switch {
	case over == 0:
		grade = Nudge
	case over == 1:
		grade = Gate
	case over > 1:
		grade = End
	}
	if e := w.errorGrade(); e > grade || e == grade && over < 0 && e != None {
		found, grade = Circle{Kind: SameError, Times: w.errors, Turns: w.errors, Tools: w.last().Tools}, e
	}
	if grade = w.rule.limit(grade); grade == None {
		return Circle{}
	}
	found.Grade, found.action = grade, w.rule.Action
	return found
}

// errorGrade gives errors twice the room before a person is asked: other input that fails in the same way may be a search.
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

func (w *Walk) last() Lap { return w.laps[len(w.laps)-1] }

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
