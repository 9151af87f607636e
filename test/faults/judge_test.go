//go:build slow

package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
	"github.com/inspan/inspan/test/faults/effects"
)

// judge checks all that was promised, from each replica alone.
func (w *world) judge() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w.ctx = ctx // the faults may have used up theirs
	lines, err := effects.Read(w.dir + "/effects")
	if err != nil {
		w.v.violate("%v", err)
	}
	w.load.mu.Lock() // no one else is left; it only tells the race detector so
	defer w.load.mu.Unlock()
	var ids []string
	for _, tk := range w.load.tasks {
		ids = append(ids, tk.id)
	}
	if !until(ctx, func() bool { return w.agree(ctx, 0) }) {
		w.v.violate("the nodes do not agree at the end")
	}
	var views []view
	for _, n := range w.nodes {
		seen := w.alone(n, ids, w.v)
		w.intact(ctx, n, seen.count(), w.v)
		views = append(views, seen)
	}
	for _, o := range views[1:] {
		views[0].same(o, w.v)
	}
	w.told(views, lines)
	linear(w.v, "GATE-9", "answers to gates (the first wins)", gateModel, gateHistory(views[0], w.load.answers))
	w.claims.judge(ctx, w.v)
}

// told writes the figures.
func (w *world) told(views []view, lines []effects.Line) {
	first := views[0]
	for _, kind := range slices.Sorted(maps.Keys(w.counts)) {
		w.v.row("faults: "+kind, w.counts[kind], "")
	}
	known, lost := 0, 0
	for _, seen := range views {
		k, n := seen.lost(w.load.received, w.v)
		known, lost = k, lost+n
		seen.gatesHeld(w.load.answers, w.v)
	}
	w.v.row("events in the log of each replica", first.count(), "")
	w.v.row("events acknowledged as stored, and lost from any replica", fmt.Sprintf("%d, %d", known, lost), "0 lost")
	w.runs(first)
	t := first.join(lines, w.v)
	for _, class := range []tool.Effect{tool.Read, tool.Idempotent, tool.Reconcilable, tool.Once} {
		want := ""
		if class == tool.Once {
			want = "0 repeated"
		}
		w.v.row("effects of class "+string(class)+", repeated", fmt.Sprintf("%d, %d", t.effects[class], t.repeated[class]), want)
	}
	w.v.row("unknown outcomes, each reported to its agent", t.unknown, "")
	w.v.row("processes that woke after their call was settled, their results refused", w.woken, "")
	w.v.row("flipped bits, how they were found", w.damage, "each is found")
	w.v.row("late results refused by their fence or lost with their process", t.late, "")
	at := first.moments()
	w.v.row("longest time without any event", stall(at, w.load.began, time.Now()).Round(10*time.Millisecond), "")
	var recovery []time.Duration
	for _, h := range w.healed {
		if d, ok := after(at, h); ok {
			recovery = append(recovery, d)
		}
	}
	w.v.row("from the end of a fault to the next event, p50 and p99", fmt.Sprintf("%s, %s", percentile(recovery, 50).Round(time.Millisecond), percentile(recovery, 99).Round(time.Millisecond)), "")
	w.v.row("slowest run", slowest(w.load.tasks), "")
	for _, p := range w.panics() {
		w.v.violate("%s", p)
	}
	w.v.row("processes that ended unasked and were begun again", len(w.unasked()), "")
	w.v.row("errors that clients received besides", w.load.troubles, "")
}

// runs holds the runs of a view against the tasks that were taken (PERS-15).
func (w *world) runs(seen view) {
	finished, failed, lost := 0, 0, 0
	for _, tk := range w.load.tasks {
		s := seen.states[tk.id]
		switch {
		case s.Status == events.Completed:
			finished++
		case s.Status == events.Failed:
			failed++
			w.v.violate("PERS-15: run %s failed: %s", tk.id, s.Result.Error)
		case tk.acked:
			lost++
			w.v.violate("PERS-15: the task of run %s was taken; it has %d events and is %q, %s", tk.id, s.Sequence, s.Status, time.Since(tk.sent).Round(time.Second))
		}
	}
	w.v.row("runs finished, failed, lost", fmt.Sprintf("%d, %d, %d", finished, failed, lost), "none failed, none lost")
}
