package logfeed

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// mostOpenBytes bounds what a role has not acknowledged beside Config.MostOpen: behind either it takes no more
	// until it has acknowledged some.
	mostOpenBytes = 16 << 20
	// readAgain is the wait after a read of the log failed, roomAgain that for room, or for an event that is not there
	// yet.
	readAgain = 250 * time.Millisecond
	roomAgain = 5 * time.Millisecond
)

// reader takes the events of one role in the order of the log.
type reader struct {
	feed *Feed
	role events.Service
	// wake has one place: something may be behind next.
	wake chan struct{}

	mu sync.Mutex
	// All below is guarded by mu. next is the position to be taken next, seen the last that is known to be in the log.
	next, seen uint64
	// open are the events that were taken, oldest first, from the first that is not acknowledged; unacked counts those,
	// and bytes is what they have.
	open           []*delivered
	unacked, bytes int
	// stored is the position of the consumer.
	stored uint64
}

// delivered is an event in the hands of a role.
type delivered struct {
	seq   uint64
	bytes int
	acked bool
}

// receive takes an event that was republished, if it is the next one. wanted says that the role receives events of its
// kind.
func (r *reader) receive(e jet.Logged, wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = max(r.seen, e.Seq)
	switch {
	case e.Seq < r.next: // it was read before it came
	case e.Seq > r.next || r.full():
		r.rouse()
	default:
		r.take(e, wanted)
	}
}

// take delivers an event and goes on behind it. mu is held.
func (r *reader) take(e jet.Logged, wanted bool) {
	r.next = e.Seq + 1
	r.seen = max(r.seen, e.Seq)
	if !wanted {
		return
	}
	d := &delivered{seq: e.Seq, bytes: len(e.Data)}
	r.open = append(r.open, d)
	r.unacked++
	r.bytes += d.bytes
	p := queue.Parcel{Subject: e.Subject, Data: e.Data, Seq: e.Seq, Time: e.Time, Acked: func() { r.ack(d) }}
	if e.Whole != "" {
		p.Header = map[string]string{kernel.WholeHeader: e.Whole}
	}
	r.feed.queues.Push(r.role, p)
}

// ack notes that an event is acknowledged.
func (r *reader) ack(d *delivered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.acked = true
	r.unacked--
	r.bytes -= d.bytes
	done := 0
	for done < len(r.open) && r.open[done].acked {
		r.open[done] = nil
		done++
	}
	r.open = r.open[done:]
}

// full reports whether the role has enough to do. mu is held.
func (r *reader) full() bool { return r.unacked >= r.feed.cfg.MostOpen || r.bytes >= mostOpenBytes }

// rouse has run look. It never waits.
func (r *reader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// behind says that the log reaches to a position.
func (r *reader) behind(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen = max(r.seen, seq); r.next <= r.seen {
		r.rouse()
	}
}

// position is the last one that was taken.
func (r *reader) position() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1
}

// run reads what the role has not acknowledged yet, and then what was not taken as it was republished, until ctx ends.
func (r *reader) run(ctx context.Context) {
	for unread := true; ctx.Err() == nil; {
		if !unread && !r.misses() {
			select {
			case <-r.wake:
			case <-ctx.Done():
			}
			continue
		}
		wait := r.catchUp(ctx)
		if wait == 0 {
			unread = false
		} else if kernel.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// misses reports whether the log has something that was not taken.
func (r *reader) misses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next <= r.seen
}

// catchUp reads one page of the log. It returns how long to wait before the next one.
func (r *reader) catchUp(ctx context.Context) (wait time.Duration) {
	r.mu.Lock()
	full, after := r.full(), r.next-1
	r.mu.Unlock()
	if full {
		return roomAgain
	}
	evs, more, err := r.feed.cfg.Log.ReadLog(ctx, after)
	if err != nil {
		if ctx.Err() == nil {
			r.feed.failed(r.role, err)
		}
		return readAgain
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range evs {
		if e.Seq >= r.next {
			r.take(e, r.receives(e))
		}
	}
	if more {
		r.seen = max(r.seen, r.next) // another page follows
	}
	if len(evs) == 0 && r.next <= r.seen {
		return roomAgain // the reader is behind what it republished
	}
	return 0
}

// receives reports whether the role receives an event.
func (r *reader) receives(e jet.Logged) bool {
	sub, ok := events.ParseAggregateSubject(e.Subject)
	return ok && len(sub.Rest) == 3 && sub.Rest[0] == "evt" &&
		slices.Contains(topology.Receivers(sub.Aggregate, events.Kind(strings.Join(sub.Rest[1:], "."))), r.role)
}

// store sets the consumer to the position up to which everything is acknowledged.
func (r *reader) store(ctx context.Context) error {
	r.mu.Lock()
	at := r.next - 1
	if len(r.open) > 0 {
		at = r.open[0].seq - 1
	}
	stored := r.stored
	r.mu.Unlock()
	if at == stored {
		return nil
	}
	if err := r.feed.cfg.Positions.SetPosition(ctx, r.feed.cfg.Station, r.role, at); err != nil {
		return err
	}
	r.mu.Lock()
	r.stored = at
	r.mu.Unlock()
	return nil
}
