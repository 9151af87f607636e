package conformance

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
)

// explanation is an order of the operations of a history in which the model, with the faults noted, does the same.
type explanation struct {
	h *history
	s *side
	c *tally
	// of holds the position in the log of what was appended, by its bytes; by the call that stored each position.
	of map[string]uint64
	by []*call
	// early and late bound the tick at which each position was taken; index 0 is the empty log.
	early, late []uint64
	// slots holds, for each length of the log, what happened while it was so long.
	slots [][]planned
}

// planned is a call and what has to go wrong in the model for it.
type planned struct {
	call   *call
	fault  mem.Fault
	behind int
	lands  bool // the late append is made right after
}

// explain finds the order and counts the faults it needs. What cannot be explained is a violation.
func explain(h *history, s *side, c *tally) (*explanation, bool) {
	x := &explanation{h: h, s: s, c: c, of: map[string]uint64{}, slots: make([][]planned, len(h.log)+1)}
	for _, find := range []func() bool{x.places, x.times} {
		if !find() {
			return x, false
		}
	}
	ok := true
	for _, call := range h.calls {
		fits := false
		switch {
		case call.op != opAppend:
			fits = x.reads(call)
		case x.of[string(call.entry.Bytes)] > 0:
			fits = x.stores(call)
		default:
			fits = x.refuses(call)
		}
		ok = ok && fits
	}
	return x, ok
}

func (x *explanation) wrong(why string, call *call) bool {
	x.c.violate(x.s, "%s: %s", why, call)
	return false
}

// places finds which append stored which event.
func (x *explanation) places() bool {
	for i, f := range x.h.log {
		if x.of[string(f.bytes)] > 0 {
			x.c.violate(x.s, "position %d holds the same bytes as position %d", i+1, x.of[string(f.bytes)])
			return false
		}
		x.of[string(f.bytes)] = uint64(i) + 1
	}
	x.by = make([]*call, len(x.h.log)+1)
	for _, call := range x.h.calls {
		if p := x.of[string(call.entry.Bytes)]; call.op == opAppend && p > 0 {
			x.by[p] = call
		}
	}
	for p := 1; p < len(x.by); p++ {
		if x.by[p] == nil || x.by[p].entry.ID != x.h.log[p-1].run {
			x.c.violate(x.s, "position %d: no one appended %.40q to run %s", p, x.h.log[p-1].bytes, x.h.log[p-1].run)
			return false
		}
	}
	return true
}

// times bounds when each position was taken: while its append was under way, and after the position before it.
func (x *explanation) times() bool {
	n := len(x.h.log)
	x.early, x.late = make([]uint64, n+1), make([]uint64, n+2)
	x.late[n+1] = math.MaxUint64
	for p := n; p >= 1; p-- {
		x.late[p] = x.late[p+1]
		if x.by[p].ack.Outcome != kernel.Unknown {
			x.late[p] = min(x.late[p], x.by[p].ended)
		}
	}
	for p := 1; p <= n; p++ {
		x.early[p] = max(x.early[p-1], x.by[p].began)
		if x.early[p] > x.late[p] {
			x.c.violate(x.s, "position %d was taken before its append began, or another was taken after its append had ended: %s", p, x.by[p])
			return false
		}
	}
	return true
}

// during returns the first and the last length that the log may have had while a call was under way.
func (x *explanation) during(c *call) (first, last int) {
	first, last = -1, 0
	for p := range x.slots {
		if x.early[p] <= c.ended && x.late[p+1] >= c.began {
			if first < 0 {
				first = p
			}
			last = p
		}
	}
	return max(0, first), last
}

// head is the position of the run's last event in a log of that length.
func (x *explanation) head(run string, length int) uint64 {
	for p := length; p >= 1; p-- {
		if x.h.log[p-1].run == run {
			return uint64(p)
		}
	}
	return 0
}

func (x *explanation) plan(slot int, p planned) bool {
	x.slots[slot] = append(x.slots[slot], p)
	return true
}

// stores explains an append that is in the log.
func (x *explanation) stores(c *call) bool {
	p := x.of[string(c.entry.Bytes)]
	at := planned{call: c}
	switch {
	case c.ack.Outcome == kernel.Stored && c.ack.Seq == p:
	case c.ack.Outcome == kernel.Unknown && c.ended >= x.early[p]:
		at.fault = mem.LostAck
		x.c.allow(x.s, lostAck, "%s", c)
	case c.ack.Outcome == kernel.Unknown:
		at.fault, at.lands = mem.LateRequest, true
		x.c.allow(x.s, lateRequest, "%s", c)
	default:
		return x.wrong(fmt.Sprintf("it is in the log at %d", p), c)
	}
	x.slots[p-1] = append(x.slots[p-1], at)
	return true
}

// refuses explains an append that is not in the log.
func (x *explanation) refuses(c *call) bool {
	first, last := x.during(c)
	switch c.ack.Outcome {
	case kernel.Stored:
		return x.wrong("it is not in the log", c)
	case kernel.Transient:
		return x.c.allow(x.s, transient, "%s", c) && x.plan(first, planned{call: c, fault: mem.Busy})
	case kernel.Unknown:
		return x.c.allow(x.s, lostRequest, "%s", c) && x.plan(first, planned{call: c, fault: mem.LostRequest})
	case kernel.Conflict:
		for p := first; p <= last; p++ {
			if head := x.head(c.entry.ID, p); head == c.ack.Seq && head != c.entry.Head {
				return x.plan(p, planned{call: c})
			}
		}
		for p := first; p <= last; p++ {
			if head := x.head(c.entry.ID, p); head > 0 && x.head(c.entry.ID, int(head)-1) == c.ack.Seq {
				return x.c.allow(x.s, lowConflict, "%s", c) && x.plan(p, planned{call: c, fault: mem.LowConflict})
			}
		}
		return x.wrong("no such head while it was under way", c)
	}
	return x.wrong("no append of this history can end so", c)
}

