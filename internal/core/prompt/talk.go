package prompt

import (
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/loop"
	"github.com/inspan/inspan/pkg/run"
)

// Talk is the conversation of a step as far as it was put together for one of its turns. What is in it does not change
// any more, so the prompt of a later turn goes on from it. It is a cache: each prompt is the same as one that is
// assembled anew. The zero Talk is empty. It is not safe for concurrent use.
type Talk struct {
	of   talkOf
	read reading
	// last is when the last turn that was read ended; said counts the texts that stand before the next turn.
	last time.Time
	said int
	// system is the system prompt, entries are what follows it.
	system  string
	entries []Entry
}

// talkOf is what all of a conversation depends on besides the events of the run.
type talkOf struct {
	run, step string
	compacted bool
	through   int
	// system and user are those of the input.
	system, user string
	// results is what those of one turn may take, in tokens.
	results  int
	noImages bool
}

// Assemble is the prompt of an input. What the talk has of it already is not put together again.
func (t *Talk) Assemble(in Input) Prompt {
	of := talkOf{run: in.State.HarnessID, step: in.Step.ID, compacted: in.Step.Compacted != nil, through: through(in.Step),
		system: in.System, user: in.User, results: SettingsOf(in.State, in.Agent, in.Step).Results,
		noImages: in.Agent.NoImages}
	if t.of != of || !t.begins(in.State) {
		*t = Talk{of: of, system: roleText(in, of.compacted), entries: append(opening(in), transcript(in)...),
			read: reading{step: in.Step.ID}}
	}
	images := t.goOn(in)
	p := Prompt{System: t.system, Entries: slices.Clip(t.entries)}
	if images || open(in.State, in.Step.ID) { // later images take their place, and results that of calls without one
		*t = Talk{}
	}
	return p
}

// Goes reports whether the next prompt goes on from what is here: not where images are shown, whose place later ones
// take.
func (t *Talk) Goes() bool { return len(t.entries) > 0 }

// open reports whether calls of a step have not ended.
func open(s run.State, step string) bool {
	for _, c := range s.Open {
		if c.Step == step {
			return true
		}
	}
	return false
}

// begins reports whether a run goes on from what was read: that it has the same last turn, and all results.
func (t *Talk) begins(s run.State) bool {
	turns := s.Turns()
	return t.read.turns > 0 && t.said == t.texts(s) && turns.Len() >= t.read.turns &&
		s.ToolCallHistory.Len() >= t.read.results &&
		turns.At(t.read.turns-1).At.Equal(t.last)
}

// texts counts what was added to the step up to the last turn that was read. Mail may come after the prompt of the next
// turn was put together, where that turn is asked for again.
func (t *Talk) texts(s run.State) (n int) {
	for _, m := range s.Messages {
		if m.Step == t.of.step && m.After <= t.read.turns {
			n++
		}
	}
	return n
}

// goOn adds what the step did since, and what people said to it. It reports whether images are shown.
func (t *Talk) goOn(in Input) (images bool) {
	exchanges := t.read.rest(in.State, t.of.through)
	if n := t.read.turns; n > 0 {
		t.last = in.State.Turns().At(n - 1).At
	}
	t.said = t.texts(in.State)
	for i := range exchanges {
		for r := range exchanges[i].Results {
			if t.of.noImages {
				exchanges[i].Results[r].Hide("the model of this agent accepts no images")
			}
		}
		if t.of.results > 0 {
			cropImages(exchanges[i].Results, t.of.results/2)
		}
	}
	limitImages(exchanges)
	for i := range exchanges {
		cropResults(exchanges[i].Results, t.of.results)
		t.entries = append(t.entries, Entry{Exchange: &exchanges[i]})
		for _, text := range in.State.MessagesAfter(in.Step.ID, exchanges[i].Turn.Number) {
			t.entries = append(t.entries, Entry{Text: text})
		}
		images = images || slices.ContainsFunc(exchanges[i].Results, func(r Result) bool { return len(r.Images) > 0 })
	}
	return images
}

// Conversation returns the exchanges of a step, oldest first. The calls of a turn end before the next turn of its step,
// so the results stand in the history in the order of the turns.
func Conversation(s run.State, step string) []Exchange { return (&reading{step: step}).rest(s, 0) }

// reading goes over what a step did, oldest turn first.
type reading struct {
	step string
	// turns and results of the run are behind it.
	turns, results int
	walk           *loop.Walk
}

// rest reads on to the end of a state, and returns the exchanges of turns behind a number.
func (r *reading) rest(s run.State, through int) []Exchange {
	var out []Exchange
	if r.walk == nil && s.Step(r.step) != nil {
		r.walk = loop.Begin(s, r.step)
	}
	var results []run.CallRecord // those of one turn; the room is used again for the next
	for turns := s.Turns(); r.turns < turns.Len(); r.turns++ {
		t := turns.At(r.turns)
		if t.Step != r.step {
			continue
		}
		e := Exchange{Turn: t}
		results = r.resultsOf(s, &t, results[:0])
		if len(t.Calls) > 0 {
			e.Results = make([]Result, len(t.Calls))
		}
		for i, c := range t.Calls {
			e.Results[i] = shown(c, results)
		}
		if r.walk != nil {
			e.Note = r.walk.Add(loop.LapOf(s, t, results)).Note()
		}
		if t.Fault != "" {
			e.Note = FixSchema(t.Fault)
		}
		if t.Interrupted {
			e.Note = interruption(t.FinishReason)
		}
		if t.Number > through {
			out = append(out, e)
		}
	}
	return out
}

// resultsOf reads the results of the calls of the next turn.
func (r *reading) resultsOf(s run.State, t *run.Turn, into []run.CallRecord) []run.CallRecord {
	for ; r.results < s.ToolCallHistory.Len() && len(t.Calls) > len(into); r.results++ {
		c := s.ToolCallHistory.At(r.results)
		if c.Step != r.step || c.Parent != "" { // what a program did inside is in what it said
			continue
		}
		if c.Turn != t.Number {
			break // a call of this turn has no result
		}
		into = append(into, c)
	}
	return into
}
