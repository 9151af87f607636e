package planner

import (
	"errors"
	"time"

	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/services/planner/part"
)

// signal is what becomes of a message that a step may wait for (PLAN-12).
func signal(runID string, c events.Control, input uint64) (runlog.Decide, error) {
	if fault := plan.CheckSignal(c.Signal, c.Data); fault != "" {
		return nil, part.Named(runID, kernel.Refuse("bad_input", `send {"action":"signal","signal":"NAME","data":...}`, "%s", fault))
	}
	g := plan.Signal{Name: c.Signal, Data: c.Data, By: part.OrUnknown(c.By), Input: input}
	return func(s run.State, _ time.Time) ([]events.Payload, error) {
		say, err := plan.Signalled(s, g)
		if bad, ok := errors.AsType[*plan.SignalError](err); ok {
			return nil, part.Named(runID, kernel.Refuse(bad.Code, bad.Hint, "%s", bad.Text))
		}
		return say, err
	}, nil
}
