package mem

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// queue holds what one role has to hear: messages wait in ready, are out while somebody handles them, wait for a
// delay, and are gone once acknowledged. Guarded by Station.mu.
type queue struct {
	receives topology.Subscriptions
	ready    []*message
	// pending counts the messages that are not gone.
	pending int
	// wake is closed, and replaced, when a message gets ready.
	wake chan struct{}
}

func newQueue(h topology.Subscriptions) *queue { return &queue{receives: h, wake: make(chan struct{})} }

// add takes a new message in. Called with mu held.
func (q *queue) add(m *message) {
	q.pending++
	m.push()
}

// position is where a message is.
type position int

const (
	waiting position = iota // for a delay or an ack wait to end before it is ready
	ready                   // in queue.ready
	out                     // somebody handles it
	removed                 // acknowledged, or taken out of its stream
)

// message is one delivery after the other of the same bytes.
type message struct {
	s       *Station
	q       *queue
	subject string
	data    []byte
	header  map[string]string
	seq     uint64
	at      time.Time
	// event says that it is a message of the log.
	event bool

	// Guarded by Station.mu. deliveries is the number of the current delivery.
	deliveries uint64
	where      position
	// stop ends the ack wait or the delay; nil where there is none. again replaces the next ack wait unless it is 0.
	stop  func()
	again time.Duration
}

// push makes a message ready to be delivered, unless a fault has it otherwise. Called with mu held.
func (m *message) push() {
	t := m.s.fault(m.q.receives.Role, m.subject)
	m.again = t.Again
	switch {
	case t.Lost:
		m.deliveries++
		m.after(waiting, t.Late+m.s.cfg.AckWait, m.push)
	case t.Late > 0:
		m.after(waiting, t.Late, m.show)
	default:
		m.show()
	}
}

// show puts a message where the next listener takes it. Called with mu held.
func (m *message) show() {
	m.where, m.stop = ready, nil
	m.q.ready = append(m.q.ready, m)
	close(m.q.wake)
	m.q.wake = make(chan struct{})
}

// after moves a message to a place, and on from there after a while unless something else happens to it first.
// Called with mu held; then is called with mu held.
func (m *message) after(to position, d time.Duration, then func()) {
	m.leave()
	m.where = to
	live := true // guarded by mu: a stop may come while the call is on its way
	stop := m.s.cfg.Clock.AfterFunc(d, func() {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if live {
			live = false
			then()
		}
	})
	m.stop = func() { live = false; stop() }
}

// leave takes a message away from where it is. Called with mu held.
func (m *message) leave() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	if m.where != ready {
		return
	}
	if i := slices.Index(m.q.ready, m); i >= 0 {
		m.q.ready = slices.Delete(m.q.ready, i, i+1)
	}
}

// end lets a message go for good. Called with mu held.
func (m *message) end() {
	if m.where == removed {
		return
	}
	m.leave()
	m.where = removed
	m.q.pending--
	if m.s.due[m.subject] == m {
		delete(m.s.due, m.subject)
	}
}

// delivery is what a handler gets: a message and which time it is.
type delivery struct {
	m *message
	n uint64
}

func (d delivery) Subject() string           { return d.m.subject }
func (d delivery) Data() []byte              { return d.m.data }
func (d delivery) Header(name string) string { return d.m.header[name] }
func (d delivery) Seq() uint64               { return d.m.seq }
func (d delivery) Time() time.Time           { return d.m.at }
func (d delivery) Deliveries() uint64        { return d.n }

// Ack implements kernel.Message. An ack that comes late, after another delivery, ends the message too. Where ctx has
// ended the word is not sent.
func (d delivery) Ack(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m := d.m
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.where == removed || m.s.ackLost(m.q.receives.Role, m.subject) {
		return nil
	}
	m.end()
	return nil
}

