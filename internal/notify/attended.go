package notify

import (
	"context"
	"time"
)

// Attended calls a person who sits at a terminal, or sat there: for each gate, and for an end that was waited for
// longer than After. Not safe for concurrent use. The zero value calls no one.
type Attended struct {
	Sinks []Sink
	After time.Duration
	// Failed is called with what a sink could not take; nil drops it.
	Failed func(error)
	since  time.Time
}

// Acted says that the person did something just now, and so waits from now on.
func (a *Attended) Acted(now time.Time) { a.since = now }

// See calls the person where a notice is worth it. It never waits: what a sink has no room for is left out.
func (a *Attended) See(now time.Time, n Notice) {
	if n.Kind != Gate && now.Sub(a.since) < a.After {
		return
	}
	full, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range a.Sinks {
		if err := s.Send(full, n); err != nil && a.Failed != nil {
			a.Failed(err)
		}
	}
}

// Close waits for the sinks.
func (a *Attended) Close() {
	for _, s := range a.Sinks {
		s.Close()
	}
}
