package mem

import (
	"slices"

	"github.com/inspan/inspan/internal/kernel"
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
	q := s.queues[role]
	list := make([]Waiting, len(q.ready))
	for i, m := range q.ready {
		list[i] = Waiting{Subject: m.subject, Seq: m.seq, Deliveries: m.deliveries}
	}
	return list
}

// Take delivers the ready message at an index of Ready; ok is false where there is none.
func (s *Station) Take(role events.Service, i int) (m kernel.Message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[role]
	if i < 0 || i >= len(q.ready) {
		return nil, false
	}
	first := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	q.ready = slices.Insert(q.ready, 0, first)
	return q.next(), true
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
