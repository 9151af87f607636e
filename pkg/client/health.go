package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/topology"
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
