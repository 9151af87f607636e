package run

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// Outage is a provider of models that does not answer the request of a step, or the request for a plan. Shared between
// states: never written after it was made.
type Outage struct {
	// Provider as of the last failed request, HTTPStatus of its refusal (0 where there was none), Class and Error of it.
	Provider   string `json:"provider"`
	HTTPStatus int    `json:"httpStatus,omitempty"`
	Class      string `json:"class"`
	Error      string `json:"error"`
	// Since is when the first of Tries failed requests was recorded, Sequence the event of the last one.
	Since    time.Time `json:"since"`
	Tries    int       `json:"tries"`
	Sequence uint64    `json:"sequence"`
	// Pause is true where the request is made again only after the run was paused and a person resumed it.
	Pause bool `json:"pause,omitempty"`
}

// Clock is the part of a run's life that does not count towards its deadline: pauses, and the time in which all of its
// running steps wait for a provider of models.
type Clock struct {
	// StoppedMS is how long the clock stood in all, in milliseconds, without the stop that lasts.
	StoppedMS int64 `json:"stoppedMs,omitempty"`
	// Since is when it stopped, zero while it runs.
	Since time.Time `json:"since,omitzero"`
	// Paused is true during a pause that does not count.
	Paused bool `json:"paused,omitempty"`
}

// failed is the outage after one more failed request, which an event tells of; nil where that tells of no provider.
func (s *State) failed(o *Outage, e events.Outage, class, text string, f events.Event) *Outage {
	if e.Provider == "" {
		return nil
	}
	next := Outage{Provider: e.Provider, HTTPStatus: e.HTTPStatus, Class: class, Error: text, Since: f.Time, Tries: 1,
		Pause: e.Pause, Sequence: f.Sequence}
	if o = s.Lasting(o); o != nil {
		next.Since, next.Tries = o.Since, o.Tries+1
	}
	return &next
}

// Lasting is an outage whose wait goes on, nil where a person has resumed the run since its last failed request: the
// next one is counted anew then.
func (s *State) Lasting(o *Outage) *Outage {
	if o == nil || o.Sequence < s.ResumedAt {
		return nil
	}
	return o
}

// Suspended reports whether the request of an outage is not made before a person has resumed the run.
func (s *State) Suspended(o *Outage) bool {
	o = s.Lasting(o)
	return o != nil && o.Pause
}

// Awaits reports whether a request waits for its provider. One that was given up no longer does once a person has
// resumed the run.
func (s *State) Awaits(o *Outage) bool { return o != nil && !(o.Pause && s.Lasting(o) == nil) }

// Outages returns the outages that requests of the run wait for, that of the request for its plan or those of its
// steps, in the order of the plan.
func (s *State) Outages() []*Outage {
	if s.Status.Ended() {
		return nil
	}
	if s.Plan == nil {
		if s.Planning == nil || !s.Awaits(s.Planning.Outage) {
			return nil
		}
		return []*Outage{s.Planning.Outage}
	}
	var all []*Outage
	for _, st := range s.Plan.Steps {
		if s.Awaits(st.Outage) {
			all = append(all, st.Outage)
		}
	}
	return all
}

// GivenUp is the first outage that the run is to be paused for, nil for none.
func (s *State) GivenUp() *Outage {
	for _, o := range s.Outages() {
		if o.Pause {
			return o
		}
	}
	return nil
}

// waiting reports whether the run does nothing but wait for providers, and when it makes its next request.
func (s *State) waiting() (until time.Time, ok bool) {
	if s.Status != events.Running {
		return until, false
	}
	if s.Plan == nil {
		if p := s.Planning; p != nil && s.Awaits(p.Outage) {
			return p.NotBefore, true
		}
		return until, false
	}
	for _, st := range s.Plan.Steps {
		switch {
		case st.Status != events.StepIsRunning || st.Parts > 0:
		case !s.Awaits(st.Outage):
			return time.Time{}, false
		case !ok || st.NotBefore.Before(until):
			until, ok = st.NotBefore, true
		}
	}
	return until, ok
}

// tick stops the clock of the run, or lets it go on, after an event of that time. before is the state before the event.
// What came of a request counts from when the request was due: until then the run waited.
func (s *State) tick(before *State, at time.Time) {
	_, waits := s.waiting()
	switch stopped := waits || s.Clock.Paused; {
	case stopped && s.Clock.Since.IsZero():
		s.Clock.Since = at
	case !stopped && !s.Clock.Since.IsZero():
		if due, waited := before.waiting(); waited && due.Before(at) {
			at = due
		}
		s.Clock.StoppedMS += max(0, at.Sub(s.Clock.Since).Milliseconds())
		s.Clock.Since = time.Time{}
	}
}

// Deadline is when the time of the run is up, where it goes on from now as it is expected to: waits for a provider end
// when the next request is due. ok is false where the run has no limit, has not started, or its clock stands until a
// person resumes it.
func (s *State) Deadline() (at time.Time, ok bool) {
	if s.StartedAt == nil || s.Options.TimeoutMS <= 0 || s.Clock.Paused || s.GivenUp() != nil {
		return time.Time{}, false
	}
	at = s.StartedAt.Add(time.Duration(s.Options.TimeoutMS+s.Clock.StoppedMS) * time.Millisecond)
	if due, waits := s.waiting(); waits && !s.Clock.Since.IsZero() {
		at = at.Add(max(0, due.Sub(s.Clock.Since)))
	}
	return at, true
}
