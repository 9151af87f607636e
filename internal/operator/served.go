package operator

import (
	"context"
	"errors"
	"time"

	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/tool/wire"
)

// ErrNoNATS means that a station has no NATS, so that no program elsewhere serves it tools.
var ErrNoNATS = errors.New("the station runs without NATS, so no program serves tools to it")

// Served asks all programs that serve tools to a station what they serve, and gathers what is answered within wait. A
// tool comes once for each program that serves it.
func Served(ctx context.Context, c *client.Client, wait time.Duration) ([]wire.Spec, error) {
	st, ok := c.Inside().(interface {
		Served(ctx context.Context) ([]wire.Spec, error)
	})
	if !ok {
		return nil, ErrNoNATS
	}
	soon, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	specs, err := st.Served(soon)
	return specs, errors.Join(err, ctx.Err())
}
