package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Health is what a station tells anybody who asks.
type Health struct {
	ServerVersion string `json:"server_version"`
	// Durability in words; SyncAlways is true only where the server said so.
	Durability string `json:"durability"`
	SyncAlways bool   `json:"sync_always"`
	// Services counts the running instances by role.
	Services map[string]int `json:"services"`
}

// Health asks the server and, through $SRV.PING, the services.
func (c *Client) Health(ctx context.Context) (Health, error) {
	if c.conn == nil {
		h := Health{ServerVersion: "none, a local store", SyncAlways: true, Services: map[string]int{}}
		if st, ok := c.st.(interface{ Durability() string }); ok {
			h.Durability = st.Durability()
		}
		return h, nil
	}
	d, err := c.conn.Servers().Durability(ctx)
	if err != nil {
		return Health{}, err
	}
	h := Health{ServerVersion: d.ServerVersion, SyncAlways: d.SyncAlways, Services: map[string]int{}}
	switch {
	case d.SyncAlways:
		h.Durability = "sync always"
	case d.Known:
		h.Durability = "lazy, syncs every " + d.Interval.String()
	default:
		h.Durability = "unknown"
		if b, err := c.st.KV(topology.ConfigBucket).Get(ctx, topology.DurabilityKey); err == nil {
			// What the services found at start, as only they are told.
			h.Durability, h.SyncAlways = string(b), strings.HasPrefix(string(b), "sync always")
		}
	}
	answers, err := c.conn.Services().Ping(ctx)
	if err != nil {
		return h, fmt.Errorf("ask for services: %w", err)
	}
	for _, a := range answers {
		var s struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(a, &s) == nil {
			if role, ok := strings.CutPrefix(s.Name, "inspan-"); ok {
				h.Services[role]++
			}
		}
	}
	return h, nil
}

// Queue is how much a role of the station has to do.
type Queue struct {
	Role string `json:"role"`
	// Waiting messages are not delivered yet, Open ones are being worked on.
	Waiting uint64 `json:"waiting"`
	Open    uint64 `json:"open"`
	// Delivered is when the role was last given a message, zero where that is not known.
	Delivered time.Time `json:"delivered_at,omitzero"`
}

// Queues asks how much each role has to do, in their order. A local store has no queues.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	if c.conn == nil {
		return nil, nil
	}
	var out []Queue
	for _, role := range events.Services() {
		d, err := c.conn.Consumers().Depth(ctx, c.st.Name(), role)
		if err != nil {
			return out, fmt.Errorf("queue of the %s: %w", role, err)
		}
		out = append(out, Queue{Role: string(role), Waiting: d.Waiting, Open: d.Open, Delivered: d.Delivered})
	}
	return out, nil
}
