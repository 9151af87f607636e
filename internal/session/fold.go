package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// State of a session: the fold of its log, and what was decided on it and is not stored yet. It is a value: no function
// changes what can be reached from it.
type State struct {
	events.Session
	// Sequence and Hash of the last event that it includes.
	Sequence uint64
	Hash     string
	// Migrated is the revision of the row that the log began with, 0 where it began with none.
	Migrated uint64
	changes  []events.Payload
}

// Changes are the events that were decided on a state since it was folded, in order.
func (s State) Changes() []events.Payload { return s.changes }

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State {
	s, err := s.apply(p, now)
	if err != nil {
		panic("session: decided what cannot be folded: " + err.Error())
	}
	s.changes = append(slices.Clip(s.changes), p)
	return s
}

// Apply returns the state after one more event, whose stored bytes have the given hash.
func Apply(s State, f events.Event, p events.Payload, hash string) (State, error) {
	s, err := s.apply(p, f.Time)
	if err != nil {
		return State{}, fmt.Errorf("session %s, event %d (%s): %w", f.Subject, f.Sequence, p.Kind(), err)
	}
	if s.ID != f.Subject {
		return State{}, fmt.Errorf("session %s, event %d (%s): it is of session %.64q", f.Subject, f.Sequence, p.Kind(), s.ID)
	}
	s.Sequence, s.Hash, s.changes = f.Sequence, hash, nil
	return s, nil
}

// apply carries out one event. It takes what the event says as it stands: what may be decided is no question of the
// fold.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if s.ID == "" && p.Kind() != events.SessionOpened && p.Kind() != events.SessionMigrated {
		return s, fmt.Errorf("a session does not begin with %s", p.Kind())
	}
	switch d := p.(type) {
	case *events.SessionMigratedData:
		if s.ID != "" {
			return s, fmt.Errorf("the row of a session that has a log is not taken over")
		}
		s.Session, s.Migrated = d.Row, d.Revision
		s.Log = nil
	case *events.SessionOpenedData:
		s.Session = events.Session{ID: d.Session, Mode: events.Sequential, Status: events.SessionOpen, Fence: s.Fence,
			Born:   s.Fence + 1,
			Inputs: s.Inputs, CreatedAt: at, UsedAt: at}
	case *events.SessionLockedData:
		s.Session = locked(s.Session, d, at)
	case *events.SessionConfirmedData:
		if _, has := s.Holder(d.Run); !has && d.Restored != nil {
			s.Holders = append(slices.Clone(s.Holders), *d.Restored)
		}
		s.Holders = slices.Clone(s.Holders)
		for i := range s.Holders {
			s.Holders[i].Confirmed = s.Holders[i].Confirmed || s.Holders[i].Run == d.Run && s.Holders[i].Fence == d.Fence
		}
	case *events.SessionReleasedData:
		s.Holders = without(s.Holders, d.Run)
	case *events.SessionSettledData:
		s.Holders, s.Fence = without(s.Holders, d.Run), max(s.Fence, d.Fence)
		s.History, s.Parts = &d.Part, s.Parts+1
		s.Messages, s.InputTokens, s.OutputTokens = s.Messages+d.Messages, s.InputTokens+d.InputTokens,
			s.OutputTokens+d.OutputTokens
		s.UsedAt, s.UpdatedAt = at, at
	case *events.SessionSteeredData:
		return s.steered(d, at)
	default:
		return s, fmt.Errorf("%s is no event of a session", p.Kind())
	}
	return s, nil
}

// locked gives a run the lock.
func locked(e events.Session, d *events.SessionLockedData, at time.Time) events.Session {
	h := events.Holder{Run: d.Run, Agent: d.Agent, Fence: d.Fence, Since: at}
	if d.TimeoutMS > 0 {
		h.Until = at.Add(time.Duration(d.TimeoutMS) * time.Millisecond)
	}
	e.Holders = append(slices.Clone(e.Holders), h)
	e.Mode, e.Status, e.Fence, e.Runs, e.UsedAt = d.Mode, events.SessionOpen, max(e.Fence, d.Fence), e.Runs+1, at
	return e
}

// without returns the holders without one run.
func without(all []events.Holder, runID string) []events.Holder {
	return slices.DeleteFunc(slices.Clone(all), func(h events.Holder) bool { return h.Run == runID })
}

// steered carries out what a control did.
func (s State) steered(d *events.SessionSteeredData, at time.Time) (State, error) {
	switch d.Action {
	case Start:
		s.Mode, s.SessionSettings, s.Status, s.UsedAt = d.Mode, d.SessionSettings, events.SessionOpen, at
	case Set:
		s.Mode, s.SessionSettings = d.Mode, d.SessionSettings
	case Pause:
		s.Status = events.SessionPaused
	case Resume:
		s.Status, s.UsedAt = events.SessionOpen, at
	case Finish:
		s.Status = events.SessionEnded
	case Unlock: // the locks were released before
	case Clear:
		s.History, s.Parts, s.Messages, s.InputTokens, s.OutputTokens, s.UpdatedAt = nil, 0, 0, 0, 0, at
	case Import:
		s.History, s.Parts, s.Messages, s.UsedAt, s.UpdatedAt = d.Part, 1, d.Messages, at, at
	case Delete:
		s.Session = events.Session{ID: s.ID, Status: events.SessionDeleted, Fence: s.Fence, Born: s.Fence + 1,
			Inputs: s.Inputs, CreatedAt: s.CreatedAt, UsedAt: at}
	default:
		return s, fmt.Errorf("unknown action %.80q", d.Action)
	}
	s.Inputs = append(slices.Clone(s.Inputs), d.Input)
	s.Inputs = s.Inputs[max(0, len(s.Inputs)-events.MaxSessionInputs):]
	return s, nil
}
