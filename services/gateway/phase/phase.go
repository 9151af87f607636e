// Package phase says how a run stands in the one way that all protocols of others translate into their own words.
package phase

import (
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Phase of a run.
type Phase string

// The phases. Completed, Failed and Stopped are ends.
const (
	// Queued is a run that has not begun.
	Queued  Phase = "queued"
	Working Phase = "working"
	// Waiting is a run with gates that wait for an answer, whatever else it does meanwhile.
	Waiting Phase = "waiting"
	// Paused is a run that goes on when somebody resumes it.
	Paused    Phase = "paused"
	Completed Phase = "completed"
	Failed    Phase = "failed"
	// Stopped is a run that somebody ended.
	Stopped Phase = "stopped"
)

// Of is the phase of a run.
func Of(s run.State) Phase {
	reason := ""
	if s.Result != nil {
		reason = s.Result.FinishReason
	}
	return of(s.Status, reason, len(s.Waiting()) > 0)
}

// OfInfo is the phase of a run as its row in the index has it.
func OfInfo(i run.Info) Phase { return of(i.Status, i.FinishReason, len(i.Gates) > 0) }

func of(status events.Status, reason string, waits bool) Phase {
	switch status {
	case events.Completed:
		return Completed
	case events.Failed:
		if reason == events.FinishStopped || reason == events.FinishCancelled {
			return Stopped
		}
		return Failed
	case events.Paused:
		return Paused
	case events.Created:
		return Queued
	case events.Running:
	}
	if waits {
		return Waiting
	}
	return Working
}

// Ended reports whether nothing follows.
func (p Phase) Ended() bool { return p == Completed || p == Failed || p == Stopped }

// Rests reports whether the run does nothing more by itself: it has ended, is paused, or waits for a person.
func (p Phase) Rests() bool { return p.Ended() || p == Paused || p == Waiting }
