package prompt

import (
	"fmt"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Limits of compaction, in tokens.
const (
	// UnknownWindow is taken for models that no one knows: small enough for most of those that people run themselves.
	UnknownWindow = 32_768
	// maxSummary is the most that one summary takes.
	maxSummary = 4_096
	// maxTooLong bounds how often the window is taken for half of what it was.
	maxTooLong = 4
)

// Settings of compaction that are in force for a step; in tokens.
type Settings struct {
	// Window of the model, 0 where none is known; Limit is where compaction starts, 0 where it never does.
	Window, Limit int
	// Protect is how much of the newest history is left as it is, if there is room for it; Results is what the results
	// of one turn take at most, 0 where they take what they take.
	Protect, Results int
}

// SettingsOf returns those of an agent in a step. Each time that a provider found a turn too long, the window of its
// model is taken for half of what it was, for the rest of the run: then the estimates were wrong, or the window. Where
// the events do not say so, as those of earlier versions, it holds for the turn that is owed.
func SettingsOf(s run.State, a events.Agent, st *run.Step) Settings {
	c := a.Compaction
	if c == nil {
		c = &events.Compaction{}
	}
	window, late := a.ContextWindow, min(st.TooLong, maxTooLong)
	if found := s.Windows[a.Model]; found > 0 && (window == 0 || found < window) {
		window, late = found, 0
	}
	if window == 0 && late > 0 {
		window, late = UnknownWindow, late-1
	}
	if window == 0 || c.Off {
		return Settings{Window: window}
	}
	set := Settings{Window: window >> late, Protect: events.DefaultProtectTokens}
	threshold := c.Threshold
	if threshold == 0 {
		threshold = events.DefaultThreshold
	}
	if c.ProtectTokens != nil {
		set.Protect = *c.ProtectTokens
	}
	set.Limit = int(threshold * float64(set.Window))
	whole := protected(set.Protect, set.Limit)
	if set.Results = whole; whole < set.Protect {
		set.Results = max(1, whole/2) // else no turn with large results could ever be protected
	}
	return set
}

// Shorter reports whether a turn that the provider found too long may be asked for once more, with the window taken for
// half of what it was.
func Shorter(a events.Agent, st *run.Step) bool {
	return (a.Compaction == nil || !a.Compaction.Off) && st.TooLong < maxTooLong
}

// Smaller is what the window of an agent's model is taken for once the provider found the turn of a step too long, in
// tokens.
func Smaller(s run.State, a events.Agent, st *run.Step) int {
	if window := SettingsOf(s, a, st).Window; window > 0 {
		return max(1, window/2)
	}
	return UnknownWindow
}

// protected is how much of the newest history is left alone where the history has that much room: all that is asked for
// where that is at most three quarters of the room, else half of the room.
func protected(want, room int) int {
	if want <= room*3/4 {
		return want
	}
	return max(0, room/2)
}

// Cut is what to compact: the summary of Exchanges replaces them and everything before.
type Cut struct {
	// Through is the last turn to be replaced, Replaced their count with those replaced before.
	Through, Replaced int
	Exchanges         []Exchange
	// Before is the estimate of the whole prompt, Rest that of it without what is replaced and without the summary.
	Before, Rest int
	// Protected tokens of the newest history are left alone; Window is what was kept to.
	Protected, Window int
	// Summary is what the summary may take, Room what the whole request for it may; Ratio corrects estimates.
	Summary, Room int
	Ratio         float64
}

// After estimates the prompt with a summary.
func (c *Cut) After(summary string) int { return c.Rest + scaled(Tokens(summary), c.Ratio) }

// Verdict says what is to be done about the length of a prompt. At most one field is set; none means that it fits.
type Verdict struct {
	Cut *Cut
	// Full says why the prompt does not fit although nothing is left to compact.
	Full string
}

// Judge decides whether a prompt must be compacted before it is sent (LOOP-7). A verdict with a Cut always replaces at
// least one more turn, so that judging again after each compaction comes to an end.
func Judge(in Input, p Prompt) Verdict {
	set := SettingsOf(in.State, in.Agent, in.Step)
	if set.Limit == 0 {
		return Verdict{}
	}
	m := measure(in, p)
	if m.total <= set.Limit {
		return Verdict{}
	}
	full := Verdict{}
	if m.total > set.Window {
		full.Full = fmt.Sprintf("the prompt has about %d tokens, the context window of %s is %d, and nothing is left to compact: the agent's own text, its tools and its task take %d; shorten them, give the agent fewer tools, or take a model with a larger window",
			m.total, in.Agent.Model, set.Window, m.fixed)
	}
	room := set.Limit - m.fixed
	if room < set.Limit/8 || len(m.exchanges) == 0 {
		return full
	}
	keep := protected(set.Protect, room)
	from, tail := len(m.exchanges), 0
	for from > 0 && tail+m.sizes[from-1] <= keep {
		from--
		tail += m.sizes[from]
	}
	if from == 0 {
		if full.Full == "" {
			return full // all of it is protected, and it fits the window
		}
		from = len(m.exchanges)
	}
	c := &Cut{Before: m.total, Protected: keep, Window: set.Window, Summary: max(1, min(maxSummary, room/4)),
		Room: set.Limit, Ratio: m.ratio}
	from = c.fit(in, m.exchanges[:from])
	c.Exchanges, c.Through = m.exchanges[:from], m.exchanges[from-1].Turn.Number
	c.Rest = m.fixed
	for _, size := range m.sizes[from:] {
		c.Rest += size
	}
	c.Replaced = replaced(in.State, in.Step.ID, c.Through)
	return Verdict{Cut: c}
}

func replaced(s run.State, step string, through int) int {
	n := 0
	for _, t := range run.All(s.Turns()) {
		if t.Step == step && t.Number <= through {
			n++
		}
	}
	return n
}

// measured is a prompt in tokens.
type measured struct {
	exchanges []Exchange
	sizes     []int // of the exchanges
	// fixed is what no compaction takes away; total the whole prompt.
	fixed, total int
	ratio        float64
}

// measure goes by what the provider counted at the last turn that was shown this very projection, and estimates the
// rest, corrected by how wrong estimates were in this step.
func measure(in Input, p Prompt) measured {
	var m measured
	texts, after := 0, 0 // after counts the texts that follow the last turn
	for _, e := range p.Entries {
		if e.Exchange == nil {
			n := Tokens(e.Text)
			texts, after = texts+n, after+n
			continue
		}
		_ = e.Exchange.resultTokens() // for this turn, and for the next one that is shown it
		m.exchanges, after = append(m.exchanges, *e.Exchange), 0
	}
	begun := Tokens(p.System) + texts + in.Tools + in.Earlier
	m.ratio = ratio(in, m.exchanges, begun)
	m.total = scaled(begun, m.ratio)
	for _, e := range m.exchanges {
		size := spoken(e, m.ratio) + scaled(e.resultTokens(), m.ratio)
		m.sizes, m.total = append(m.sizes, size), m.total+size
	}
	if n := len(m.exchanges); n > 0 {
		last := m.exchanges[n-1]
		if t := last.Turn; t.InputTokens > 0 && (in.Step.Compacted == nil || t.Number > in.Step.Compacted.After) {
			m.total = t.InputTokens + spoken(last, m.ratio) + scaled(last.resultTokens()+after, m.ratio)
		}
	}
	light := in
	bare := *in.Step
	bare.Compacted = &run.Compacted{}
	light.Step = &bare
	fixed := Tokens(roleText(light, true)) + Tokens(opening(light)[0].Text) + in.Tools + in.Earlier
	for _, s := range in.State.Messages {
		if s.Step == in.Step.ID {
			fixed += Tokens(s.Text)
		}
	}
	m.fixed = scaled(fixed, m.ratio)
	return m
}

// spoken is what the model's own message takes: as the provider counted it when it was said.
func spoken(e Exchange, ratio float64) int {
	if e.Turn.OutputTokens > 0 {
		return e.Turn.OutputTokens
	}
	n := Tokens(e.Turn.Text)
	for _, c := range e.Turn.Calls {
		n += Tokens(c.Tool) + Tokens(string(c.Input))
	}
	return scaled(n, ratio)
}

// around is what a result takes beside its text.
const around = 8

// resultTokens estimates what the results of a turn take with what is said after them, once.
func (e *Exchange) resultTokens() int {
	if e.tokens == 0 {
		e.tokens = Tokens(e.Note)
		for _, r := range e.Results {
			e.tokens += Tokens(r.Output) + imageTokens(r) + around
		}
	}
	return e.tokens
}

func scaled(n int, ratio float64) int { return int(float64(n) * ratio) }

// recent is how many turns the ratio is taken from.
const recent = 8

// ratio is how many tokens the provider counted for one that was estimated, in the recent turns of a step by the model
// that took the last one: by how much the prompt grew from one turn to the next, or by the first prompt. 1 where
// nothing is known; never less than a half or more than 4.
func ratio(in Input, exchanges []Exchange, begun int) float64 {
	counted, guessed := 0, 0
	n := len(exchanges)
	for i := max(1, n-recent); i < n; i++ {
		before, now := exchanges[i-1], exchanges[i].Turn
		grown, guess := now.InputTokens-before.Turn.InputTokens-before.Turn.OutputTokens, before.resultTokens()
		if grown > 0 && guess > 0 && now.Model == before.Turn.Model && now.Model == exchanges[n-1].Turn.Model {
			counted, guessed = counted+grown, guessed+guess
		}
	}
	if n > 0 && in.Step.Compacted == nil && exchanges[0].Turn.InputTokens > 0 {
		counted, guessed = counted+exchanges[0].Turn.InputTokens, guessed+begun
	}
	if guessed == 0 {
		return 1
	}
	return min(4, max(0.5, float64(counted)/float64(guessed)))
}
