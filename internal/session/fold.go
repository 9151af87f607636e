package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a session: the fold of its log, and what was decided on it and is not stored yet. It is a value: no function
// changes what can be reached from it.
type State struct {
	events.Session
	kernel.Folded
	// Migrated is the revision of the row that the log began with, 0 where it began with none.
	Migrated uint64
}

// then returns the state after one more decision.
func (s State) then(p events.Payload, now time.Time) State { return definition.Then(s, p, now) }

// rules are the fold rules of sessions. They take what an event says as it stands: what may be decided is no question
// of the fold.
var rules = kernel.Rules[State]{kernel.On(migrated), kernel.On(opens), kernel.On(locks), kernel.On(confirms),
	kernel.On(releases), kernel.On(settles), kernel.On(State.steered), kernel.On(State.granted), kernel.On(State.revoked),
	kernel.On(State.pruned)}

// begins are the event types that a log of a session begins with.
var begins = []events.Kind{events.SessionOpened, events.SessionMigrated, events.SessionPruned}

// apply carries out one event.
func (s State) apply(p events.Payload, at time.Time) (State, error) {
	if s.ID == "" && !slices.Contains(begins, p.Kind()) {
		return s, fmt.Errorf("a session does not begin with %s", p.Kind())
	}
	return rules.Fold(s, p, at)
}

// pruned is a session whose content was deleted: what is left is its name and its last fence, as of a deleted one.
func (s State) pruned(d *events.SessionPrunedData, at time.Time) (State, error) {
	if s.ID != "" {
		return s, fmt.Errorf("it stands for the first events of a session that has some")
	}
	s.Session = events.Session{ID: d.Session, Status: events.SessionDeleted, Fence: d.Fence, Born: d.Fence + 1,
		Inputs: d.Inputs, CreatedAt: d.CreatedAt, UsedAt: at}
	return s, nil
}

func migrated(s State, d *events.SessionMigratedData, _ time.Time) (State, error) {
	if s.ID != "" {
		return s, fmt.Errorf("the row of a session that has a log is not taken over")
	}
	s.Session, s.Migrated = d.Row, d.Revision
	s.Log = nil
	return s, nil
}

func opens(s State, d *events.SessionOpenedData, at time.Time) (State, error) {
	s.Session = events.Session{ID: d.Session, Mode: events.Sequential, Status: events.SessionOpen, Fence: s.Fence,
		Born:   s.Fence + 1,
		Inputs: s.Inputs, CreatedAt: at, UsedAt: at}
	return s, nil
}

func confirms(s State, d *events.SessionConfirmedData, _ time.Time) (State, error) {
	if _, has := s.Holder(d.Run); !has && d.Restored != nil {
		s.Holders = append(slices.Clone(s.Holders), *d.Restored)
	}
	s.Holders = slices.Clone(s.Holders)
	for i := range s.Holders {
		s.Holders[i].Confirmed = s.Holders[i].Confirmed || s.Holders[i].Run == d.Run && s.Holders[i].Fence == d.Fence
	}
	return s, nil
}

func releases(s State, d *events.SessionReleasedData, _ time.Time) (State, error) {
	s.Holders = without(s.Holders, d.Run)
	return s, nil
}

func settles(s State, d *events.SessionSettledData, at time.Time) (State, error) {
	s.Holders, s.Fence = without(s.Holders, d.Run), max(s.Fence, d.Fence)
	s.History, s.Parts = &d.Part, s.Parts+1
	s.Messages, s.InputTokens, s.OutputTokens = s.Messages+d.Messages, s.InputTokens+d.InputTokens,
		s.OutputTokens+d.OutputTokens
	s.UsedAt, s.UpdatedAt = at, at
	return s, nil
}

// locks gives a run the lock.
func locks(s State, d *events.SessionLockedData, at time.Time) (State, error) {
	h := events.Holder{Run: d.Run, Agent: d.Agent, Fence: d.Fence, Since: at}
	if d.TimeoutMS > 0 {
		h.Until = at.Add(time.Duration(d.TimeoutMS) * time.Millisecond)
	}
	s.Holders = append(slices.Clone(s.Holders), h)
	s.Mode, s.Status, s.Fence, s.Runs, s.UsedAt = d.Mode, events.SessionOpen, max(s.Fence, d.Fence), s.Runs+1, at
	return s, nil
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
		s.Status, s.Grants, s.GrantsFrom = events.SessionEnded, nil, at
	case Unlock: // the locks were released before
	case Clear:
		s.History, s.Parts, s.Messages, s.InputTokens, s.OutputTokens, s.UpdatedAt = nil, 0, 0, 0, 0, at
	case Import:
		s.History, s.Parts, s.Messages, s.UsedAt, s.UpdatedAt = d.Part, 1, d.Messages, at, at
	case Compact:
		s.History, s.Parts, s.Messages, s.UpdatedAt = d.Part, 1, d.Messages, at
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
