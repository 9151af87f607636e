package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/topology"
)

// Say is Publish that tells where in IN the message is stored: facts that come of it name that position.
func (s *Station) Say(ctx context.Context, subject string, data []byte, header map[string]string) (seq uint64, err error) {
	m := &nats.Msg{Subject: subject, Data: data}
	for k, v := range header {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(k, v)
	}
	if seq, err = s.c.publish(ctx, m, topology.In(s.name)); err != nil {
		return 0, fmt.Errorf("publish on %s: %w", subject, err)
	}
	return seq, nil
}
