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

// OnEnd calls back with the id of each run that may have ended. It hears what is being appended, so it may be told of
// an end that the log then refuses: a hint, to be followed by a look at the log.
func (s *Station) OnEnd(hint func(runID string)) (stop func(), err error) {
	var stops []func()
	for _, k := range []events.Kind{events.RunFailed, events.RunCompleted} {
		one, err := s.WatchSubject(events.RunEventsOfKind(s.name, k), func(subject string, _ []byte) {
			if p, ok := events.ParseRunSubject(subject); ok {
				hint(p.Run)
			}
		})
		if err != nil {
			for _, st := range stops {
				st()
			}
			return nil, err
		}
		stops = append(stops, one)
	}
	return func() {
		for _, st := range stops {
			st()
		}
	}, nil
}

// SubscribeRepublished calls back with every event of the station's runs as it is stored, from now on, until stop is called. What
// comes while the connection is away is missed.
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
