package loop

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Lap is one turn as far as circles are concerned.
type Lap struct {
	// Key is the same for turns that ask for the same calls; Tools names them.
	Key, Tools string
	// Error is the same for turns all of whose calls failed in the same way, "" where one did not fail or has no
	// result.
	Error string
	// Restarted is true where a person has said something after it, or forked the run in it: the next lap begins anew.
	Restarted bool
	// Same is how often the turn asks for its own calls one after the other, with the same results; 0 and 1 are no
	// repetition.
	Same int

	step string
	made []made
	// ended is true where every call has a result, telling where each of them worked and its result says something;
	// reads where none has an effect.
	ended, telling, reads bool
	// What the lap is without what changes, made when it is first asked for; by whether numbers are left out.
	asked [2]string
	got   string
}

// made is one call of a lap.
type made struct {
	tool, input, effect, result string
	// refused is true where the call was not made, surplus where that was for its repetition, worked where it was and
	// succeeded.
	refused, surplus, worked bool
}

// silent reports whether a result says nothing of what was done: calls with other numbers may have done other things.
func silent(result string) bool {
	text := strings.TrimSpace(result)
	return text == "" || text == "[exit status 0]" // which is how bash shows a command without output
}

// shell is the tool whose numbers are rather counters than names of things.
const shell = "bash"

// LapOf reads a turn of a run and the results of its calls, in any order.
func LapOf(s run.State, t run.Turn, results []run.CallRecord) Lap {
	l := Lap{Key: t.Key, Restarted: len(s.MessagesAfter(t.Step, t.Number)) > 0, step: t.Step, reads: true, telling: true}
	if l.Key == "" {
		l.Key = run.KeyOf(t.Calls)
	}
	var tools []string
	for _, c := range t.Calls {
		tools = append(tools, c.Tool)
		m := madeOf(s, c, results)
		l.made = append(l.made, m)
		l.reads, l.telling = l.reads && m.effect == "read", l.telling && m.worked && !silent(m.result)
	}
	slices.Sort(tools)
	l.Tools = strings.Join(slices.Compact(tools), ", ")
	if len(t.Calls) == 0 || len(results) < len(t.Calls) {
		return l
	}
	l.ended, l.Same = true, within(t.Calls, l.made)
	l.Restarted = l.Restarted || slices.ContainsFunc(results,
		func(r run.CallRecord) bool { return r.Code == run.CodeInterrupted })
	if slices.ContainsFunc(results, func(r run.CallRecord) bool { return r.Fresh }) {
		l.Key = "" // to ask again is the way to read on
	}
	for i, r := range results {
		if r.Outcome == run.OutcomeFinished && r.Success {
			l.Error = ""
			return l
		}
		e := r.CallName + "\x00" + r.Code + "\x00" + steadyResult(r.Result)
		if i > 0 && e != l.Error {
			l.Error = ""
			return l
		}
		l.Error = e
	}
	return l
}

func madeOf(s run.State, c events.RequestedCall, results []run.CallRecord) made {
	m := made{tool: c.Tool, input: string(c.Input)}
	if c.InputRef != nil {
		m.input = c.InputRef.SHA256
	}
	if open := s.Open[c.ID]; open != nil {
		m.effect = open.Effect
	}
	for _, r := range results {
		if r.ID != c.ID {
			continue
		}
		m.effect, m.result, m.refused = r.Effect, r.Result, r.Outcome == run.OutcomeRefused
		m.surplus = m.refused && r.Code == events.RefusedDoomLoop
		if m.worked = r.Outcome == run.OutcomeFinished && r.Success; !m.worked {
			m.result = r.Outcome + r.Code + "\n" + r.Result
		}
		if r.ResultRef != nil {
			m.result += "\n" + r.ResultRef.SHA256
		}
		for _, i := range r.Images {
			m.result += "\n" + i.Ref.SHA256
		}
	}
	return m
}

// within counts how often the calls of one turn go round, as the same call or as up to DefaultCycle calls that
// alternate.
func within(calls []events.RequestedCall, all []made) int {
	if len(calls) < MinThreshold {
		return 1
	}
	keys, results := make([]string, len(calls)), map[string]string{}
	for i := range calls {
		keys[i] = run.KeyOf(calls[i : i+1])
		result := steadyResult(all[i].result)
		if known, ok := results[keys[i]]; ok && known != result && !all[i].refused {
			return 1
		}
		if !all[i].refused {
			results[keys[i]] = result
		}
	}
	most := 1
	for p := 1; p <= DefaultCycle; p++ {
		row := 0
		for i := p; i < len(keys); i++ {
			if row++; keys[i] != keys[i-p] {
				row = 0
			}
			most = max(most, (row+p)/p)
		}
	}
	return most
}

// likeness of two laps.
type likeness int

const (
	other likeness = iota
	// loose are the same calls but for what changes, or of another step, with the same result.
	loose
	// exact are the same calls of one step, as far as is known with the same result.
	exact
)

// like compares a lap with one before it. The results of the later one may not be there yet: they are then taken to be
// the same. Another result is progress.
func (l *Lap) like(before *Lap) likeness {
	if l.Key == "" || before.Key == "" {
		return other
	}
	known := l.ended && before.ended && !l.stopped() && !before.stopped()
	if l.Key == before.Key {
		switch {
		case known && l.outcome() != before.outcome():
			return other
		case l.step == before.step:
			return exact
		case before.ended && !before.reads: // what was read in another step is not known in this one
			return loose
		}
		return other
	}
	if l.Tools != before.Tools || len(l.made) != len(before.made) || !before.telling || before.reads &&
		l.step != before.step {
		return other
	}
	counters := true
	for i, m := range before.made {
		counters = counters && (m.effect == "read" || m.tool == shell)
		if m.input != l.made[i].input && !near(m.input, l.made[i].input) {
			return other
		}
	}
	if l.request(counters) != before.request(counters) || known && l.outcome() != before.outcome() {
		return other
	}
	return loose
}

// stopped reports whether all calls of the lap were refused as a repetition: there is no result to compare.
func (l *Lap) stopped() bool {
	return !slices.ContainsFunc(l.made, func(m made) bool { return !m.surplus })
}

// request is what the lap asks for, without what changes.
func (l *Lap) request(counters bool) string {
	i := 0
	if counters {
		i = 1
	}
	if l.asked[i] == "" {
		l.asked[i] = joined(l.made, func(m made) string { return steadyInput(m.input, counters) })
	}
	return l.asked[i]
}

// outcome is what the lap got, without what changes.
func (l *Lap) outcome() string {
	if l.got == "" {
		real := slices.DeleteFunc(slices.Clone(l.made), func(m made) bool { return m.surplus })
		l.got = joined(real, func(m made) string { return steadyResult(m.result) })
	}
	return l.got
}

// joined is the same for calls in any order; a call that is made twice counts once.
func joined(all []made, of func(made) string) string {
	each := make([]string, len(all))
	for i, m := range all {
		each[i] = m.tool + "\x00" + of(m)
	}
	slices.Sort(each)
	return "." + strings.Join(slices.Compact(each), "\x00\x00")
}
