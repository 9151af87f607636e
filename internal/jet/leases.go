package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
)

// leases are keys that the server forgets after the term. They are read from the leader: a replica that is behind
// would report an instance that has just begun as dead.
type leases struct {
	c       *Conn
	station string
}

var _ kernel.Leases = leases{}

func (l leases) subject(instance string) string {
	return "$KV." + topology.LeaseBucket + "." + l.station + "." + instance
}

// Renew implements kernel.Leases.
func (l leases) Renew(ctx context.Context, instance string) error {
	if err := validInstance(instance); err != nil {
		return err
	}
	m := &nats.Msg{Subject: l.subject(instance), Data: []byte(time.Now().UTC().Format(time.RFC3339Nano))}
	if _, err := l.c.publish(ctx, m, topology.KVStream(topology.LeaseBucket)); err != nil {
		return fmt.Errorf("renew the lease of %s: %w", instance, err)
	}
	return nil
}

// Alive implements kernel.Leases.
func (l leases) Alive(ctx context.Context, instance string) (bool, error) {
	if err := validInstance(instance); err != nil {
		return false, err
	}
	_, err := l.c.lastFromLeader(ctx, topology.KVStream(topology.LeaseBucket), l.subject(instance))
	if errors.Is(err, kernel.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", instance, err)
	}
	return true, nil
}
