package lifecycle

import (
	"strings"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// stopFirst is the end of a run, or, while children of it live, that it is stopping: it ends when they have. Nothing is
// said of one that is stopping already.
func stopFirst(s run.State, r events.Result) []events.Payload {
	living := s.Living()
	switch {
	case len(living) == 0:
		return []events.Payload{&events.RunFailedData{Result: r}}
	case s.Stopping != nil:
		return nil
	}
	d := &events.RunStoppingData{Event: "run_stopping", From: s.Status, To: events.Paused, FinishReason: r.FinishReason,
		Error: r.Error, By: r.By, Input: r.Input}
	for _, c := range living {
		d.Children = append(d.Children, c.ID)
	}
	return []events.Payload{d}
}

// Childless is what follows in a run once the last of its children has ended: it ends where it was stopping, and goes
// on where it waited for them alone.
func Childless(s run.State, now time.Time) ([]events.Payload, error) {
	if len(s.Living()) > 0 || s.Status != events.Running && s.Stopping == nil || s.Plan == nil {
		return nil, nil
	}
	return Progress(s, now)
}

// Stopped ends a run that was stopping, once its children have ended; nothing before that.
func Stopped(s run.State, now time.Time) ([]events.Payload, error) {
	if s.Stopping == nil || len(s.Living()) > 0 || s.Status.Ended() {
		return nil, nil
	}
	r := end(s, now, s.Stopping.FinishReason, s.Stopping.Error, "")
	r.By = s.Stopping.By
	return []events.Payload{&events.RunFailedData{Result: r}}, nil
}

// untidied names the teardowns that a run which ends now does not carry out: those of steps that have begun.
func untidied(s run.State) string {
	if s.Plan == nil {
		return ""
	}
	var left []string
	for _, st := range s.Plan.Steps {
		if st.Flow == nil || !st.Flow.Always || st.Ended() {
			continue
		}
		var of []string
		for _, id := range st.Dependencies {
			if on := s.Step(id); on != nil && on.Begun() && on.Status != events.StepIsSkipped {
				of = append(of, id)
			}
		}
		if len(of) > 0 {
			left = append(left, "the teardown "+st.ID+" of "+strings.Join(of, ", "))
		}
	}
	return strings.Join(left, "; ")
}
