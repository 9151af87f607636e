package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"time"

	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Harnesses are the harnesses of the station: programs written with pkg/harness whose steps it records.
type Harnesses struct{ c *Client }

// NewHarnesses returns the harnesses of the station of a client.
func NewHarnesses(c *Client) Harnesses { return Harnesses{c} }

// List lists the harnesses of the station by id.
func (hs Harnesses) List(ctx context.Context) ([]events.Harness, error) {
	all, err := rows[events.Harness](ctx, hs.c, topology.SessionBucket, harness.View().Prefix)
	if err != nil {
		return nil, fmt.Errorf("list harnesses: %w", err)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all, nil
}

// HarnessEvent is one event of a harness.
type HarnessEvent struct {
	// Sequence counts the events of the harness from 1, Position is where it is in the station's log.
	Sequence, Position uint64
	Time               time.Time
	Payload            events.Payload
	// State is what the station knows of the harness after it, Bytes what is stored.
	State events.Harness
	Bytes []byte
}

// Events yields what is recorded of a harness, the oldest first. There is nothing of a harness that does not exist.
func (hs Harnesses) Events(ctx context.Context, id string) iter.Seq2[HarnessEvent, error] {
	return func(yield func(HarnessEvent, error) bool) {
		if err := events.CheckID("harness", id); err != nil {
			yield(HarnessEvent{}, err)
			return
		}
		log, all := hs.c.st.JournalFor(events.HarnessAggregate), harness.Aggregate()
		var s harness.State
		for after, more := uint64(0), true; more; {
			batch, next, err := log.Read(ctx, id, after)
			if err != nil {
				yield(HarnessEvent{}, fmt.Errorf("read harness %s: %w", id, err))
				return
			}
			for _, r := range batch {
				f, p, err := all.Read(id, r)
				if err == nil && (f.Sequence != s.Sequence+1 || f.PrevHash != s.Hash) {
					err = fmt.Errorf("harness %s: event %d does not follow the one before: its log was changed", id, f.Sequence)
				}
				if err == nil {
					s, err = all.Apply(s, f, p, events.HashOf(r.Bytes))
				}
				if err != nil {
					yield(HarnessEvent{}, err)
					return
				}
				if !yield(HarnessEvent{f.Sequence, r.Seq, f.Time, p, s.Harness, r.Bytes}, nil) {
					return
				}
				after = r.Seq
			}
			more = next
		}
	}
}

// Record asks the station to record something of a harness, and returns once it is recorded. The same control again
// changes nothing. It returns a *RefusedError for what does not follow what is recorded, harness_replaced where another
// program attached meanwhile and harness_busy where another one has the harness. after is the position of the last
// event of the harness that the caller has read; Record returns that of the event that records it.
func (hs Harnesses) Record(ctx context.Context, id string, ctl events.HarnessControl,
	after uint64) (position uint64, err error) {
	if err := events.CheckID("harness", id); err != nil {
		return after, err
	}
	if err := harness.Check(ctl); err != nil {
		return after, &RefusedError{Code: "bad_input", Reason: err.Error(),
			Hint: "docs/harness-sdk.md says what a harness may record"}
	}
	news := make(chan struct{}, 1) // one is enough: whoever is woken reads all there is
	unwatch, err := hs.c.st.WatchSubject(events.AggregateStream(hs.c.st.Name(), events.HarnessAggregate, id),
		func(string, []byte) {
			select {
			case news <- struct{}{}:
			default:
			}
		})
	if errors.Is(err, ErrDenied) {
		unwatch, err = func() {}, nil // it is looked at now and then
	}
	if err != nil {
		return after, err
	}
	defer unwatch()
	_, letters, err := publisher{hs.c}.send(ctx, events.HarnessSubject(hs.c.st.Name(), id), ctl)
	if err != nil {
		return after, err
	}
	defer letters.stop()
	log := hs.c.st.JournalFor(events.HarnessAggregate)
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		done, err := recorded(ctx, log, id, &after, ctl)
		if done || err != nil {
			return after, err
		}
		select {
		case <-news:
			wait = firstLook
		case d := <-letters.come:
			return after, refused(d)
		case <-time.After(wait):
			if d, ok := letters.look(ctx); ok {
				return after, refused(d)
			}
		case <-ctx.Done():
			return after, fmt.Errorf("harness %s: stored, but station %s has not answered yet: it will when its services run, inspan doctor says which do: %w", id, hs.c.st.Name(), context.Cause(ctx))
		}
	}
}

// recorded reports whether the log beyond a position, which it moves, has what a control asked for.
func recorded(ctx context.Context, log kernel.Journal, id string, after *uint64,
	c events.HarnessControl) (bool, error) {
	batch, _, err := log.Read(ctx, id, *after)
	if err != nil {
		return false, fmt.Errorf("read harness %s: %w", id, err)
	}
	for _, r := range batch {
		_, p, err := events.ReadAs(r.Bytes, events.HarnessAggregate, events.LookupHarness)
		if err != nil {
			return false, fmt.Errorf("harness %s: %w", id, err)
		}
		if *after = r.Seq; harness.Records(p, c) {
			return true, nil
		}
	}
	return false, nil
}
