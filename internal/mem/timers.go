package mem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// timer is a schedule that has not fired.
type timer struct {
	stop func()
	// fire puts the firing before the role that hears it. Called with mu held.
	fire func()
}

type timers struct{ s *Station }

// Set implements reactor.Timers. It fails for a name whose family no role hears.
func (t timers) Set(ctx context.Context, run, name string, at time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	family, id, ok := strings.Cut(name, ".")
	if !ok || !events.ValidID(run) || !events.ValidID(id) {
		return fmt.Errorf("set timer: want a run id and a name {family}.{id}, have %q and %q", run, name)
	}
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.hearerOf(family)
	if q == nil {
		return fmt.Errorf("set timer %s: no role hears timers of family %q", name, family)
	}
	key := run + "." + name
	if old := s.timers[key]; old != nil {
		old.stop()
	}
	set := &timer{fire: func() {
		s.firings++
		q.push(&message{s: s, q: q, subject: events.DueSubject(s.name, run, name), seq: s.firings, at: s.cfg.Clock.Now()})
	}}
	s.timers[key] = set
	set.stop = s.cfg.Clock.AfterFunc(at.Sub(s.cfg.Clock.Now()), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timers[key] != set {
			return // replaced while it was about to fire
		}
		delete(s.timers, key)
		set.fire()
	})
	return nil
}

// hearerOf returns the queue of the role that hears a family of timers, or nil. Called with mu held.
func (s *Station) hearerOf(family string) *queue {
	for _, role := range events.Services() {
		if q := s.queues[role]; slices.Contains(q.hears.Timers, family) {
			return q
		}
	}
	return nil
}

// TimersSet returns "{run}.{family}.{id}" of the timers that have not fired, sorted.
func (s *Station) TimersSet() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.timers))
	for name := range s.timers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
