package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
)

// Damage is what the station has lost of its store.
type Damage = storecheck.Status

// Damage returns what the station knows of losses of its store, and what its log shows now. A station that was never checked, and
// one in a local store, tells nothing but that.
func (c *Client) Damage(ctx context.Context) (Damage, error) {
	var d Damage
	if c.conn == nil {
		return d, nil
	}
	b, err := c.st.Shelf(topology.ConfigBucket).Get(ctx, topology.DamageKey)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil && !errors.Is(err, reactor.ErrNotFound) && !errors.Is(err, ErrDenied) {
		return d, fmt.Errorf("what the station says of its store: %w", err)
	}
	log, err := c.st.Log(ctx)
	if err != nil {
		return d, err
	}
	if holes := holesBeyond(log, d.Deleted); holes != "" && len(d.Lost) == 0 {
		d.Lost = append(d.Lost, holes)
	}
	return d, nil
}

// holesBeyond says what is missing in the log beside the empty positions that a person has accepted.
func holesBeyond(log jet.LogState, accepted uint64) string {
	if log.Deleted > 0 && uint64(log.Deleted) <= accepted && log.First <= 1 {
		return ""
	}
	return log.Holes()
}
