package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
)

// Position is how far the events of each type were read.
type Position map[events.Kind]uint64

// Passing is an event of any run of the station.
type Passing struct {
	Run     string
	Event   events.Event
	Payload events.Payload
	// Next is where to go on behind this event. It is the caller's own.
	Next Position
}

// Now is the position of the log's end: who follows from there gets what comes.
func (rs Runs) Now(ctx context.Context, kinds ...events.Kind) (Position, error) {
	log, err := rs.c.st.Log(ctx)
	if err != nil {
		return nil, err
	}
	p := Position{}
	for _, k := range kinds {
		p[k] = log.Last
	}
	return p, nil
}

// Follow yields the events of some types of all runs behind a position, each once and those of a type in order, and
// goes on with those that come, until the loop is left or ctx ends. A position behind the log's end, of a station that
// was restored, counts as its end. What cannot be read for a while, for example because the connection is lost, is read
// later; only a refusal of the server ends it with an error.
//
// Like Client.Watch it takes what is published again as a hint, and yields what the log says.
func (rs Runs) Follow(ctx context.Context, from Position) iter.Seq2[Passing, error] {
	return func(yield func(Passing, error) bool) {
		f := &follower{c: rs.c, at: maps.Clone(from), kinds: slices.Sorted(maps.Keys(from)), yield: yield}
		if err := f.follow(ctx); err != nil && !f.left {
			yield(Passing{}, err)
		}
	}
}

type follower struct {
	c     *Client
	at    Position
	kinds []events.Kind
	yield func(Passing, error) bool
	left  bool
}

func (f *follower) follow(ctx context.Context) error {
	news := make(chan events.Kind, backlog) // what does not fit is found when all is read
	stop, err := f.c.st.Watch(ctx, "*", false, func(s jet.Seen) {
		if !slices.Contains(f.kinds, s.Kind) {
			return
		}
		select {
		case news <- s.Kind:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	end, err := f.c.Runs().Now(ctx, f.kinds...)
	if err != nil {
		return err
	}
	for k, last := range end {
		f.at[k] = min(f.at[k], last)
	}
	due, quiet := f.kinds, quietFirst
	for {
		some, err := f.readAll(ctx, due)
		if err != nil || f.left {
			return err
		}
		if some {
			quiet = quietFirst
		}
		select {
		case k := <-news: // a replica may not have yet what was published: all is read again soon
			due, quiet = []events.Kind{k}, quietFirst
		case <-time.After(quiet):
			due, quiet = f.kinds, min(2*quiet, quietMost)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readAll yields what the log has of some types, and reports whether there was anything. What cannot be read is left
// for later.
func (f *follower) readAll(ctx context.Context, kinds []events.Kind) (some bool, err error) {
	before := maps.Clone(f.at)
	for _, k := range kinds {
		err := f.read(ctx, k)
		switch {
		case f.left:
			return false, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, ErrDenied):
			return false, err
		}
	}
	return !maps.Equal(before, f.at), nil
}

// read yields what the log has of a type.
func (f *follower) read(ctx context.Context, k events.Kind) error {
	for {
		page, more, err := f.c.st.ReadKind(ctx, k, f.at[k])
		if err != nil {
			return err
		}
		for _, e := range page {
			f.at[k] = e.Seq
			p, ok := passing(k, e)
			if !ok {
				continue // damage is for inspan audit
			}
			p.Next = maps.Clone(f.at)
			if f.left = !f.yield(p, nil); f.left {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}

// passing decodes an event; ok is false for one that this program does not understand.
func passing(k events.Kind, e jet.Logged) (p Passing, ok bool) {
	subject, ok := events.ParseRunSubject(e.Subject)
	if !ok {
		return p, false
	}
	f, d, err := runlog.Read(subject.Run, kernel.Record{Seq: e.Seq, Kind: k, Bytes: e.Data})
	return Passing{Run: subject.Run, Event: f, Payload: d}, err == nil
}
