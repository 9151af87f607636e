package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// MergeQueues are the merge queues of the station.
type MergeQueues struct{ c *Client }

// NewMergeQueues returns the merge queues of the station of a client.
func NewMergeQueues(c *Client) MergeQueues { return MergeQueues{c} }

// List lists the merge queues of the station by id.
func (qs MergeQueues) List(ctx context.Context) ([]events.MergeQueue, error) {
	all, err := rows[events.MergeQueue](ctx, qs.c, topology.SessionBucket, events.QueueRows)
	if err != nil {
		return nil, fmt.Errorf("list merge queues: %w", err)
	}
	return all, nil
}

// Get returns a merge queue; ErrNotFound where there is none.
func (qs MergeQueues) Get(ctx context.Context, id string) (events.MergeQueue, error) {
	q, err := qs.get(ctx, id)
	if err == nil && q.ID == "" {
		err = notFound("merge queue", id)
	}
	return q, err
}

func (qs MergeQueues) get(ctx context.Context, id string) (q events.MergeQueue, err error) {
	if err := events.CheckID("merge queue", id); err != nil {
		return q, err
	}
	b, err := qs.c.st.KV(topology.SessionBucket).Get(ctx, events.QueueRows+id)
	if errors.Is(err, kernel.ErrNotFound) {
		return q, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil {
		return q, fmt.Errorf("merge queue %s: %w", id, err)
	}
	return q, nil
}

// Control does something to a merge queue and returns it with that done: add makes it, retry has an entry that waits
// tried at once, and drop takes one out. It returns a *RefusedError with the code unknown_queue, unknown_entry,
// queue_exists, or entry_running where a run tests the entry.
func (qs MergeQueues) Control(ctx context.Context, id string, ctl events.QueueControl) (events.MergeQueue, error) {
	if err := events.CheckID("merge queue", id); err != nil {
		return events.MergeQueue{}, err
	}
	return controlled(ctx, qs.c, "merge queue "+id, events.QueueSubject(qs.c.st.Name(), id), ctl,
		func(ctx context.Context) (events.MergeQueue, error) { return qs.get(ctx, id) }, events.MergeQueue.Took)
}
