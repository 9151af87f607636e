package session_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

// world is a session and what became of its runs, as a dumb twin remembers it.
type world struct {
	e     session.State
	now   time.Time
	runs  map[string]session.Standing
	ended map[string]uint64 // runs that ended and are not settled, with their fences
	said  map[string]int    // how often a run's part was added
	fence uint64
	input uint64
	parts int
}

func (w *world) take(t *rapid.T) {
	id := fmt.Sprint("r", rapid.IntRange(0, 6).Draw(t, "run"))
	if _, over := w.ended[id]; over || w.said[id] > 0 {
		return // a planner asks the log before: a run that ended asks for nothing
	}
	mode := rapid.SampledFrom([]events.SessionMode{"", "", events.Sequential, events.Parallel}).Draw(t, "mode")
	for r, fence := range w.ended { // whoever wants the lock settles first
		if _, held := w.e.Holder(r); held {
			w.settle(t, r, fence)
		}
	}
	_, had := w.e.Holder(id)
	next, err := session.Take(w.e, session.Ask{Session: "s", Run: id, Agent: "a", Mode: mode, Limit: time.Hour}, w.runs, w.now)
	if err != nil {
		return
	}
	h, ok := next.Holder(id)
	if !ok {
		t.Fatal("it has no lock")
	}
	if had {
		if h.Fence > w.fence || next.Fence != w.e.Fence {
			t.Fatal("asking again changed the lock")
		}
	} else if h.Fence <= w.fence {
		t.Fatalf("fence %d does not follow %d", h.Fence, w.fence)
	} else {
		w.fence = h.Fence
	}
	w.e = next
	w.runs[id] = rapid.SampledFrom([]session.Standing{session.Living, session.Unborn, session.Held}).Draw(t, "standing")
}

func (w *world) end(t *rapid.T) {
	for id, st := range w.runs {
		if h, held := w.e.Holder(id); held && st == session.Living && rapid.Bool().Draw(t, "ends") {
			w.ended[id] = h.Fence
			delete(w.runs, id)
		}
	}
}

func (w *world) settle(t *rapid.T, id string, fence uint64) {
	before := w.e
	w.e = session.Settle(w.e, session.End{Session: "s", Run: id, Fence: fence, Part: events.Ref{SHA256: id}, Messages: 2}, w.now)
	if w.e.Parts > before.Parts {
		w.said[id]++
		w.parts++
	}
	if w.said[id] > 1 {
		t.Fatalf("what %s said is in the history %d times", id, w.said[id])
	}
	if _, held := w.e.Holder(id); held {
		t.Fatalf("%s ended and has its lock", id)
	}
}

func (w *world) steer(t *rapid.T) {
	action := rapid.SampledFrom(session.Actions()).Draw(t, "action")
	if rapid.IntRange(0, 4).Draw(t, "again") > 0 {
		w.input++
	}
	for id, fence := range w.ended {
		if _, held := w.e.Holder(id); held {
			w.settle(t, id, fence)
		}
	}
	took, of := w.e.Took(w.input), ""
	if w.e.History != nil && rapid.Bool().Draw(t, "of") {
		of = w.e.History.SHA256
	}
	next, err := session.Steer(w.e, session.Wish{Session: "s", Input: w.input, SessionControl: events.SessionControl{Action: action, Of: of, Stop: rapid.Bool().Draw(t, "stop")}}, w.runs, w.now)
	if err != nil {
		return
	}
	for _, h := range w.e.Holders {
		if _, held := next.Holder(h.Run); !held && w.runs[h.Run] == session.Living {
			t.Fatalf("%s took the lock of %s, which lives", action, h.Run)
		}
	}
	if !took && (action == session.Clear || action == session.Delete) {
		w.parts = 0
	}
	if !took && (action == session.Import || action == session.Compact) {
		w.parts = 1
	}
	w.e = next
}

func TestSessionProperties(t *testing.T) {
	t.Parallel()
	t.Run("SESS-3 SESS-4 SESS-5 SESS-7 whatever happens twice, late or never: one living run in a sequential session, fences only rise, each word is kept once", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			w := &world{now: time.Unix(1e9, 0).UTC(), runs: map[string]session.Standing{}, ended: map[string]uint64{}, said: map[string]int{}, input: 1}
			t.Repeat(map[string]func(*rapid.T){
				"take": w.take, "end": w.end, "steer": w.steer,
				"settle": func(t *rapid.T) {
					for id, fence := range w.ended {
						w.settle(t, id, fence)
					}
				},
				"later": func(t *rapid.T) {
					w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
				},
				"": func(t *rapid.T) {
					living := 0
					for _, h := range w.e.Holders {
						if w.runs[h.Run] == session.Living {
							if _, over := w.ended[h.Run]; !over {
								living++
							}
						}
						if h.Fence > w.e.Fence {
							t.Fatalf("fence %d above %d", h.Fence, w.e.Fence)
						}
					}
					if w.e.Fence != w.fence || w.e.Parts != w.parts || len(w.e.Inputs) > events.MaxSessionInputs {
						t.Fatalf("fence %d, parts %d, want %d and %d", w.e.Fence, w.e.Parts, w.fence, w.parts)
					}
				},
			})
		})
	})
}

func TestTake(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0).UTC()
	ask := func(id string, mode events.SessionMode) session.Ask {
		return session.Ask{Session: "s", Run: id, Agent: "a", Mode: mode, Limit: time.Minute}
	}
	t.Run("SESS-3 sequential: a living, a held and a run that may still be born keep others out; an hour changes nothing for a living one", func(t *testing.T) {
		t.Parallel()
		e, err := session.Take(session.State{}, ask("r1", ""), nil, now)
		if err != nil {
			t.Fatal(err)
		}
		for st, late := range map[session.Standing]time.Duration{session.Living: time.Hour, session.Held: time.Hour, session.Unborn: session.BirthTerm - 1} {
			for _, mode := range []events.SessionMode{"", events.Sequential} {
				if _, err := session.Take(e, ask("r2", mode), map[string]session.Standing{"r1": st}, now.Add(late)); err == nil {
					t.Errorf("standing %d: it got the lock", st)
				}
			}
		}
		if next, err := session.Take(e, ask("r2", ""), map[string]session.Standing{"r1": session.Unborn}, now.Add(session.BirthTerm)); err != nil || next.Holders[0].Run != "r2" || len(next.Holders) != 1 {
			t.Errorf("%+v, %v", next, err)
		}
	})
	t.Run("SESS-4 parallel: up to the limit and not one more", func(t *testing.T) {
		t.Parallel()
		var e session.State
		var err error
		for i := range events.MaxHolders {
			if e, err = session.Take(e, ask(fmt.Sprint("r", i), events.Parallel), nil, now); err != nil {
				t.Fatal(err)
			}
		}
		if _, err = session.Take(e, ask("more", ""), nil, now); err == nil {
			t.Error("one more got in")
		}
		if _, err = session.Take(e, ask("r3", ""), nil, now); err != nil {
			t.Errorf("one that is in is refused: %v", err)
		}
	})
}
