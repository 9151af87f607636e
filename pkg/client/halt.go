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

// Halts are the emergency stop of the station.
type Halts struct{ c *Client }

// NewHalts returns the emergency stop of the station of a client.
func NewHalts(c *Client) Halts { return Halts{c} }

// Get says whether the station is halted; the zero value where it never was.
func (hs Halts) Get(ctx context.Context) (h events.Halt, err error) {
	b, err := hs.c.st.KV(topology.SessionBucket).Get(ctx, events.HaltRow)
	if errors.Is(err, kernel.ErrNotFound) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		return h, fmt.Errorf("halts: %w", err)
	}
	return h, nil
}

// Control halts the station or releases it, and returns once that is recorded. It returns a *RefusedError with the code
// already_halted, not_halted, stale_release where another halt is in force than the one that was meant, station_moved
// where a station that has moved is to be released, or not_moved.
func (hs Halts) Control(ctx context.Context, ctl events.HaltControl) (events.Halt, error) {
	if err := ctl.Check(); err != nil {
		return events.Halt{}, err
	}
	return controlled(ctx, hs.c, ctl.Action, events.HaltSubject(hs.c.st.Name()), ctl, hs.Get, events.Halt.Took)
}
