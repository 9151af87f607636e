package mem

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// maxLive is how many live messages of a run are kept for LiveOf; older ones are forgotten.
const maxLive = 1024

type live struct{ s *Station }

// Publish implements kernel.Live.
func (l live) Publish(run string, data []byte) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	kept := append(l.s.live[run], bytes.Clone(data))
	if len(kept) > maxLive {
		kept = slices.Delete(kept, 0, len(kept)-maxLive)
	}
	l.s.live[run] = kept
}

// LiveOf returns the last live messages of a run, at most 1024, oldest first.
func (s *Station) LiveOf(run string) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.live[run])
}

// watcher receives the events of a run as they are stored.
type watcher struct {
	run     string
	receive func(ev []byte)
}

// Watch has hear called with each event of a run that is stored from now on, in order, until stop is called. hear is
// called inside the append: it must be quick and must not call the station. It is the memory form of the run's stream.
func (s *Station) Watch(run string, receive func(ev []byte)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.watched
	s.watched++
	s.watchers[id] = watcher{run: run, receive: receive}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
}

// notify lets the watchers of a run hear an event. Called with mu held.
func (s *Station) notify(run string, ev []byte) {
	for _, w := range s.watchers {
		if w.run == run {
			w.receive(ev)
		}
	}
}

// Refused is a dead letter and the service that refused it.
type Refused struct {
	By     events.Service
	Letter kernel.DeadLetter
}

type refusals struct{ s *Station }

// Refuse implements kernel.Refusals.
func (r refusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	b, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	if len(b) > topology.MaxDead {
		return fmt.Errorf("store dead letter: %d bytes, the limit is %d", len(b), topology.MaxDead)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.put(RefusalStore, d.Subject, func() error {
		r.s.dead = append(r.s.dead, Refused{By: by, Letter: d})
		return nil
	})
}

// Refused implements kernel.Refusals.
func (r refusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if _, err := r.s.get(RefusalStore, m.Subject()); err != nil { // none is hidden: the leader is asked
		return false, err
	}
	return slices.ContainsFunc(r.s.dead, func(d Refused) bool { return d.By == by && d.Letter.Of(m) }), nil
}

// Dead returns the dead-letter list, oldest first.
func (s *Station) Dead() []Refused {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dead)
}
