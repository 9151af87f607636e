package team

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// handIn hands in the work item that a run holds, as inspan deliver does for whoever assigns it. The item is that of
// the run, whatever its arguments say, and who asks is its address, or its definition where it has none.
func (p mailCalls) handIn(ctx context.Context, runID string, s run.State, d *events.MailRequestedData,
	owed func() (bool, error)) (events.MailAnswer, error) {
	refused := func(code, reason, hint string) (events.MailAnswer, error) {
		return events.MailAnswer{Output: fmt.Sprintf("refused (%s): %s. %s", code, reason, hint)}, nil
	}
	a, of := p.work, s.Created.Work
	if a == nil {
		return refused(work.Unknown, "this station has no work items", "finish with the result")
	}
	if g := s.Created.Git; g == nil || !g.Push {
		return refused(work.BadMove, "this run pushes nothing at its end",
			"git.push of its agent or of its task switches that on")
	}
	by := s.AgentName
	if s.Created.Address != nil {
		by = s.Created.Address.Address
	}
	item, err := a.Change(ctx, of.Work, func(now work.State) (work.State, error) {
		if is, err := owed(); err != nil || !is {
			return now, err
		}
		if b := now.Binding; b != nil && b.Deliver == nil {
			with := b.WorkDispatch
			with.Deliver = d.Request.Deliver
			if err := a.deliverable(ctx, with); err != nil {
				return now, err
			}
		}
		return work.HandIn(now, &events.DeliveryRequestedData{Epoch: of.Epoch, Run: runID, Call: d.Call,
			Deliver: *d.Request.Deliver, By: by},
			a.Now().UTC())
	})
	if no, is := errors.AsType[*work.Refused](err); is {
		return refused(no.Code, no.Reason, no.Hint)
	}
	if no, is := errors.AsType[*kernel.Refusal](err); is {
		return refused(no.Code, no.Reason, no.Hint)
	}
	if err != nil {
		return events.MailAnswer{}, err
	}
	return events.MailAnswer{Success: true,
		Output: fmt.Sprintf("work item %s is handed in: once this run is complete, its branch goes to %s",
			item.ID, cmp.Or(d.Request.Deliver.Queue, "the remote"))}, nil
}
