package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
)

// judge explains a history and has the model do the same.
func judge(t *testing.T, h *history, s *side, c *tally) {
	t.Helper()
	for _, call := range h.calls {
		c.saw(s, call.outcome())
	}
	x, ok := explain(h, s, c)
	if !ok {
		return
	}
	m, station := onModel(t, s.terms)
	x.replay(m, station)
}

// outcome is a word for the count.
func (c *call) outcome() string {
	switch {
	case c.op == opAppend:
		return c.ack.Outcome.String()
	case c.err != nil:
		return []string{"append", "read", "last"}[c.op] + " failed"
	}
	return []string{"append", "read", "last"}[c.op]
}

func TestWriters(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-4 DEPL-2 what six writers on three runs see on one server the model can do", func(t *testing.T) {
		t.Parallel()
		s, c := onServer(t, short), newTally()
		judge(t, write(t, s, chance(t, 2), 6, 150, nil), s, c)
		c.tell(t)
	})
	t.Run("SAFE-4 the model with its faults is judged like a server", func(t *testing.T) {
		t.Parallel()
		s, station := onModel(t, short)
		s.journals = append(s.journals, s.journals[0]) // so that what only replicas may do is allowed
		station.SetFaults(everyFault())
		h := write(t, s, chance(t, 3), 6, 200, nil)
		station.SetFaults(mem.Faults{})
		h.log = wholeLog(t, s)
		c := newTally()
		judge(t, h, s, c)
		c.tell(t)
		for _, reason := range []string{transient, lostRequest, lostAck, lateRequest, lowConflict, staleRead, staleLast, readFailed, lastFailed} {
			if c.allowed["model: "+reason] == 0 {
				t.Errorf("%q never happened: the judge was not tried on it", reason)
			}
		}
	})
}

// everyFault makes each fault of the journal now and then.
func everyFault() mem.Faults {
	behind := func(n uint64, _ string) (int, error) {
		switch n % 7 {
		case 3:
			return 1 + int(n%3), nil
		case 5:
			return 0, fmt.Errorf("no leader")
		}
		return 0, nil
	}
	return mem.Faults{Read: behind, Last: behind, Append: func(n uint64, e kernel.Entry) mem.Fault {
		if n%12 == 9 && e.Head == 0 {
			return mem.None // the run may have no events, and nothing is below the head of such a run
		}
		return map[uint64]mem.Fault{2: mem.LostAck, 4: mem.LostRequest, 6: mem.LateRequest, 8: mem.Busy, 9: mem.LowConflict}[n%12]
	}}
}

// TestJudge shows the judge histories that no sound log can have.
func TestJudge(t *testing.T) {
	t.Parallel()
	sound := func(t *testing.T) (*history, *side) {
		s, _ := onModel(t, short)
		return write(t, s, chance(t, 4), 4, 100, nil), s
	}
	find := func(t *testing.T, h *history, fits func(*call) bool) *call {
		for _, c := range h.calls {
			if fits(c) {
				return c
			}
		}
		t.Fatal("the history has no such call")
		return nil
	}
	stored := func(c *call) bool { return c.op == opAppend && c.ack.Outcome == kernel.Stored && c.ack.Seq > 20 }
	refused := func(c *call) bool { return c.op == opAppend && c.ack.Outcome == kernel.Conflict }
	long := func(c *call) bool { return c.op == opRead && len(c.events) > 3 }
	for _, bad := range []struct {
		name   string
		damage func(t *testing.T, h *history)
	}{
		{"a read that skips an event", func(t *testing.T, h *history) {
			c := find(t, h, long)
			c.events = append(slices.Clone(c.events[:1]), c.events[2:]...)
		}},
		{"a read with other bytes", func(t *testing.T, h *history) { find(t, h, long).events[1].Bytes = []byte("other") }},
		{"a stale read on one server", func(t *testing.T, h *history) {
			c := find(t, h, func(c *call) bool { return long(c) && !c.more })
			c.events = c.events[:1]
			for _, other := range h.calls { // all of them had ended
				c.began = max(c.began, other.ended)
			}
			c.ended = c.began + 1
		}},
		{"a stored event that is not in the log", func(t *testing.T, h *history) {
			c := find(t, h, refused)
			c.ack = kernel.Ack{Outcome: kernel.Stored, Seq: c.ack.Seq + 1}
		}},
		{"a conflict that is in the log", func(t *testing.T, h *history) {
			find(t, h, stored).ack.Outcome = kernel.Conflict
		}},
		{"a transient that is in the log", func(t *testing.T, h *history) { find(t, h, stored).ack.Outcome = kernel.Transient }},
		{"two winners at one head", func(t *testing.T, h *history) {
			c := find(t, h, stored)
			c.entry.Head = 0
		}},
		{"an event stored twice", func(t *testing.T, h *history) { h.log = append(h.log, h.log[3]) }},
		{"an event that no one appended", func(t *testing.T, h *history) { h.log = append(h.log, event{run: "a", bytes: []byte("forged")}) }},
		{"an acknowledged event that is gone", func(t *testing.T, h *history) { h.log = slices.Delete(h.log, 10, 11) }},
		{"events in the wrong order of time", func(t *testing.T, h *history) {
			c := find(t, h, stored)
			c.began, c.ended = 1<<40, 1<<40+1
		}},
		{"a read of what was not there yet", func(t *testing.T, h *history) {
			c := find(t, h, func(c *call) bool { return long(c) && lastSeq(c.events) > 30 })
			c.began, c.ended = 1, 2
		}},
		{"a conflict without a reason", func(t *testing.T, h *history) {
			c := find(t, h, refused)
			c.ack.Seq = c.entry.Head
			if c.entry.Head == 0 {
				c.ack.Seq = 1 << 30
			}
		}},
	} {
		t.Run("SAFE-4 "+bad.name+" is found", func(t *testing.T) {
			t.Parallel()
			h, s := sound(t)
			c := newTally()
			judge(t, h, s, c)
			if len(c.violations) > 0 {
				t.Fatalf("the sound history is refused: %s", c.violations[0])
			}
			bad.damage(t, h)
			judge(t, h, s, c)
			if len(c.violations) == 0 {
				t.Error("the judge did not see it")
			}
		})
	}
}
