package jet

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
)

// ErrInputFull means that a station takes no more of what outsiders say, until its services have worked off what waits.
var ErrInputFull = errors.New("the input of the station is full")

// PublishAt is Publish that tells where in IN the message is stored: events that come of it name that position.
func (s *Station) PublishAt(ctx context.Context, subject string, data []byte,
	header map[string]string) (seq uint64, err error) {
	m := &nats.Msg{Subject: subject, Data: data}
	for k, v := range header {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(k, v)
	}
	if seq, err = s.c.publish(ctx, m, topology.In(s.name)); err != nil {
		if outcome(err, 0).Outcome == kernel.Full {
			err = fmt.Errorf("%w: %w", ErrInputFull, err)
		}
		return 0, fmt.Errorf("publish on %s: %w", subject, err)
	}
	return seq, nil
}