// reads explains a read or a last.
func (x *explanation) reads(c *call) bool {
	first, last := x.during(c)
	if c.err != nil {
		reason := readFailed
		if c.op == opLast {
			reason = lastFailed
		}
		return x.c.allow(x.s, reason, "%s", c) && x.plan(first, planned{call: c})
	}
	if c.op == opRead && !x.consecutive(c) {
		return x.wrong("the log has other events there", c)
	}
	if c.op == opLast && len(c.events) > 0 && !x.is(c.events[0], c.run) {
		return x.wrong("the log has another event there", c)
	}
	shows := func(length int) bool { return x.head(c.run, length) == lastSeq(c.events) }
	if c.op == opRead {
		shows = func(length int) bool {
			if c.more {
				return x.head(c.run, length) > lastSeq(c.events)
			}
			return x.head(c.run, length) == lastSeq(c.events) || len(c.events) == 0 && x.head(c.run, length) <= c.after
		}
	}
	for p := last; p >= first; p-- {
		if shows(p) {
			return x.plan(p, planned{call: c})
		}
	}
	for p := first; p >= 0; p-- {
		if !shows(p) {
			continue
		}
		reason := staleRead
		if c.op == opLast {
			reason = staleLast
		}
		behind := 0
		for _, f := range x.h.log[p:first] {
			if f.run == c.run {
				behind++
			}
		}
		return x.c.allow(x.s, reason, "%s, %d behind", c, behind) && x.plan(first, planned{call: c, behind: behind})
	}
	return x.wrong("it shows what was not there yet", c)
}

func (x *explanation) is(r kernel.Record, run string) bool {
	return r.Seq >= 1 && r.Seq <= uint64(len(x.h.log)) && x.h.log[r.Seq-1].run == run && bytes.Equal(x.h.log[r.Seq-1].bytes, r.Bytes)
}

// consecutive says whether a read shows the events of its run from its position on and skips none.
func (x *explanation) consecutive(c *call) bool {
	next := c.after
	for _, r := range c.events {
		for next++; next <= uint64(len(x.h.log)) && x.h.log[next-1].run != c.run; next++ {
		}
		if r.Seq != next || !x.is(r, c.run) {
			return false
		}
	}
	return true
}

// replay has the model do all of it in the order found, and compares each answer with the one given.
func (x *explanation) replay(m *side, station *mem.Station) {
	var now planned
	station.SetFaults(mem.Faults{
		Append: func(uint64, kernel.Entry) mem.Fault { return now.fault },
		Read:   func(uint64, string) (int, error) { return now.behind, now.call.err },
		Last:   func(uint64, string) (int, error) { return now.behind, now.call.err },
	})
	for length, slot := range x.slots {
		// What stores the next event comes last.
		slices.SortStableFunc(slot, func(a, b planned) int { return int(x.position(a)) - int(x.position(b)) })
		for _, now = range slot {
			got := *now.call
			x.again(m, &got)
			if now.lands {
				station.Land()
			}
			x.c.agreed(1)
			if !same(&got, now.call) {
				x.c.violate(x.s, "with %d events in the log the model has %s, for %s", length, &got, now.call)
			}
		}
	}
	for i, f := range x.h.log {
		if all := station.Log(f.run); !slices.ContainsFunc(all, func(r kernel.Record) bool { return r.Seq == uint64(i)+1 && bytes.Equal(r.Bytes, f.bytes) }) {
			x.c.violate(x.s, "the model's log differs at position %d", i+1)
			return
		}
	}
}

func (x *explanation) position(p planned) uint64 {
	if p.call.op != opAppend {
		return 0
	}
	return x.of[string(p.call.entry.Bytes)]
}

// again makes a call once more, on the model.
func (x *explanation) again(m *side, c *call) {
	ctx, j := context.Background(), m.journal()
	switch c.op {
	case opAppend:
		c.ack = j.Append(ctx, c.entry)
	case opRead:
		c.events, c.more, c.err = j.Read(ctx, c.run, c.after)
	case opLast:
		var r kernel.Record
		var ok bool
		c.events = nil
		if r, ok, c.err = j.Last(ctx, c.run); ok {
			c.events = []kernel.Record{r}
		}
	}
}

func same(a, b *call) bool {
	if a.op == opAppend {
		told := a.ack.Outcome == kernel.Stored || a.ack.Outcome == kernel.Conflict // the others name no position
		return a.ack.Outcome == b.ack.Outcome && (!told || a.ack.Seq == b.ack.Seq)
	}
	return a.more == b.more && (a.err == nil) == (b.err == nil) && slices.EqualFunc(a.events, b.events, func(p, q kernel.Record) bool {
		return p.Seq == q.Seq && bytes.Equal(p.Bytes, q.Bytes)
	})
}
