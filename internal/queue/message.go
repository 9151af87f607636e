package queue

import (
	"context"
	"slices"
	"time"
)

// Parcel is something for one role to receive.
type Parcel struct {
	Subject string
	// Data must not be written to.
	Data   []byte
	Header map[string]string
	Seq    uint64
	Time   time.Time
	// Acked, if not nil, is called once, when somebody has acknowledged it, without the lock.
	Acked func()
	// Removed, if not nil, reports that it was taken out of its stream and is not delivered any more. It is called with
	// the lock held.
	Removed func() bool
}

// position is where a message is.
type position int

const (
	waiting position = iota // for a delay or an ack wait to end before it is ready
	ready                   // in queue.ready
	out                     // somebody handles it
	removed                 // acknowledged, or taken out of its stream
)

// Message is one delivery after the other of the same bytes.
type Message struct {
	parcel Parcel
	qs     *Queues
	q      *queue

	// Guarded by Queues.mu. deliveries is the number of the current delivery.
	deliveries uint64
	where      position
	// stop ends the ack wait or the delay; nil where there is none. again replaces the next ack wait unless it is 0.
	stop  func()
	again time.Duration
}

// Parcel returns what was pushed and how often it was delivered. Called with the lock held.
func (m *Message) Parcel() (p Parcel, deliveries uint64) { return m.parcel, m.deliveries }

// push makes a message ready to be delivered, unless a fault has it otherwise. Called with mu held.
func (m *Message) push() {
	var fault Delivery
	if m.qs.cfg.Fault != nil {
		fault = m.qs.cfg.Fault(m.q.role, m.parcel.Subject)
	}
	m.again = fault.Again
	switch {
	case fault.Lost:
		m.deliveries++
		m.after(waiting, fault.Late+m.qs.cfg.AckWait, m.push)
	case fault.Late > 0:
		m.after(waiting, fault.Late, m.show)
	default:
		m.show()
	}
}

// show puts a message where the next listener takes it. Called with mu held.
func (m *Message) show() {
	m.where, m.stop = ready, nil
	m.q.ready = append(m.q.ready, m)
	close(m.q.wake)
	m.q.wake = make(chan struct{})
}

// after moves a message to a place, and on from there after a while unless something else happens to it first.
// Called with mu held; then is called with mu held.
func (m *Message) after(to position, d time.Duration, then func()) {
	m.leave()
	m.where = to
	live := true // guarded by mu: a stop may come while the call is on its way
	stop := m.qs.cfg.AfterFunc(d, func() {
		m.qs.mu.Lock()
		defer m.qs.mu.Unlock()
		if live {
			live = false
			then()
		}
	})
	m.stop = func() { live = false; stop() }
}

// leave takes a message away from where it is. Called with mu held.
func (m *Message) leave() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	if m.where != ready {
		return
	}
	switch i := slices.Index(m.q.ready, m); {
	case i == 0: // without moving the others: there may be many
		m.q.ready[0], m.q.ready = nil, m.q.ready[1:]
	case i > 0:
		m.q.ready = slices.Delete(m.q.ready, i, i+1)
	}
}

// End lets a message go for good. Called with the lock held.
func (m *Message) End() {
	if m.where == removed {
		return
	}
	m.leave()
	m.where = removed
	m.q.pending--
}

// delivery is what a handler gets: a message and which time it is.
type delivery struct {
	m *Message
	n uint64
}

func (d delivery) Subject() string           { return d.m.parcel.Subject }
func (d delivery) Data() []byte              { return d.m.parcel.Data }
func (d delivery) Header(name string) string { return d.m.parcel.Header[name] }
func (d delivery) Seq() uint64               { return d.m.parcel.Seq }
func (d delivery) Time() time.Time           { return d.m.parcel.Time }
func (d delivery) Deliveries() uint64        { return d.n }

// Ack implements kernel.Message. An ack that comes late, after another delivery, ends the message too. Where ctx has
// ended it is not sent.
func (d delivery) Ack(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.end() && d.m.parcel.Acked != nil {
		d.m.parcel.Acked()
	}
	return nil
}

// end takes the message out for good and reports whether this was the first to do so.
func (d delivery) end() bool {
	m := d.m
	m.qs.mu.Lock()
	defer m.qs.mu.Unlock()
	if m.where == removed || m.qs.cfg.AckLost != nil && m.qs.cfg.AckLost(m.q.role, m.parcel.Subject) {
		return false
	}
	m.End()
	return true
}

// Nak implements kernel.Message. As on a server it counts whatever delivery it comes from: one that comes late hands
// the message to another while somebody still handles it.
func (d delivery) Nak(delay time.Duration) error {
	m := d.m
	m.qs.mu.Lock()
	defer m.qs.mu.Unlock()
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
	m.qs.mu.Lock()
	defer m.qs.mu.Unlock()
	if m.where == out || m.where == waiting {
		m.after(m.where, m.qs.cfg.AckWait, m.push)
	}
	return nil
}
