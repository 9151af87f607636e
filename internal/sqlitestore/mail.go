package sqlitestore

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

// Mail holds what the roles of a station have to hear, in memory. It is safe for concurrent use.
type Mail struct {
	ackWait time.Duration
	mu      sync.Mutex
	// queues by role never change; what is in them is guarded by mu.
	queues map[events.Service]*queue
}

var _ kernel.Inbox = (*Mail)(nil)

// NewMail makes empty queues. ackWait is 0 for topology.AckWait.
func NewMail(ackWait time.Duration) *Mail {
	if ackWait <= 0 {
		ackWait = topology.AckWait
	}
	m := &Mail{ackWait: ackWait, queues: map[events.Service]*queue{}}
	for _, h := range topology.AllSubscriptions() {
		m.queues[h.Role] = newQueue(h)
	}
	return m
}

// Parcel is something for one role to hear.
type Parcel struct {
	Subject string
	// Data must not be written to.
	Data   []byte
	Header map[string]string
	Seq    uint64
	Time   time.Time
	// Acked, if not nil, is called once, when somebody has acknowledged it.
	Acked func()
}

// Push puts a parcel behind all others of a role.
func (mail *Mail) Push(role events.Service, p Parcel) {
	mail.mu.Lock()
	defer mail.mu.Unlock()
	q := mail.queues[role]
	q.push(&message{mail: mail, q: q, Parcel: p})
}

// queue holds what one role has to hear: messages wait in ready, are out while somebody handles them, and are gone
// once acknowledged. Guarded by Mail.mu.
type queue struct {
	receives topology.Subscriptions
	ready    []*message
	out      int
	// waiting counts messages that will be ready after a delay.
	waiting int
	// wake is closed, and replaced, when a message gets ready.
	wake chan struct{}
}

func newQueue(h topology.Subscriptions) *queue { return &queue{receives: h, wake: make(chan struct{})} }

func (q *queue) push(m *message) {
	q.ready = append(q.ready, m)
	close(q.wake)
	q.wake = make(chan struct{})
}

// message is one delivery after the other of the same bytes.
type message struct {
	Parcel
	mail *Mail
	q    *queue

	// Guarded by Mail.mu. deliveries is the number of the current delivery; done and out say where it is.
	deliveries uint64
	out, done  bool
	// stop ends the ack wait or the delay.
	stop func()
}

// delivery is what a handler gets: a message and which time it is.
type delivery struct {
	m *message
	n uint64
}

func (d delivery) Subject() string           { return d.m.Parcel.Subject }
func (d delivery) Data() []byte              { return d.m.Parcel.Data }
func (d delivery) Header(name string) string { return d.m.Parcel.Header[name] }
func (d delivery) Seq() uint64               { return d.m.Parcel.Seq }
func (d delivery) Time() time.Time           { return d.m.Parcel.Time }
func (d delivery) Deliveries() uint64        { return d.n }

// Ack implements kernel.Message. An ack that comes late, after another delivery, ends the message too.
func (d delivery) Ack(context.Context) error {
	if d.m.end() && d.m.Acked != nil {
		d.m.Acked()
	}
	return nil
}

// end takes the message out for good and reports whether this was the first to do so.
func (m *message) end() bool {
	m.mail.mu.Lock()
	defer m.mail.mu.Unlock()
	if m.done {
		return false
	}
	m.done = true
	if m.stop != nil {
		m.stop()
	}
	if m.out {
		m.q.out--
	} else if i := slices.Index(m.q.ready, m); i >= 0 {
		m.q.ready = slices.Delete(m.q.ready, i, i+1)
	} else {
		m.q.waiting--
	}
	return true
}

// Nak implements kernel.Message. Like that of a server it counts for the message, whichever delivery it is about.
func (d delivery) Nak(delay time.Duration) error {
	m := d.m
	m.mail.mu.Lock()
	defer m.mail.mu.Unlock()
	at := slices.Index(m.q.ready, m)
	if m.done || at >= 0 && delay <= 0 {
		return nil
	}
	m.leave(at)
	if delay <= 0 {
		m.q.push(m)
		return nil
	}
	m.rest(delay)
	return nil
}

// leave takes a message from where it is; at is its place among those that are ready, or -1. Called with mu held.
func (m *message) leave(at int) {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	switch {
	case at >= 0:
		m.q.ready = slices.Delete(m.q.ready, at, at+1)
	case m.out:
		m.out = false
		m.q.out--
	default:
		m.q.waiting--
	}
}

// rest keeps a message back for a time. Called with mu held.
func (m *message) rest(d time.Duration) {
	m.q.waiting++
	m.stop = after(d, func() {
		m.mail.mu.Lock()
		defer m.mail.mu.Unlock()
		if m.done || m.out || slices.Contains(m.q.ready, m) {
			return
		}
		m.q.waiting--
		m.q.push(m)
	})
}

// Working implements kernel.Message: no one is told that it is too late.
func (d delivery) Working() error {
	m := d.m
	m.mail.mu.Lock()
	defer m.mail.mu.Unlock()
	switch {
	case m.done || slices.Contains(m.q.ready, m):
	case m.out:
		m.stop()
		m.startAckWait()
	default:
		m.leave(-1)
		m.rest(m.mail.ackWait)
	}
	return nil
}

// startAckWait has the message delivered again unless there is a sign of life. Called with mu held.
func (m *message) startAckWait() {
	n := m.deliveries
	m.stop = after(m.mail.ackWait, func() {
		m.mail.mu.Lock()
		defer m.mail.mu.Unlock()
		if m.done || !m.out || m.deliveries != n {
			return
		}
		m.out = false
		m.q.out--
		m.q.push(m)
	})
}

// Listen implements kernel.Inbox. Handlers get a context that ends with ctx.
func (mail *Mail) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	q := mail.queues[role]
	if q == nil {
		return fmt.Errorf("listen: %q is not a role", role)
	}
	if workers <= 0 {
		return fmt.Errorf("listen as %s: %d workers, want at least 1", role, workers)
	}
	var handlers sync.WaitGroup
	defer handlers.Wait()
	free := make(chan struct{}, workers) // one place per worker
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		d, ok := mail.take(ctx, q)
		if !ok {
			return nil
		}
		handlers.Go(func() {
			defer func() { <-free }()
			receive(ctx, d)
		})
	}
}

// take waits for the next message of a queue and counts it as delivered; ok is false once ctx has ended.
func (mail *Mail) take(ctx context.Context, q *queue) (d delivery, ok bool) {
	for {
		mail.mu.Lock()
		if ctx.Err() != nil {
			mail.mu.Unlock()
			return delivery{}, false
		}
		if len(q.ready) > 0 {
			d = q.next()
			mail.mu.Unlock()
			return d, true
		}
		wake := q.wake
		mail.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
}

// next takes the oldest ready message out. Called with mu held.
func (q *queue) next() delivery {
	m := q.ready[0]
	q.ready[0] = nil
	q.ready = q.ready[1:]
	q.out++
	m.out = true
	m.deliveries++
	m.startAckWait()
	return delivery{m: m, n: m.deliveries}
}

// Pending counts what a role has not acknowledged yet: ready, handled at the moment, or delayed.
func (mail *Mail) Pending(role events.Service) int {
	mail.mu.Lock()
	defer mail.mu.Unlock()
	q := mail.queues[role]
	return len(q.ready) + q.out + q.waiting
}

// after calls f once, d from now, unless stop is called before.
func after(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}
