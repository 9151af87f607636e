package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/jet/callout"
	"github.com/inspan/inspan/internal/topology"
)

const (
	// calloutWorkers is how many connections are judged at the same time, maxCallouts how many wait for that. The server
	// refuses who is not answered in time.
	calloutWorkers = 16
	maxCallouts    = 1024
	// calloutQueue has one of several instances answer.
	calloutQueue = "callout"
)

// Callouts answers the server's questions who a connection is.
type Callouts struct{ c *Conn }

// CalloutsOf returns that of a connection of the user topology.CalloutUser.
func CalloutsOf(c *Conn) Callouts { return Callouts{c} }

// Serve answers until ctx ends. ready, which may be nil, is called once the server knows of it. Questions that come
// faster than they are answered are dropped, and those who asked are refused.
func (s Callouts) Serve(ctx context.Context, desk *callout.Desk, ready func()) error {
	waiting := make(chan *nats.Msg, maxCallouts) // closed by no one: the workers end with ctx
	sub, err := s.c.nc.ChanQueueSubscribe(topology.CalloutSubject, calloutQueue, waiting)
	if err == nil {
		err = s.c.nc.FlushTimeout(requestWait)
	}
	if err != nil {
		return fmt.Errorf("auth callout: subscribe to %s: %w", topology.CalloutSubject, err)
	}
	if ready != nil {
		ready()
	}
	var workers sync.WaitGroup
	for range calloutWorkers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-waiting:
					s.answer(ctx, desk, m)
				}
			}
		})
	}
	workers.Wait()
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("auth callout: %w", err)
	}
	return nil
}

// answer answers one question, and says in the log who was let in or refused.
func (s Callouts) answer(ctx context.Context, desk *callout.Desk, m *nats.Msg) {
	log := s.c.cfg.Log
	reply, name, err := desk.Answer(ctx, m.Data)
	switch {
	case err == nil:
		log.Info().Str("person", name).Msg("person let in")
	case errors.Is(err, callout.ErrNoToken): // as any client that the server does not know
		log.Debug().Err(err).Msg("connection refused")
	default:
		log.Warn().Err(err).Msg("person refused")
	}
	if reply != nil {
		_ = m.Respond(reply) // the server refuses whom it has no answer about
	}
}
