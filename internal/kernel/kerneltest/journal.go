package kerneltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Journals are the logs of a station, by the name of their aggregates.
type Journals func(aggregate string) kernel.Journal

// Journal examines the journals of a station with the aggregate of runs and with another one, and both beside each
// other. open is called once; what it returns must have the right to append every kind of event. On a cluster, a
// journal may speak to any replica.
func Journal(t *testing.T, open func(t *testing.T) Journals) {
	t.Helper()
	of := open(t)
	for _, aggregate := range []string{events.RunAggregate, CounterAggregate} {
		t.Run(aggregate, func(t *testing.T) {
			t.Parallel()
			journal(t, of(aggregate))
			if aggregate == events.RunAggregate {
				amounts(t, of(aggregate))
			}
		})
	}
	aggregatesApart(t, of)
}

type journalPart struct {
	name string
	exam func(*testing.T, kernel.Journal)
}

func examine(t *testing.T, j kernel.Journal, parts []journalPart) {
	t.Helper()
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.exam(t, j)
		})
	}
}

// journal examines the log of the aggregates of one name. What they are does not matter to it, so all are called runs.
func journal(t *testing.T, j kernel.Journal) {
	t.Helper()
	examine(t, j, []journalPart{
		{"SAFE-4 EVT-11 the first event and the next are stored at growing positions", appendInOrder},
		{"SAFE-4 EVT-15 an append behind the head is a conflict and stores nothing", refusesOldHead},
		{"SAFE-4 an append before the head that never was is a conflict", refusesUnknownHead},
		{"SAFE-4 the guard is on all events of the run, whatever their kind", guardsAllKinds},
		{"EVT-15 DEPL-2 the same bytes again are not stored twice", refusesRepeat},
		{"DEPL-2 SAFE-4 of writers at one head exactly one wins, and no position is skipped", oneWins},
		{"DEPL-2 LIFE-16 writers of different runs do not disturb each other", runsApart},
		{"EVT-1 a read begins after a position of the whole log", readsAfter},
		{"SAFE-4 EVT-11 the last event comes from the leader", lastIsFresh},
		{"LIFE-9 a run that does not exist is empty, not an error", unknownRun},
		{"SAFE-15 an event above the limit is too large, and nothing is stored", tooLarge},
		{"SAFE-4 an append with an ended context is unknown, a read an error", endedContext},
	})
}

// amounts examines what takes long and cannot depend on the name of the aggregates.
func amounts(t *testing.T, j kernel.Journal) {
	t.Helper()
	examine(t, j, []journalPart{
		{"EVT-1 events are read in order, over more than one page, byte for byte", readsInPages},
		{"EVT-11 SAFE-15 an event near the limit is stored whole", largeEvent},
		{"LIFE-16 DEPL-2 hundreds of runs", manyRuns},
	})
}

func appendInOrder(t *testing.T, j kernel.Journal) {
	evs := fill(t, j, unique("run"), 5)
	for i := 1; i < len(evs); i++ {
		if evs[i].Seq <= evs[i-1].Seq {
			t.Errorf("event %d is at position %d, want above %d", i+1, evs[i].Seq, evs[i-1].Seq)
		}
	}
}

func refusesOldHead(t *testing.T, j kernel.Journal) {
	id := unique("run")
	evs := fill(t, j, id, 3)
	c := &chain{run: id, n: 3}
	for _, head := range []uint64{0, evs[0].Seq, evs[1].Seq} {
		ack := settled(t, j, kernel.Entry{ID: id, Kind: events.RunPaused, Head: head, Bytes: c.next(t, events.RunPaused, 10)})
		if ack.Outcome != kernel.Conflict {
			t.Errorf("append at head %d of a run at %d: got %s (%v), want conflict", head, evs[2].Seq, ack.Outcome, ack.Err)
		}
	}
	got, _ := readAll(t, j, id, 0, 3)
	same(t, got, evs)
}

// settled repeats an append only while it is refused for reasons that pass.
func settled(t *testing.T, j kernel.Journal, e kernel.Entry) kernel.Ack {
	t.Helper()
	ctx := within(t)
	var ack kernel.Ack
	eventually(t, patience, func() bool {
		ack = j.Append(ctx, e)
		return ack.Outcome != kernel.Transient && ack.Outcome != kernel.Unknown
	}, "a definite outcome for %s on run %s", e.Kind, e.ID)
	return ack
}

func refusesUnknownHead(t *testing.T, j kernel.Journal) {
	id := unique("run")
	c := &chain{run: id}
	ack := settled(t, j, kernel.Entry{ID: id, Kind: events.RunStarted, Head: 1 << 40, Bytes: c.next(t, events.RunStarted,
		10)})
	if ack.Outcome != kernel.Conflict {
		t.Errorf("append at head %d of an empty run: got %s (%v), want conflict", uint64(1)<<40, ack.Outcome, ack.Err)
	}
	if _, ok, err := j.Last(within(t), id); ok || err != nil {
		t.Errorf("the run has an event now (%v, %v), want none", ok, err)
	}
}

