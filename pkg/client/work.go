package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

// WorkItems are the work items of the station.
type WorkItems struct{ c *Client }

// NewWorkItems returns the work items of the station of a client.
func NewWorkItems(c *Client) WorkItems { return WorkItems{c} }

// List lists the work items of the station by id, closed ones too.
func (ws WorkItems) List(ctx context.Context) ([]events.WorkItem, error) {
	all, err := rows[events.WorkItem](ctx, ws.c, topology.SessionBucket, work.View().Prefix)
	if err != nil {
		return nil, fmt.Errorf("list work items: %w", err)
	}
	return all, nil
}

// Get returns a work item; ErrNotFound where there is none.
func (ws WorkItems) Get(ctx context.Context, id string) (events.WorkItem, error) {
	w, err := ws.get(ctx, id)
	if err == nil && w.ID == "" {
		err = notFound("work item", id)
	}
	return w, err
}

func (ws WorkItems) get(ctx context.Context, id string) (w events.WorkItem, err error) {
	if err := events.CheckID("work item", id); err != nil {
		return w, err
	}
	b, err := ws.c.st.KV(topology.SessionBucket).Get(ctx, work.View().Key(id))
	if errors.Is(err, kernel.ErrNotFound) {
		return w, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &w)
	}
	if err != nil {
		return w, fmt.Errorf("work item %s: %w", id, err)
	}
	return w, nil
}

// Control does something to a work item and returns it with that done: add makes it, assign binds it to an agent, start
// has the run of its binding begin, unassign clears the binding, note adds a note and close closes it. It returns a
// *RefusedError with the code work_taken where another agent holds the item, work_running where a run works on it,
// work_exists or unknown_work.
func (ws WorkItems) Control(ctx context.Context, id string, ctl events.WorkControl) (events.WorkItem, error) {
	if err := events.CheckID("work item", id); err != nil {
		return events.WorkItem{}, err
	}
	return controlled(ctx, ws.c, "work item "+id, events.WorkSubject(ws.c.st.Name(), id), ctl,
		func(ctx context.Context) (events.WorkItem, error) { return ws.get(ctx, id) }, events.WorkItem.Took)
}

// Began waits until the run of a binding has the item, and returns the item. It returns a *RefusedError where the task
// of the binding was refused, or the binding ended before.
func (ws WorkItems) Began(ctx context.Context, id string, epoch int) (events.WorkItem, error) {
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		w, err := ws.Get(ctx, id)
		switch {
		case err != nil:
			return w, err
		case w.Binding != nil && w.Binding.Epoch == epoch && w.Binding.Started:
			return w, nil
		case w.Last != nil && w.Last.Epoch == epoch && w.Last.Code != events.WorkCompleted &&
			w.Last.Code != events.WorkFailed:
			return w, &RefusedError{Code: w.Last.Code, Reason: w.Last.Reason, Hint: "inspan work show " + id}
		case w.Epoch > epoch || w.Last != nil && w.Last.Epoch == epoch:
			return w, nil // it began, and has ended
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return w, fmt.Errorf("work item %s: binding %d is recorded, but its run does not exist yet: %w", id, epoch,
				context.Cause(ctx))
		}
	}
}

// Ended waits until a binding has ended, and returns the item.
func (ws WorkItems) Ended(ctx context.Context, id string, epoch int) (events.WorkItem, error) {
	for wait := firstLook; ; wait = min(2*wait, quietMost) {
		w, err := ws.Get(ctx, id)
		if err != nil || w.Binding == nil || w.Binding.Epoch != epoch {
			return w, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return w, fmt.Errorf("work item %s: run %s has not ended yet: %w", id, w.Binding.Run, context.Cause(ctx))
		}
	}
}

// WorkEvent is one event of a work item.
type WorkEvent struct {
	At   time.Time   `json:"at"`
	Kind events.Kind `json:"kind"`
	// Line says in words what happened; Data is the payload.
	Line string         `json:"line"`
	Data events.Payload `json:"data"`
}

// History returns the events of a work item, the oldest first.
func (ws WorkItems) History(ctx context.Context, id string) (all []WorkEvent, err error) {
	if err := events.CheckID("work item", id); err != nil {
		return nil, err
	}
	log := ws.c.st.JournalFor(events.WorkAggregate)
	for after, more := uint64(0), true; more; {
		batch, next, err := log.Read(ctx, id, after)
		if err != nil {
			return nil, fmt.Errorf("read work item %s: %w", id, err)
		}
		for _, r := range batch {
			f, p, err := events.ReadAs(r.Bytes, events.WorkAggregate, events.LookupWork)
			if err != nil {
				return nil, fmt.Errorf("work item %s: %w", id, err)
			}
			kind, _ := events.LookupWork(p.Kind())
			all, after = append(all, WorkEvent{f.Time, p.Kind(), kind.Line(p), p}), r.Seq
		}
		more = next
	}
	if len(all) == 0 {
		return nil, notFound("work item", id)
	}
	return all, nil
}
