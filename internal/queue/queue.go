// Package queue hands the messages of a station to its roles from memory, as the durable consumers of a server do.
//
// Promises: a message is delivered in order, and again after a refusal or when AckWait passes without a sign of life,
// until it is acknowledged. What comes late, after another delivery, counts for the message all the same. Nothing is
// stored: whoever pushes a message knows whether it must outlive the process.
package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Config of queues. The functions are called with Lock held.
type Config struct {
	// Lock guards the queues. Nil is a lock of their own.
	Lock *sync.Mutex
	// AckWait is 0 for topology.AckWait.
	AckWait time.Duration
	// Grace is how long handlers may go on after their listener was told to stop; with 0 they are told at once, as if the
	// process died.
	Grace time.Duration
	// AfterFunc is nil for time.AfterFunc.
	AfterFunc func(d time.Duration, f func()) (stop func())
	// Fault, if not nil, is asked whenever a message gets ready to be delivered, the first time and again.
	Fault func(role events.Service, subject string) Delivery
	// AckLost, if not nil, says that an acknowledgement is lost: no one notices, and the message comes again after the
	// ack wait.
	AckLost func(role events.Service, subject string) bool
}

// Delivery is what goes wrong with one delivery. The zero value is none: it comes at once, after those before it.
type Delivery struct {
	// Late is how long it does not come: another overtakes it. The same delay for all is a consumer that stalls.
	Late time.Duration
	// Lost counts as a delivery, and no one receives it: it comes again after the ack wait.
	Lost bool
	// Again is how soon it comes again although somebody handles it, in place of the ack wait, unless there is a sign
	// of life before: a new leader of the consumer does not know since when it is out.
	Again time.Duration
}

// Queues are those of the roles of a station. They are safe for concurrent use.
type Queues struct {
	cfg Config
	mu  *sync.Mutex
	// roles never changes; what is in the queues is guarded by mu.
	roles map[events.Service]*queue
}

var _ kernel.Inbox = (*Queues)(nil)

// New makes empty queues for all roles.
func New(cfg Config) *Queues {
	if cfg.Lock == nil {
		cfg.Lock = &sync.Mutex{}
	}
	if cfg.AckWait <= 0 {
		cfg.AckWait = topology.AckWait
	}
	if cfg.AfterFunc == nil {
		cfg.AfterFunc = func(d time.Duration, f func()) func() {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	qs := &Queues{cfg: cfg, mu: cfg.Lock, roles: map[events.Service]*queue{}}
	for _, h := range topology.AllSubscriptions() {
		qs.roles[h.Role] = &queue{role: h.Role, wake: make(chan struct{})}
	}
	return qs
}

// queue holds the messages of one role: they wait in ready, are out while somebody handles them, wait for a delay, and
// are gone once acknowledged. Guarded by Queues.mu.
type queue struct {
	role  events.Service
	ready []*Message
	// pending counts the messages that are not gone.
	pending int
	// wake is closed, and replaced, when a message gets ready.
	wake chan struct{}
}

// Push puts a message behind all others of a role.
func (qs *Queues) Push(role events.Service, p Parcel) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.Add(role, p)
}

// Add is Push for callers that hold the lock.
func (qs *Queues) Add(role events.Service, p Parcel) *Message {
	m := &Message{parcel: p, qs: qs, q: qs.roles[role]}
	m.q.pending++
	m.push()
	return m
}

// Pending counts what a role has not acknowledged yet: ready, handled at the moment, or delayed.
func (qs *Queues) Pending(role events.Service) int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return qs.roles[role].pending
}

// Listen implements kernel.Inbox. Handlers get a context that ends Config.Grace after ctx.
func (qs *Queues) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	q := qs.roles[role]
	if q == nil {
		return fmt.Errorf("listen: %q is not a role", role)
	}
	if workers <= 0 {
		return fmt.Errorf("listen as %s: %d workers, want at least 1", role, workers)
	}
	work, cancel := qs.graced(ctx)
	defer cancel()
	var handlers sync.WaitGroup
	defer handlers.Wait()
	free := make(chan struct{}, workers) // one place per worker
	next := make(chan delivery)          // to workers that were started, whose stacks have grown
	defer close(next)
	for started := 0; ; {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		d, ok := qs.take(ctx, q)
		if !ok {
			return nil
		}
		if started == workers {
			next <- d // one of them has just given its place back
			continue
		}
		select {
		case next <- d:
		default:
			started++
			handlers.Go(func() {
				for more := true; more; d, more = <-next {
					receive(work, d)
					<-free
				}
			})
		}
	}
}

// graced returns the context of handlers.
func (qs *Queues) graced(ctx context.Context) (work context.Context, cancel func()) {
	if qs.cfg.Grace <= 0 {
		return ctx, func() {}
	}
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() {
		qs.cfg.AfterFunc(qs.cfg.Grace, func() { end(context.Cause(ctx)) })
	})
	return work, func() { release(); end(nil) }
}

// take waits for the next message of a queue and counts it as delivered; ok is false once ctx has ended.
func (qs *Queues) take(ctx context.Context, q *queue) (d delivery, ok bool) {
	for {
		qs.mu.Lock()
		if ctx.Err() != nil {
			qs.mu.Unlock()
			return delivery{}, false
		}
		for len(q.ready) > 0 {
			if m := q.ready[0]; m.parcel.Removed != nil && m.parcel.Removed() {
				m.End()
				continue
			}
			d = q.next()
			qs.mu.Unlock()
			return d, true
		}
		wake := q.wake
		qs.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// next takes the oldest ready message out. Called with mu held.
func (q *queue) next() delivery {
	m := q.ready[0]
	m.deliveries++
	wait := m.qs.cfg.AckWait
	if m.again > 0 {
		wait = m.again
	}
	m.after(out, wait, m.push)
	return delivery{m: m, n: m.deliveries}
}

// Ready lists what is ready for a role, oldest first. Called with the lock held.
func (qs *Queues) Ready(role events.Service) []*Message { return slices.Clone(qs.roles[role].ready) }

// Take delivers the ready message at an index of Ready, as Listen would do with the first; ok is false where there is
// none. Called with the lock held.
func (qs *Queues) Take(role events.Service, i int) (m kernel.Message, ok bool) {
	q := qs.roles[role]
	if i < 0 || i >= len(q.ready) {
		return nil, false
	}
	first := q.ready[i]
	q.ready = slices.Insert(slices.Delete(q.ready, i, i+1), 0, first)
	return q.next(), true
}
