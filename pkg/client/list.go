package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

const (
	runPrefix   = "run."
	agentPrefix = topology.AgentKeys
	// lookers is how many rows are fetched side by side.
	lookers = 32
)

// Agents lists the registered agents by name.
func (c *Client) Agents(ctx context.Context) ([]events.Agent, error) {
	agents, err := rows[events.Agent](ctx, c.st.KV(topology.ConfigBucket), agentPrefix)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agents, nil
}

// rows fetches all values below a prefix, in the order of their keys. One that is deleted meanwhile is left out.
func rows[T any](ctx context.Context, kv kernel.KV, prefix string) ([]T, error) {
	keys, err := kv.Keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	found, errs := make([]*T, len(keys)), make([]error, len(keys))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(lookers, len(keys)) {
		workers.Go(func() {
			for i := range next {
				found[i], errs[i] = row[T](ctx, kv, keys[i])
			}
		})
	}
	for i := range keys {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := make([]T, 0, len(keys))
	for _, v := range found {
		if v != nil {
			all = append(all, *v)
		}
	}
	return all, nil
}

func row[T any](ctx context.Context, kv kernel.KV, key string) (*T, error) {
	b, err := kv.Get(ctx, key)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, fmt.Errorf("row %s: %w", key, err)
	}
	return v, nil
}

// Object fetches what an event refers to, with its digest checked; ErrNotFound where it is not there.
func (c *Client) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	b, err := c.st.Blobs().Get(ctx, ref)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, notFound("object", ref.SHA256)
	}
	return b, err
}
