package sim

import (
	"math/rand/v2"
	"time"
)

// Trouble is how likely each kind of trouble is, in parts of ten thousand for each operation it can meet. The zero
// value is a calm play.
type Trouble struct {
	// Crash before or after any operation.
	Crash int
	// Of an append: its answer lost, itself lost, made late, refused as busy, refused with an old position, no space.
	LostAppend, NoAppend, LateAppend, Busy, Low, Full int
	// Stale reads, and answers of the log that never come.
	Stale, NoRead int
	// Store: any other operation that is not made, or made with its answer lost.
	Store int
	// Ack: an acknowledgement that is lost.
	Ack int
	// World: a model that fails in transit.
	World int
	// Stall takes the processor away for a time longer than any term; Drain ends a process in order; Ring fires a timer
	// early and lets it fire again. For each event of the play.
	Stall, Drain, Ring int
	// Deaf: how many of a hundred events are not overheard.
	Deaf int
	// Odd is how many of a hundred timers of gates fire early, late, twice or never.
	Odd int
	// Reorder is how far ahead of its turn a message may be delivered.
	Reorder int
	// Jumps: one event in so many is a jump in time; 0 means never.
	Jumps int
	// Events after which the trouble ends.
	Events int
}

// troubleOf draws the trouble of a seed: each kind is there or not, so that plays with few kinds come often.
func troubleOf(seed uint64) Trouble {
	rng := rand.New(rand.NewPCG(seed, 0x7a0b1e))
	some := func(most int) int {
		if rng.IntN(2) == 0 {
			return 0
		}
		return 1 + rng.IntN(most)
	}
	t := Trouble{Crash: some(200), LostAppend: some(1500), NoAppend: some(1500), LateAppend: some(800), Busy: some(1500), Low: some(1500), Full: some(500),
		Stale: some(2500), NoRead: some(800), Store: some(800), Ack: some(2000), World: some(1500), Stall: some(60), Drain: some(40), Ring: some(150),
		Deaf: some(100), Reorder: some(8), Jumps: some(200), Events: 200 + rng.IntN(1500)}
	t.Odd = some(100)
	return t
}

func (t Trouble) over(w *world) bool { return w.events > t.Events || w.play.Inject != nil }

// rush is one in how many events time jumps.
func (t Trouble) rush() int {
	if t.Jumps == 0 {
		return 1 << 30
	}
	return max(t.Jumps, 20)
}

func (t Trouble) window() int { return 1 + t.Reorder }

func (w *world) deaf() bool {
	return !w.peace && w.play.Trouble.Deaf > 0 && w.rng.IntN(100) < w.play.Trouble.Deaf
}

// verdictFor draws what becomes of an operation.
func (w *world) verdictFor(o *op) verdict {
	if w.play.Inject != nil {
		v := w.play.Inject[w.ops]
		switch {
		case v != again:
			return v
		case o.kind == opAppend:
			return lost
		case o.kind == opAck:
			return unmade
		}
		return made
	}
	if w.peace {
		return made
	}
	t := w.play.Trouble
	roll := func(odds int) bool { return odds > 0 && w.rng.IntN(10_000) < odds }
	switch {
	case roll(t.Crash):
		return before
	case roll(t.Crash):
		return after
	}
	switch o.kind {
	case opAppend:
		for _, try := range []struct {
			odds int
			v    verdict
		}{{t.LostAppend, lost}, {t.NoAppend, unmade}, {t.LateAppend, late}, {t.Busy, busy}, {t.Low, low}, {t.Full, full}} {
			if roll(try.odds) {
				return try.v
			}
		}
	case opRead:
		if roll(t.Stale) {
			return stale
		}
		if roll(t.NoRead) {
			return unmade
		}
	case opStore:
		if roll(t.Store) {
			return []verdict{unmade, lost}[w.rng.IntN(2)]
		}
	case opTree:
		if roll(t.Stale) {
			return stale
		}
		if roll(t.Store) {
			return unmade
		}
	case opAck:
		if roll(t.Ack) {
			return unmade
		}
	case opWorld:
		if roll(t.World) {
			return unmade
		}
	}
	return made
}

// trouble makes what befalls a process rather than an operation, and starts again what ended. It reports whether
// something happened.
func (w *world) trouble() bool {
	t := w.play.Trouble
	for _, p := range w.procs {
		switch {
		case p.running() && p.stalled && (w.peace || w.clock.Now().After(p.again)):
			p.stalled = false
			w.tale.proc(p, "gets its processor back")
			return true
		case !p.running() && (w.peace || w.play.Inject != nil || w.rng.IntN(60) == 0):
			p.crash(nil) // the end of a drain, where there was one
			p.start()
			return true
		}
	}
	if w.peace || w.play.Inject != nil {
		return false
	}
	p := w.procs[w.rng.IntN(len(w.procs))]
	if !p.running() || p.stalled {
		return false
	}
	switch roll := w.rng.IntN(10_000); {
	case roll < t.Stall:
		p.stalled, p.again = true, w.clock.Now().Add(time.Duration(1+w.rng.IntN(90))*time.Second)
		w.tale.proc(p, "loses its processor")
	case roll < t.Stall+t.Drain:
		w.tale.proc(p, "is asked to end")
		p.drain()
	case roll < t.Stall+t.Drain+t.Ring:
		names := w.st.TimersSet()
		if len(names) == 0 {
			return false
		}
		name := names[w.rng.IntN(len(names))]
		w.tale.line("timer", name+" fires early")
		w.st.Ring(name)
	default:
		return false
	}
	return true
}
