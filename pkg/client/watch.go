package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Item is an event of a run, with its stored bytes and the state after it.
type Item struct {
	Event   events.Event
	Payload events.Payload
	// Bytes must not be written to.
	Bytes []byte
	State run.State
}

// Watch yields the events of a run from a sequence on (0 and 1 are the first), then those that come, until the run has
// ended, the loop is left or ctx ends. A run that does not exist yet is waited for. An error is the last thing it
// yields; where ctx ended it is the cause.
//
// The subscription stands before the log is read, each event names its place and the hash of the one before, and what
// did not come by itself is read from the log: nothing is missed and nothing comes twice.
func (c *Client) Watch(ctx context.Context, runID string, from uint64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := &watcher{c: c, run: runID, from: from, yield: yield}
		if err := w.follow(ctx); err != nil {
			yield(Item{}, err)
		}
	}
}

// Events yields the events that a run has now, from a sequence on. There are none of a run that does not exist.
func (c *Client) Events(ctx context.Context, runID string, from uint64) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w := &watcher{c: c, run: runID, from: from, yield: yield}
		err := checkRun(runID)
		if err == nil {
			_, err = w.read(ctx)
		}
		if err != nil {
			yield(Item{}, err)
		}
	}
}

// Limits of a watch.
const (
	// backlog is how many events may wait for a slow loop; those behind it are read from the log.
	backlog = 256
	// The log is asked although nothing came: first after quietFirst, then ever later up to quietMost.
	quietFirst = time.Second
	quietMost  = 15 * time.Second
	// awayMost is how long a station may be away that was there: one that starts again reads its streams first.
	awayMost = 2 * time.Minute
)

// watcher folds a run as it is said.
type watcher struct {
	c     *Client
	run   string
	from  uint64
	yield func(Item, error) bool
	state run.State
	// head is the position of the last event in the log; left is true once the loop was left.
	head uint64
	left bool
}

func (w *watcher) done() bool { return w.left || w.state.Status.Ended() }

func (w *watcher) follow(ctx context.Context) error {
	if err := checkRun(w.run); err != nil {
		return err
	}
	news := make(chan jet.Seen, backlog) // what does not fit is read from the log
	stop, err := w.c.st.Watch(ctx, w.run, false, func(s jet.Seen) {
		select {
		case news <- s:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	if _, err := w.read(ctx); err != nil || w.done() {
		return err
	}
	quiet := quietFirst
	var away time.Time // since when no one answers; zero where someone does
	for {
		select {
		case seen := <-news:
			quiet = quietFirst
			err = w.take(ctx, seen)
		case <-time.After(quiet):
			var some bool
			if some, err = w.read(ctx); !some {
				quiet = min(2*quiet, quietMost)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case err == nil:
			away = time.Time{}
		case !errors.Is(err, jet.ErrUnanswered):
			return err
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > awayMost:
			return err
		}
		if err != nil {
			quiet = quietFirst
		}
		if w.done() {
			return nil
		}
	}
}

// take says the event that came, if it is the next one; behind a gap the log is read.
func (w *watcher) take(ctx context.Context, seen jet.Seen) error {
	if seen.Seq <= w.head {
		return nil // said already
	}
	if item, err := w.next(kernel.Record{Seq: seen.Seq, Kind: seen.Kind, Bytes: seen.Data}); err == nil {
		w.say(item, seen.Seq)
		return nil
	}
	// A gap, or not what the log says: only the log decides.
	_, err := w.read(ctx)
	return err
}

// read says what the log has beyond the head, and reports whether there was anything.
func (w *watcher) read(ctx context.Context) (some bool, err error) {
	for {
		evs, more, err := w.c.st.Journal().Read(ctx, w.run, w.head)
		if err != nil {
			return some, fmt.Errorf("read run %s: %w", w.run, err)
		}
		for _, r := range evs {
			item, err := w.next(r)
			if err != nil {
				return some, err
			}
			some = true
			if w.say(item, r.Seq); w.left {
				return some, nil
			}
		}
		if !more {
			return some, nil
		}
	}
}

// next folds one more event, and changes nothing where it does not fit.
func (w *watcher) next(r kernel.Record) (Item, error) {
	f, p, err := runlog.Read(w.run, r)
	if err != nil {
		return Item{}, err
	}
	after, err := w.state.ApplyEvent(f, p, run.HashOf(r.Bytes))
	return Item{Event: f, Payload: p, Bytes: r.Bytes, State: after}, err
}

func (w *watcher) say(item Item, seq uint64) {
	w.state, w.head = item.State, seq
	if item.Event.Sequence >= w.from {
		w.left = !w.yield(item, nil)
	}
}

// Live has hear called with what is not kept, as JSON: tokens and thinking of the model, output of tools. It may miss
// some; the events have it all in the end. stop waits until hear has returned.
func (c *Client) Live(ctx context.Context, runID string, receive func(data []byte)) (stop func(), err error) {
	if err := checkRun(runID); err != nil {
		return nil, err
	}
	return c.st.Watch(ctx, runID, true, func(s jet.Seen) {
		if s.Live {
			receive(s.Data)
		}
	})
}

// State folds a run from its log, without disturbing it; it returns ErrNotFound for a run that does not exist
// (LIFE-9, LIFE-15).
func (c *Client) State(ctx context.Context, runID string) (run.State, error) {
	s, err := c.state(ctx, runID)
	if err == nil && s.Sequence == 0 {
		err = notFound("run", runID)
	}
	return s, err
}

func (c *Client) state(ctx context.Context, runID string) (run.State, error) {
	var s run.State
	for item, err := range c.Events(ctx, runID, 0) {
		if err != nil {
			return run.State{}, err
		}
		s = item.State
	}
	return s, nil
}
