package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

const (
	runPrefix   = "run."
	agentPrefix = topology.AgentKeys
)

// Agents lists the registered agents by name.
func (c *Client) Agents(ctx context.Context) ([]events.Agent, error) {
	agents, err := rows[events.Agent](ctx, c, topology.ConfigBucket, agentPrefix)
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	return agents, nil
}

// rows fetches all values below a prefix, in the order of their keys. One that is deleted meanwhile is left out.
func rows[T any](ctx context.Context, c *Client, bucket, prefix string) ([]T, error) {
	kv := c.st.KV(bucket)
	type row struct {
		key   string
		value T
	}
	var mu sync.Mutex
	var found []row
	err := kv.Each(ctx, prefix, func(key string, value []byte) error {
		r := row{key: key}
		if err := json.Unmarshal(value, &r.value); err != nil {
			return fmt.Errorf("row %s: %w", key, err)
		}
		mu.Lock()
		defer mu.Unlock()
		found = append(found, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return []T{}, seen(ctx, c, kv, prefix)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].key < found[j].key })
	all := make([]T, len(found))
	for i, r := range found {
		all[i] = r.value
	}
	return all, nil
}

// seen returns ErrForeign where an empty list says nothing: a bucket lists the names of other stations as an empty
// list, and refuses only to read them.
func seen(ctx context.Context, c *Client, kv kernel.KV, prefix string) error {
	_, err := kv.Get(ctx, prefix+"none")
	if errors.Is(err, ErrDenied) {
		return fmt.Errorf("station %s: %w: name credentials of it with --context or --creds, or the station of these with --station (inspan stations list): %w",
			c.st.Name(), ErrForeign, err)
	}
	if err != nil && !errors.Is(err, kernel.ErrNotFound) {
		return err
	}
	return nil
}

// Object fetches what an event refers to, with its digest checked; ErrNotFound where it is not there.
func (c *Client) Object(ctx context.Context, ref events.Ref) ([]byte, error) {
	b, err := c.st.Blobs().Get(ctx, ref)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, notFound("object", ref.SHA256)
	}
	return b, err
}
