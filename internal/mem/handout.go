package mem

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Waiting describes a message that is ready for a role.
type Waiting struct {
	Subject string
	Seq     uint64
	// Deliveries made so far.
	Deliveries uint64
}

// Ready lists what is ready for a role, oldest first. Together with Take it is an inbox for those who choose the order
// of deliveries themselves; no one should listen beside them.
func (s *Station) Ready(role events.Service) []Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Waiting
	for _, m := range s.queues.Ready(role) {
		p, deliveries := m.Parcel()
		list = append(list, Waiting{Subject: p.Subject, Seq: p.Seq, Deliveries: deliveries})
	}
	return list
}

// Take delivers the ready message at an index of Ready; ok is false where there is none.
func (s *Station) Take(role events.Service, i int) (m kernel.Message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues.Take(role, i)
}

// Ring fires a timer of TimersSet and leaves it set: it comes early, and once more when it is due.
func (s *Station) Ring(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.timers[name]
	if t == nil {
		return false
	}
	t.fire()
	return true
}

// Pending counts what a role has not acknowledged yet: ready, handled at the moment, or delayed.
func (s *Station) Pending(role events.Service) int { return s.queues.Pending(role) }

// deliverEvent puts a stored event before all roles that receive it. Called with mu held.
func (s *Station) deliverEvent(e kernel.Entry, seq uint64, b []byte, at time.Time) {
	p := queue.Parcel{Subject: events.EventSubject(s.name, e.Aggregate, e.ID, e.Kind), Data: b, Seq: seq, Time: at,
		Removed: func() bool { return s.log[seq-1].lost }}
	if e.Whole > 0 {
		p.Header = map[string]string{kernel.WholeHeader: strconv.FormatUint(e.Whole, 10)}
	}
	for _, role := range topology.Receivers(e.Aggregate, e.Kind) {
		s.queues.Add(role, p)
	}
	s.notify(keyOf(e), b)
}

// Publish puts the message of an outsider before the role that receives its subject, as a stream with work-queue
// retention does. header may be nil. It fails where no one receives the subject.
func (s *Station) Publish(ctx context.Context, subject string, data []byte, header map[string]string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	role, ok := topology.ReceiverOfInput(s.name, subject)
	if !ok {
		return fmt.Errorf("publish: no role of station %s receives %q", s.name, subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(InputStore, subject, func() error {
		s.inputs++
		s.queues.Add(role, queue.Parcel{Subject: subject, Data: bytes.Clone(data), Header: maps.Clone(header), Seq: s.inputs,
			Time: s.cfg.Clock.Now()})
		return nil
	})
}
