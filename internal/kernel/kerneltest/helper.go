package kerneltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// patience is how long an exam waits for what must happen. A sound port needs a small part of it.
const patience = 30 * time.Second

// within returns a context that ends with the patience.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// unique returns an id that no one else uses.
func unique(what string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return what + "-" + hex.EncodeToString(b[:])
}

// await receives one value or fails the test with what was waited for.
func await[T any](t *testing.T, c <-chan T, format string, args ...any) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %s in vain for %s", patience, fmt.Sprintf(format, args...))
	}
	panic("not reached")
}

// eventually asks again and again until the answer is yes.
func eventually(t *testing.T, limit time.Duration, ask func() bool, format string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		if ask() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after %s still not: %s", limit, fmt.Sprintf(format, args...))
		}
	}
}

// kinds are said in turn, so that events of one run stand on several subjects and an append that guards only its own
// subject is found out.
var kinds = []events.Kind{events.RunStarted, events.TurnFinished, events.CallStarted, events.StepAllowed,
	events.CallFinished}

// chain makes the events of one run, chained by hash as the ledger does it.
type chain struct {
	run  string
	n    uint64
	prev string
}

// next returns the bytes of the next event, with a body of about size bytes.
func (c *chain) next(t *testing.T, kind events.Kind, size int) []byte {
	t.Helper()
	word, _ := events.Lookup(kind)
	f := events.Event{SpecVersion: "1.0", ID: unique("id"), Source: events.Source("exam", word.Author), Type: kind.Type(),
		Subject: c.run, Time: time.Now().UTC(), ContentType: "application/json", Sequence: c.n + 1, PrevHash: c.prev,
		Identity: events.Identity{Station: "exam", Run: c.run},
		Data:     fmt.Appendf(nil, `{"event":%q,"pad":%q}`, word.Event, strings.Repeat("x", size))}
	b, err := f.Encode()
	if err != nil {
		t.Fatalf("encode an event: %v", err)
	}
	c.n, c.prev = c.n+1, run.HashOf(b)
	return b
}

// fill appends n events to a run and returns them as they must be read.
func fill(t *testing.T, j kernel.Journal, runID string, n int) []kernel.Record {
	t.Helper()
	c := &chain{run: runID}
	var evs []kernel.Record
	var head uint64
	for i := range n {
		kind := kinds[i%len(kinds)]
		b := c.next(t, kind, 40)
		seq := mustStore(t, j, kernel.Entry{ID: runID, Kind: kind, Head: head, Bytes: b})
		evs = append(evs, kernel.Record{Seq: seq, Kind: kind, Bytes: b})
		head = seq
	}
	return evs
}

// mustStore appends an entry that fits and returns its position. It treats transient and unknown outcomes as the
// ledger does: the same append again, after asking the leader.
func mustStore(t *testing.T, j kernel.Journal, e kernel.Entry) uint64 {
	t.Helper()
	ack := store(within(t), j, e)
	if ack.Outcome != kernel.Stored {
		t.Fatalf("append %s to run %s after %d: got %s (%v), want stored", e.Kind, e.ID, e.Head, ack.Outcome, ack.Err)
	}
	if ack.Seq <= e.Head {
		t.Fatalf("append %s to run %s: stored at %d, want a position above its head %d", e.Kind, e.ID, ack.Seq, e.Head)
	}
	return ack.Seq
}

// store appends and settles. It is safe to call from any goroutine.
func store(ctx context.Context, j kernel.Journal, e kernel.Entry) kernel.Ack {
	var ack kernel.Ack
	for range 500 {
		ack = j.Append(ctx, e)
		if ack.Outcome == kernel.Unknown || ack.Outcome == kernel.Conflict {
			last, ok, err := j.Last(ctx, e.ID)
			if err == nil && ok && string(last.Bytes) == string(e.Bytes) {
				return kernel.Ack{Outcome: kernel.Stored, Seq: last.Seq}
			}
			if err == nil && ok && last.Seq > e.Head {
				return kernel.Ack{Outcome: kernel.Conflict, Seq: last.Seq}
			}
		} else if ack.Outcome != kernel.Transient {
			return ack
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ack
		}
	}
	return ack
}

// readAll pages through a run after a position. It waits until the reader shows n events: reads may be stale.
func readAll(t *testing.T, j kernel.Journal, runID string, after uint64, n int) (evs []kernel.Record, pages int) {
	t.Helper()
	ctx := within(t)
	eventually(t, patience, func() bool {
		evs, pages = nil, 0
		head := after
		for {
			page, more, err := j.Read(ctx, runID, head)
			if err != nil {
				t.Fatalf("read run %s after %d: %v", runID, head, err)
			}
			if more && len(page) == 0 {
				t.Fatalf("read run %s after %d: an empty page says that there is more, a reader would turn for ever", runID, head)
			}
			evs, pages = append(evs, page...), pages+1
			if !more {
				return len(evs) >= n
			}
			head = page[len(page)-1].Seq
		}
	}, "run %s shows %d events after position %d", runID, n, after)
	return evs, pages
}

// same compares events as read with those stored.
func same(t *testing.T, got, want []kernel.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Seq != want[i].Seq {
			t.Fatalf("event %d: got position %d, want %d", i+1, got[i].Seq, want[i].Seq)
		}
		if want[i].Kind != "" && got[i].Kind != want[i].Kind {
			t.Fatalf("event %d: read as %q, want the kind it was stored as, %q", i+1, got[i].Kind, want[i].Kind)
		}
		if string(got[i].Bytes) != string(want[i].Bytes) {
			t.Fatalf("event %d at position %d: the bytes read are not the bytes stored", i+1, want[i].Seq)
		}
	}
}
