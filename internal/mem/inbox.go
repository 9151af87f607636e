package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// queue holds what one role has to hear: messages wait in ready, are out while somebody handles them, and are gone
// once acknowledged. Guarded by Station.mu.
type queue struct {
	hears topology.Hears
	ready []*message
	out   int
	// waiting counts messages that will be ready after a delay.
	waiting int
	// wake is closed, and replaced, when a message gets ready.
	wake chan struct{}
}

func newQueue(h topology.Hears) *queue { return &queue{hears: h, wake: make(chan struct{})} }

func (q *queue) push(m *message) {
	q.ready = append(q.ready, m)
	close(q.wake)
	q.wake = make(chan struct{})
}

// message is one delivery after the other of the same bytes.
type message struct {
	s       *Station
	q       *queue
	subject string
	data    []byte
	header  map[string]string
	seq     uint64
	at      time.Time

	// Guarded by Station.mu. deliveries is the number of the current delivery; done and out say where it is.
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

func (d delivery) Subject() string           { return d.m.subject }
func (d delivery) Data() []byte              { return d.m.data }
func (d delivery) Header(name string) string { return d.m.header[name] }
func (d delivery) Seq() uint64               { return d.m.seq }
func (d delivery) Time() time.Time           { return d.m.at }
func (d delivery) Deliveries() uint64        { return d.n }

// Ack implements reactor.Message. An ack that comes late, after another delivery, ends the message too.
func (d delivery) Ack(context.Context) error {
	d.m.s.mu.Lock()
	defer d.m.s.mu.Unlock()
	m := d.m
	if m.done {
		return nil
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
	return nil
}

// Nak implements reactor.Message. It counts for the current delivery only.
func (d delivery) Nak(delay time.Duration) error {
	d.m.s.mu.Lock()
	defer d.m.s.mu.Unlock()
	m := d.m
	if m.done || !m.out || m.deliveries != d.n {
		return nil
	}
	m.stop()
	m.out = false
	m.q.out--
	if delay <= 0 {
		m.stop = nil
		m.q.push(m)
		return nil
	}
	m.q.waiting++
	m.stop = m.s.cfg.Clock.AfterFunc(delay, func() {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if !m.done && !m.out && m.deliveries == d.n {
			m.q.waiting--
			m.q.push(m)
		}
	})
	return nil
}

// Working implements reactor.Message.
func (d delivery) Working() error {
	d.m.s.mu.Lock()
	defer d.m.s.mu.Unlock()
	if d.m.done || !d.m.out || d.m.deliveries != d.n {
		return errors.New("the message was delivered again or acknowledged")
	}
	d.m.stop()
	d.m.startAckWait()
	return nil
}

// startAckWait has the message delivered again unless there is a sign of life. Called with mu held.
func (m *message) startAckWait() {
	n := m.deliveries
	m.stop = m.s.cfg.Clock.AfterFunc(m.s.cfg.AckWait, func() {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		if m.done || !m.out || m.deliveries != n {
			return
		}
		m.out = false
		m.q.out--
		m.q.push(m)
	})
}

type inbox struct{ s *Station }

// Listen implements reactor.Inbox. Handlers get a context that ends with ctx.
func (in inbox) Listen(ctx context.Context, role events.Service, workers int, hear func(context.Context, reactor.Message)) error {
	q := in.s.queues[role]
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
		d, ok := in.s.take(ctx, q)
		if !ok {
			return nil
		}
		handlers.Go(func() {
			defer func() { <-free }()
			hear(ctx, d)
		})
	}
}

// take waits for the next message of a queue and counts it as delivered; ok is false once ctx has ended.
func (s *Station) take(ctx context.Context, q *queue) (d delivery, ok bool) {
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return delivery{}, false
		}
		if len(q.ready) > 0 {
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
	q.ready[0] = nil
	q.ready = q.ready[1:]
	q.out++
	m.out = true
	m.deliveries++
	m.startAckWait()
	return delivery{m: m, n: m.deliveries}
}

// Pending counts what a role has not acknowledged yet: ready, handled at the moment, or delayed.
func (s *Station) Pending(role events.Service) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[role]
	return len(q.ready) + q.out + q.waiting
}

// deliverFact puts a stored fact before all roles that hear it. Called with mu held.
func (s *Station) deliverFact(e reactor.Entry, seq uint64, b []byte, at time.Time) {
	var header map[string]string
	if e.Whole > 0 {
		header = map[string]string{reactor.WholeHeader: strconv.FormatUint(e.Whole, 10)}
	}
	for _, role := range events.Services() {
		q := s.queues[role]
		if q.hears.All || slices.Contains(q.hears.Facts, e.Kind) {
			q.push(&message{s: s, q: q, subject: events.FactSubject(s.name, e.Run, e.Kind), data: b, header: header, seq: seq, at: at})
		}
	}
	s.tell(e.Run, b)
}

// Publish puts the message of an outsider before the role that hears its subject, as a stream with work-queue
// retention does. header may be nil. It fails where nobody hears the subject.
func (s *Station) Publish(ctx context.Context, subject string, data []byte, header map[string]string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	rest, ok := strings.CutPrefix(subject, "station."+s.name+".")
	if !ok {
		return fmt.Errorf("publish: %q is not a subject of station %s", subject, s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, role := range events.Services() {
		q := s.queues[role]
		if slices.ContainsFunc(q.hears.Inputs, func(pattern string) bool { return matches(pattern, rest) }) {
			s.inputs++
			q.push(&message{s: s, q: q, subject: subject, data: bytes.Clone(data), header: header, seq: s.inputs, at: s.cfg.Clock.Now()})
			return nil
		}
	}
	return fmt.Errorf("publish: no role hears %q", subject)
}

// matches compares a subject with a pattern in which "*" is any one token.
func matches(pattern, subject string) bool {
	p, t := strings.Split(pattern, "."), strings.Split(subject, ".")
	if len(p) != len(t) {
		return false
	}
	for i := range p {
		if t[i] == "" || p[i] != "*" && p[i] != t[i] {
			return false
		}
	}
	return true
}