// Nak implements kernel.Message. As on a server it counts whatever delivery it comes from: one that comes late hands
// the message to another while somebody still handles it.
func (d delivery) Nak(delay time.Duration) error {
	m := d.m
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	switch {
	case m.where == removed || m.where == ready && delay <= 0:
	case delay > 0:
		m.after(waiting, delay, m.push)
	default:
		m.leave()
		m.push()
	}
	return nil
}

// Working implements kernel.Message. As on a server it counts whatever delivery it comes from, and no one is told
// that it came too late.
func (d delivery) Working() error {
	m := d.m
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if m.where == out || m.where == waiting {
		m.after(m.where, m.s.cfg.AckWait, m.push)
	}
	return nil
}

type inbox struct{ s *Station }

// Listen implements kernel.Inbox. Handlers get a context that ends Config.DrainGrace after ctx.
func (in inbox) Listen(ctx context.Context, role events.Service, workers int, receive func(context.Context,
	kernel.Message)) error {
	q := in.s.queues[role]
	if q == nil {
		return fmt.Errorf("listen: %q is not a role", role)
	}
	if workers <= 0 {
		return fmt.Errorf("listen as %s: %d workers, want at least 1", role, workers)
	}
	work, cancel := in.s.graced(ctx)
	defer cancel()
	var handlers sync.WaitGroup
	defer handlers.Wait()
	free := make(chan struct{}, workers) // one place per worker
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		d, ok := in.s.take(ctx, q)
		if !ok {
			return nil
		}
		handlers.Go(func() {
			defer func() { <-free }()
			receive(work, d)
		})
	}
}

// graced returns the context of handlers.
func (s *Station) graced(ctx context.Context) (work context.Context, cancel func()) {
	if s.cfg.DrainGrace <= 0 {
		return ctx, func() {}
	}
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() {
		s.cfg.Clock.AfterFunc(s.cfg.DrainGrace, func() { end(context.Cause(ctx)) })
	})
	return work, func() { release(); end(nil) }
}

// take waits for the next message of a queue and counts it as delivered; ok is false once ctx has ended.
func (s *Station) take(ctx context.Context, q *queue) (d delivery, ok bool) {
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return delivery{}, false
		}
		for len(q.ready) > 0 {
			if m := q.ready[0]; m.event && s.log[m.seq-1].lost {
				m.end()
				continue
			}
			d = q.next()
			s.mu.Unlock()
			return d, true
		}
		wake := q.wake
		s.mu.Unlock()
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
	wait := m.s.cfg.AckWait
	if m.again > 0 {
		wait = m.again
	}
	m.after(out, wait, m.push)
	return delivery{m: m, n: m.deliveries}
}

// Pending counts what a role has not acknowledged yet: ready, handled at the moment, or delayed.
func (s *Station) Pending(role events.Service) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[role].pending
}

// deliverFact puts a stored event before all roles that receive it. Called with mu held.
func (s *Station) deliverEvent(e kernel.Entry, seq uint64, b []byte, at time.Time) {
	var header map[string]string
	if e.Whole > 0 {
		header = map[string]string{kernel.WholeHeader: strconv.FormatUint(e.Whole, 10)}
	}
	for _, role := range topology.Receivers(e.Aggregate, e.Kind) {
		q := s.queues[role]
		q.add(&message{s: s, q: q, subject: events.EventSubject(s.name, e.Aggregate, e.ID, e.Kind), data: b, header: header,
			seq: seq, at: at, event: true})
	}
	s.notify(keyOf(e), b)
}

// Publish puts the message of an outsider before the role that hears its subject, as a stream with work-queue
// retention does. header may be nil. It fails where no one hears the subject.
func (s *Station) Publish(ctx context.Context, subject string, data []byte, header map[string]string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	role, ok := topology.ReceiverOfInput(s.name, subject)
	if !ok {
		return fmt.Errorf("publish: no role of station %s hears %q", s.name, subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(InputStore, subject, func() error {
		s.inputs++
		q := s.queues[role]
		q.add(&message{s: s, q: q, subject: subject, data: bytes.Clone(data), header: maps.Clone(header), seq: s.inputs,
			at: s.cfg.Clock.Now()})
		return nil
	})
}
