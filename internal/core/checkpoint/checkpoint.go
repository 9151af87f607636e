// Package checkpoint decides when a run in Dream Mode, or overnight, takes a checkpoint between the ends of its steps.
//
// Promises: between two checkpoints of a run that works lies no more than its interval, as far as timers are on time. A
// run to which nothing happened since its last checkpoint takes none. A timer that comes twice, early or late leads to
// one checkpoint at most.
package checkpoint

import (
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// MinInterval is the shortest interval, whatever the level of autonomy makes of it.
const MinInterval = time.Second

// share is what part of its interval a run waits at each level of autonomy, in quarters. The fewer decisions a person
// takes, the more happens between two looks: the checkpoints are closer together, and less is lost where a person wants
// to go back. At levels 1 and 2 the run stops at gates often, and its state is stored there anyway.
var share = map[int]time.Duration{1: 8, 2: 6, 3: 4, 4: 3, 5: 2}

// Interval is how far apart the checkpoints of a run are that was given an interval, at a level of autonomy (PERS-9).
func Interval(given time.Duration, autonomy int) time.Duration {
	quarters, known := share[autonomy]
	if !known {
		quarters = share[3]
	}
	return max(MinInterval, given/4*quarters)
}

// interval is that of a run; ok is false for one that takes no checkpoints by the clock.
func interval(s run.State) (d time.Duration, ok bool) {
	if s.Options.Mode == "" || s.NextCheckpoint() == 0 || s.StartedAt == nil || s.Status != events.Running {
		return 0, false
	}
	return Interval(time.Duration(s.Options.CheckpointIntervalMS)*time.Millisecond, s.Options.Autonomy), true
}

// Wake is when a run is to be looked at for its next checkpoint; ok is false for one that takes none by the clock, and
// for one that is paused: it is looked at when it goes on.
func Wake(s run.State, now time.Time) (at time.Time, ok bool) {
	d, ok := interval(s)
	if !ok {
		return at, false
	}
	if at = last(s).Add(d); !at.After(now) {
		at = now.Add(d) // nothing happened since the last one
	}
	return at, true
}

// last is when the last checkpoint was taken, or the run began.
func last(s run.State) time.Time {
	if s.LastCheckpointAt != nil {
		return *s.LastCheckpointAt
	}
	return *s.StartedAt
}

// Take takes the checkpoint that is due, or answers nothing.
func Take(s run.State, now time.Time) ([]events.Payload, error) {
	d, ok := interval(s)
	if !ok || now.Before(last(s).Add(d)) || !s.MovedOn() {
		return nil, nil
	}
	n := s.NextCheckpoint()
	return []events.Payload{&events.CheckpointTakenData{Event: "checkpoint_taken", Name: events.IntervalCheckpoint(n),
		Number:     n,
		IntervalMS: d.Milliseconds()}}, nil
}