func guardsAllKinds(t *testing.T, j kernel.Journal) {
	id := unique("run")
	c := &chain{run: id}
	mustStore(t, j, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: c.next(t, events.RunCreated, 10)})
	for _, w := range events.Registry() {
		ack := settled(t, j, kernel.Entry{ID: id, Kind: w.Kind, Head: 0, Bytes: c.next(t, w.Kind, 10)})
		if ack.Outcome != kernel.Conflict {
			t.Errorf("first %s of a run that has an event: got %s (%v), want conflict", w.Kind, ack.Outcome, ack.Err)
		}
	}
}

func refusesRepeat(t *testing.T, j kernel.Journal) {
	id := unique("run")
	c := &chain{run: id}
	e := kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: c.next(t, events.RunCreated, 10)}
	seq := mustStore(t, j, e)
	if ack := settled(t, j, e); ack.Outcome != kernel.Conflict {
		t.Errorf("the same append again: got %s (%v), want conflict", ack.Outcome, ack.Err)
	}
	got, _ := readAll(t, j, id, 0, 1)
	same(t, got, []kernel.Record{{Seq: seq, Bytes: e.Bytes}})
}

func oneWins(t *testing.T, j kernel.Journal) {
	const writers, rounds = 8, 20
	id := unique("run")
	ctx := within(t)
	var head uint64
	var want []kernel.Record
	prev := ""
	for round := range rounds {
		entries := make([]kernel.Entry, writers)
		for w := range entries {
			c := &chain{run: id, n: uint64(round), prev: prev}
			kind := kinds[w%len(kinds)]
			entries[w] = kernel.Entry{ID: id, Kind: kind, Head: head, Bytes: c.next(t, kind, 20+w)}
		}
		acks := make([]kernel.Ack, writers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for w := range entries {
			wg.Go(func() {
				<-start
				acks[w] = store(ctx, j, entries[w])
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for w, ack := range acks {
			switch {
			case ack.Outcome == kernel.Stored && winner >= 0:
				t.Fatalf("round %d: writers %d and %d both won at head %d", round, winner, w, head)
			case ack.Outcome == kernel.Stored:
				winner = w
			case ack.Outcome != kernel.Conflict:
				t.Fatalf("round %d: writer %d got %s (%v), want stored or conflict", round, w, ack.Outcome, ack.Err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: no one won at head %d", round, head)
		}
		head = acks[winner].Seq
		prev = fmt.Sprint(round)
		want = append(want, kernel.Record{Seq: head, Bytes: entries[winner].Bytes})
	}
	got, _ := readAll(t, j, id, 0, rounds)
	same(t, got, want)
}

func runsApart(t *testing.T, j kernel.Journal) {
	const runs, each = 8, 12
	ctx := within(t)
	var wg sync.WaitGroup
	ids := make([]string, runs)
	want := make([][]kernel.Record, runs)
	faults := make([]error, runs)
	for r := range runs {
		ids[r] = unique("run")
		c := &chain{run: ids[r]}
		entries := make([]kernel.Entry, each)
		for i := range entries {
			kind := kinds[i%len(kinds)]
			entries[i] = kernel.Entry{ID: ids[r], Kind: kind, Bytes: c.next(t, kind, 30)}
		}
		wg.Go(func() {
			var head uint64
			for i, e := range entries {
				e.Head = head
				ack := store(ctx, j, e)
				if ack.Outcome != kernel.Stored {
					faults[r] = fmt.Errorf("run %d, event %d: got %s (%w), want stored", r, i+1, ack.Outcome, ack.Err)
					return
				}
				head = ack.Seq
				want[r] = append(want[r], kernel.Record{Seq: head, Bytes: e.Bytes})
			}
		})
	}
	wg.Wait()
	taken := map[uint64]string{}
	for r := range runs {
		if faults[r] != nil {
			t.Fatal(faults[r])
		}
		got, _ := readAll(t, j, ids[r], 0, each)
		same(t, got, want[r])
		for _, f := range got {
			if taken[f.Seq] != "" {
				t.Errorf("position %d belongs to runs %s and %s", f.Seq, taken[f.Seq], ids[r])
			}
			taken[f.Seq] = ids[r]
		}
	}
}

func readsInPages(t *testing.T, j kernel.Journal) {
	const n = 1100
	id := unique("run")
	want := fill(t, j, id, n)
	got, pages := readAll(t, j, id, 0, n)
	same(t, got, want)
	if pages < 2 {
		t.Errorf("%d events came in %d page: a page has at most a few hundred", n, pages)
	}
}

func readsAfter(t *testing.T, j kernel.Journal) {
	id, other := unique("run"), unique("run")
	want := fill(t, j, id, 4)
	between := fill(t, j, other, 3)
	c := &chain{run: id, n: 4}
	b := c.next(t, events.RunPaused, 10)
	want = append(want, kernel.Record{Seq: mustStore(t, j, kernel.Entry{ID: id, Kind: events.RunPaused, Head: want[3].Seq,
		Bytes: b}), Bytes: b})
	for i, r := range want {
		got, _ := readAll(t, j, id, r.Seq, len(want)-i-1)
		same(t, got, want[i+1:])
		got, _ = readAll(t, j, id, r.Seq-1, len(want)-i)
		same(t, got, want[i:])
	}
	// A position that belongs to another run is a position all the same.
	got, _ := readAll(t, j, id, between[1].Seq, 1)
	same(t, got, want[4:])
	if got, more, err := j.Read(within(t), id, 1<<40); err != nil || more || len(got) != 0 {
		t.Errorf("read after a position that is not there yet: got %d events, more %v, %v; want none", len(got), more, err)
	}
}

func lastIsFresh(t *testing.T, j kernel.Journal) {
	id := unique("run")
	c := &chain{run: id}
	var head uint64
	for i := range 50 {
		kind := kinds[i%len(kinds)]
		b := c.next(t, kind, 30)
		head = mustStore(t, j, kernel.Entry{ID: id, Kind: kind, Head: head, Bytes: b})
		last, ok, err := j.Last(within(t), id)
		if err != nil || !ok {
			t.Fatalf("last of run %s after event %d: got ok %v, %v", id, i+1, ok, err)
		}
		same(t, []kernel.Record{last}, []kernel.Record{{Seq: head, Bytes: b}})
	}
}

func unknownRun(t *testing.T, j kernel.Journal) {
	id := unique("run")
	evs, more, err := j.Read(within(t), id, 0)
	if err != nil || more || len(evs) != 0 {
		t.Errorf("read: got %d events, more %v, %v; want none and no error", len(evs), more, err)
	}
	if _, ok, err := j.Last(within(t), id); ok || err != nil {
		t.Errorf("last: got ok %v, %v; want false and no error", ok, err)
	}
}

// sized returns an event of exactly size bytes.
func sized(t *testing.T, id string, size int) []byte {
	t.Helper()
	small := (&chain{run: id}).next(t, events.RunCreated, 0)
	pad := size - len(small)
	b := (&chain{run: id}).next(t, events.RunCreated, pad)
	// The time in the envelope varies by a few digits; each correction is on top of the one before.
	for d := size - len(b); d != 0; d = size - len(b) {
		pad += d
		b = (&chain{run: id}).next(t, events.RunCreated, pad)
	}
	return b
}

func largeEvent(t *testing.T, j kernel.Journal) {
	for _, size := range []int{events.MaxEvent - 1, events.MaxEvent} {
		id := unique("run")
		b := sized(t, id, size)
		seq := mustStore(t, j, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: b})
		got, _ := readAll(t, j, id, 0, 1)
		same(t, got, []kernel.Record{{Seq: seq, Bytes: b}})
		last, _, err := j.Last(within(t), id)
		if err != nil {
			t.Fatalf("last: %v", err)
		}
		same(t, []kernel.Record{last}, got)
	}
}

// tooLarge uses four times the limit: a server counts headers too and may be a little more generous than we are.
func tooLarge(t *testing.T, j kernel.Journal) {
	id := unique("run")
	ack := settled(t, j, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: sized(t, id, 4*events.MaxEvent)})
	if ack.Outcome != kernel.TooLarge {
		t.Errorf("got %s (%v), want too large", ack.Outcome, ack.Err)
	}
	if _, ok, err := j.Last(within(t), id); ok || err != nil {
		t.Errorf("the run has an event now (%v, %v), want none", ok, err)
	}
}

func endedContext(t *testing.T, j kernel.Journal) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id := unique("run")
	b := (&chain{run: id}).next(t, events.RunCreated, 10)
	ack := j.Append(ctx, kernel.Entry{ID: id, Kind: events.RunCreated, Bytes: b})
	if ack.Outcome == kernel.Unknown && ack.Err == nil {
		t.Error("an append with an ended context gave unknown without a reason")
	}
	if ack.Outcome != kernel.Unknown && ack.Outcome != kernel.Stored {
		t.Errorf("append: got %s (%v), want unknown (or stored, if it was quick)", ack.Outcome, ack.Err)
	}
	if _, _, err := j.Read(ctx, id, 0); err == nil {
		t.Error("read with an ended context: got no error")
	}
	if _, _, err := j.Last(ctx, id); err == nil {
		t.Error("last with an ended context: got no error")
	}
}

func manyRuns(t *testing.T, j kernel.Journal) {
	const runs = 300
	ctx := within(t)
	ids := make([]string, runs)
	entries := make([]kernel.Entry, runs)
	for r := range ids {
		ids[r] = unique("run")
		entries[r] = kernel.Entry{ID: ids[r], Kind: events.RunCreated, Bytes: (&chain{run: ids[r]}).next(t, events.RunCreated,
			50)}
	}
	acks := make([]kernel.Ack, runs)
	work := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for r := range work {
				acks[r] = store(ctx, j, entries[r])
			}
		})
	}
	for r := range ids {
		work <- r
	}
	close(work)
	wg.Wait()
	for r := range ids {
		if acks[r].Outcome != kernel.Stored {
			t.Fatalf("run %d: got %s (%v), want stored", r, acks[r].Outcome, acks[r].Err)
		}
		got, _ := readAll(t, j, ids[r], 0, 1)
		same(t, got, []kernel.Record{{Seq: acks[r].Seq, Bytes: entries[r].Bytes}})
	}
}
