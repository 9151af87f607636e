package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// pingWait is how long answers of services are gathered: those that are there answer within it.
const pingWait = 300 * time.Millisecond

// Ping returns the answers of all micro services, as JSON.
func (s Services) Ping(ctx context.Context) ([][]byte, error) {
	arrived := make(chan *nats.Msg, 1024) // more services than one station has
	inbox := s.c.nc.NewInbox()
	sub, err := s.c.nc.ChanSubscribe(inbox, arrived)
	if err != nil {
		return nil, fmt.Errorf("ping services: %w", err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // it fails only on a closed connection, where it is gone anyway
	if err := s.c.nc.PublishRequest("$SRV.PING", inbox, nil); err != nil {
		return nil, fmt.Errorf("ping services: %w", err)
	}
	until := time.After(pingWait)
	var answers [][]byte
	for {
		select {
		case m := <-arrived:
			if len(m.Data) > 0 {
				answers = append(answers, m.Data)
			}
		case <-until:
			return answers, nil
		case <-ctx.Done():
			return answers, context.Cause(ctx)
		}
	}
}

// Answers returns nil where JetStream takes requests at the moment. It waits no longer than ctx says.
func (c *Conn) Answers(ctx context.Context) error {
	if !c.Connected() {
		return fmt.Errorf("no connection to %s", c.cfg.where())
	}
	return c.api(ctx, "INFO", nil, nil)
}
