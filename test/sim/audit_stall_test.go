package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// longest is how long a role may owe a run something: longer than an acknowledgement is awaited many times over, and
// shorter than the time that a run has.
const longest = 10 * time.Minute

// noTimeoutHidesAStall holds that no run was ended by its deadline while a role owed it, or a child that it waited for,
// something for long: whatever stands still ends so, and would pass for done.
func (a *audit) noTimeoutHidesAStall(id string) {
	log, timeout := a.w.st.Log(id), []byte(`"`+events.FinishTimeout+`"`)
	if !slices.ContainsFunc(log, func(r kernel.Record) bool { return bytes.Contains(r.Bytes, timeout) }) {
		return // most runs
	}
	var s run.State
	for _, r := range log {
		f, p, err := events.Read(r.Bytes)
		if err != nil {
			return // reported by others
		}
		reason := ""
		switch d := p.(type) {
		case *events.RunStoppingData:
			reason = d.FinishReason
		case *events.RunFailedData:
			if s.Stopping == nil {
				reason = d.FinishReason
			}
		default:
		}
		if reason == events.FinishTimeout {
			a.w.tale.counts["runs that timed out"]++
			a.owed(s, f.Time)
		}
		if s, err = s.Apply(r.Bytes); err != nil {
			return
		}
	}
}

// owed holds that no role owes a run something for long.
func (a *audit) owed(s run.State, now time.Time) {
	roles := []string{string(events.Planner), string(events.Gatekeeper), string(events.Executor), string(events.Toolrunner)}
	for _, w := range view.Waits(s, now) {
		switch {
		case w.On == view.OnChild && w.Child != "":
			if kid := a.asOf(w.Child, now); kid.Sequence > 0 && !kid.Status.Ended() {
				a.owed(kid, now)
			}
		case slices.Contains(roles, w.On) && now.Sub(w.Since) > longest:
			a.breaks("run %s was ended by its deadline, and stood still before: %s", s.HarnessID, w.Line(now))
		}
	}
}

// asOf is a run as it was just before a time.
func (a *audit) asOf(id string, at time.Time) (s run.State) {
	for _, r := range a.w.st.Log(id) {
		f, err := events.Decode(r.Bytes)
		if err != nil || !f.Time.Before(at) {
			break
		}
		next, err := s.Apply(r.Bytes)
		if err != nil {
			break
		}
		s = next
	}
	return s
}
