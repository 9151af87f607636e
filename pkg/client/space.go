package client

import (
	"context"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// SpaceOf returns what the streams of the station of a client take; nothing for a station without NATS, which is one
// file.
func SpaceOf(ctx context.Context, c *Client) ([]events.Space, error) {
	st, ok := c.st.(interface {
		Space(ctx context.Context, now time.Time) ([]events.Space, error)
	})
	if !ok {
		return nil, nil
	}
	return st.Space(ctx, time.Now())
}
