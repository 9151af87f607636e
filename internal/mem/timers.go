package mem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/queue"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// timer is a schedule that has not fired for the last time.
type timer struct {
	stops []func()
	left  int
	// fire says that it is due. Called with mu held.
	fire func()
}

type timers struct {
	s         *Station
	aggregate string
}

// Set implements kernel.Timers. It fails for a name whose family no role receives.
func (t timers) Set(ctx context.Context, id, name string, at time.Time, after uint64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := events.CheckID(t.aggregate, id); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	family, name, err := kernel.TimerName(t.aggregate, name)
	if err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	role, ok := topology.ReceiverOfTimer(family)
	if !ok {
		return fmt.Errorf("set timer %s: no role receives timers of family %q", name, family)
	}
	return s.put(TimerStore, id+"."+name, func() error {
		s.schedule(role, id, name, at, after)
		return nil
	})
}

// schedule replaces the timer of a name; one that is due fires before it returns. Called with mu held.
func (s *Station) schedule(role events.Service, run, name string, at time.Time, after uint64) {
	key := run + "." + name
	if old := s.timers[key]; old != nil {
		for _, stop := range old.stops {
			stop()
		}
	}
	s.asked.timers++
	var offsets []time.Duration
	if s.faults.Fire != nil {
		offsets = s.faults.Fire(s.asked.timers, run, name)
	}
	if len(offsets) == 0 {
		offsets = []time.Duration{0}
	}
	set := &timer{left: len(offsets), fire: func() { s.fire(role, events.DueSubject(s.name, run, name), after) }}
	s.timers[key] = set
	due := func() { // called with mu held
		if s.timers[key] != set {
			return // replaced while it was about to fire
		}
		if set.left--; set.left == 0 {
			delete(s.timers, key)
		}
		set.fire()
	}
	for _, offset := range offsets {
		wait := at.Add(offset).Sub(s.cfg.Clock.Now())
		if wait <= 0 {
			due()
			continue
		}
		set.stops = append(set.stops, s.cfg.Clock.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			due()
		}))
	}
}

// fire says that a timer is due. A firing that no one has acknowledged is replaced, as the stream of timers keeps one
// per name. Called with mu held.
func (s *Station) fire(role events.Service, subject string, after uint64) {
	if unheard := s.due[subject]; unheard != nil {
		unheard.End()
	}
	s.firings++
	s.due[subject] = s.queues.Add(role, queue.Parcel{Subject: subject, Seq: s.firings, Time: s.cfg.Clock.Now(),
		Header: map[string]string{kernel.AfterHeader: strconv.FormatUint(after, 10)}})
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
