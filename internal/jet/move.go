package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Identity is when the stream of the log was made, which no other log of that name shares. It returns
// ErrNotSetUp where there is no such stream.
func (s *Station) Identity(ctx context.Context) (string, error) {
	var info struct {
		Created time.Time `json:"created"`
	}
	err := taken(ctx, func() error { return s.c.api(ctx, "STREAM.INFO."+topology.Log(s.name), nil, &info) })
	if code(err) == codeStreamNotFound {
		return "", fmt.Errorf("%w: station %s has no log there", ErrNotSetUp, s.name)
	}
	if err != nil {
		return "", fmt.Errorf("log of station %s: %w", s.name, err)
	}
	return info.Created.UTC().Format(time.RFC3339Nano), nil
}

// Worked reports a role that waits for messages of the station at this moment; empty where none does. A role that is
// halted waits for none.
func (s *Station) Worked(ctx context.Context) (events.Service, error) {
	for _, role := range events.Services() {
		for _, co := range topology.Consumers(s.name, role) {
			var there jetstream.ConsumerInfo
			err := s.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there)
			if c := code(err); c == codeStreamNotFound || c == codeNotFound {
				continue
			}
			if err != nil {
				return "", fmt.Errorf("ask about consumer %s of %s: %w", co.Name, co.Stream, err)
			}
			if there.NumWaiting > 0 {
				return role, nil
			}
		}
	}
	return "", nil
}

// StorageLeft is how many bytes the account of the connection may still store; ok is false where that is not known.
func (s *Station) StorageLeft(ctx context.Context, replicas int) (left int64, ok bool, err error) {
	l, err := s.limits(ctx, replicas)
	if err != nil || l == nil || l.Store <= 0 {
		return 0, false, err
	}
	return max(0, l.Store-l.UsedStore), true, nil
}
