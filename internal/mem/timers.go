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
type timer struct{ stop func() }

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
	role, ok := HearsTimer(family)
	if !ok {
		return fmt.Errorf("set timer %s: no role hears timers of family %q", name, family)
	}
	key := run + "." + name
	if old := s.timers[key]; old != nil {
		old.stop()
	}
	set := &timer{}
	s.timers[key] = set
	set.stop = s.cfg.Clock.AfterFunc(at.Sub(s.cfg.Clock.Now()), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.timers[key] != set {
			return // replaced while it was about to fire
		}
		delete(s.timers, key)
		s.firings++
		s.mail.Push(role, Parcel{Subject: events.DueSubject(s.name, run, name), Seq: s.firings, Time: s.cfg.Clock.Now()})
	})
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
