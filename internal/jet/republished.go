package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// WatchSubject calls hear for each message on a subject from now on, one after the other, until stop is called.
// Nothing is kept for a watcher that is away.
func (s *Station) WatchSubject(subject string, receive func(subject string, data []byte)) (stop func(), err error) {
	sub, err := s.c.nc.Subscribe(subject, func(m *nats.Msg) { receive(m.Subject, m.Data) })
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", subject, err)
	}
	if err := s.c.subscribed(context.Background(), subject); err != nil {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("watch %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// SubscribeRepublished calls back with every event of the station's runs as it is stored, from now on, until stop is
// called. What comes while the connection is away is missed.
func (s *Station) SubscribeRepublished(receive func(runID string, r kernel.Record)) (stop func(), err error) {
	return s.SubscribeRepublishedOf(events.RunAggregate, receive)
}

// SubscribeRepublishedOf is SubscribeRepublished for the aggregates of a name.
func (s *Station) SubscribeRepublishedOf(aggregate string,
	receive func(id string, r kernel.Record)) (stop func(), err error) {
	return s.watch(context.Background(), []string{events.AggregateStream(s.name, aggregate, "*")}, func(seen Seen) {
		receive(seen.Run, kernel.Record{Seq: seen.Seq, Kind: seen.Kind, Bytes: seen.Data})
	})
}
