package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Logged is an event of any aggregate as the log has it.
type Logged struct {
	Subject string
	Seq     uint64
	Time    time.Time
	// Whole is the value of kernel.WholeHeader, mostly empty.
	Whole string
	// Data must not be written to.
	Data []byte
}

// newLogged reads what the server stamped on a message of the log.
func newLogged(m *nats.Msg) (e Logged, err error) {
	e = Logged{Subject: stamped(m, "Nats-Subject"), Whole: m.Header.Get(kernel.WholeHeader), Data: m.Data}
	if e.Seq, err = number(m, "Nats-Sequence"); err != nil {
		return e, err
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, stamped(m, "Nats-Time-Stamp")); err != nil {
		return e, fmt.Errorf("%w: header Nats-Time-Stamp: %w", errTorn, err)
	}
	return e, nil
}

// ReadLog returns the events of all aggregates after a position, in order, at most a few hundred at a time; more says
// that there are others behind them.
func (s *Station) ReadLog(ctx context.Context, after uint64) (evs []Logged, more bool, err error) {
	return s.readLogged(ctx, topology.LoggedEvents(s.name), after)
}

// ReadKind is ReadLog for the events of one type of all runs.
func (s *Station) ReadKind(ctx context.Context, k events.Kind, after uint64) (evs []Logged, more bool, err error) {
	return s.readLogged(ctx, events.RunEventsOfKind(s.name, k), after)
}

func (s *Station) readLogged(ctx context.Context, filter string, after uint64) (evs []Logged, more bool, err error) {
	page, err := s.c.direct(ctx, topology.Log(s.name), directRequest{Seq: after + 1, NextFor: filter, Batch: pageEvents,
		MaxBytes: pageBytes})
	if err != nil {
		return nil, false, fmt.Errorf("read the log of station %s after %d: %w", s.name, after, err)
	}
	evs = make([]Logged, len(page.messages))
	for i, m := range page.messages {
		if evs[i], err = newLogged(m.Msg); err != nil {
			return nil, false, fmt.Errorf("read the log of station %s after %d: %w", s.name, after, err)
		}
	}
	return evs, page.pending > 0 && len(evs) > 0, nil
}

// WatchLog calls receive with the events of all aggregates as they are stored, from now on and in order, until stop is
// called. An event may be missed: the positions tell.
func (s *Station) WatchLog(receive func(Logged)) (stop func(), err error) {
	subject := topology.RepublishedEvents(s.name)
	sub, err := s.c.nc.Subscribe(subject, func(m *nats.Msg) {
		if e, err := newLogged(m); err == nil {
			receive(e)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", subject, err)
	}
	stop = func() { _ = sub.Unsubscribe() } // it fails only where it is gone already
	if err := s.c.subscribed(context.Background(), subject); err != nil {
		stop()
		return nil, fmt.Errorf("watch %s: %w", subject, err)
	}
	return stop, nil
}

// Position returns the position of the log up to which a role has acknowledged all of its events.
func (cs Consumers) Position(ctx context.Context, station string, role events.Service) (uint64, error) {
	co, err := logConsumer(station, role)
	if err != nil {
		return 0, err
	}
	var there jetstream.ConsumerInfo
	if err := cs.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there); err != nil {
		return 0, fmt.Errorf("ask about consumer %s of %s: %w", co.Name, co.Stream, err)
	}
	return there.AckFloor.Stream, nil
}

// SetPosition has the consumer of a role go on behind a position of the log. What was delivered and not acknowledged
// behind it is delivered again.
func (cs Consumers) SetPosition(ctx context.Context, station string, role events.Service, position uint64) error {
	co, err := logConsumer(station, role)
	if err != nil {
		return err
	}
	if err := cs.c.api(ctx, "CONSUMER.RESET."+co.Stream+"."+co.Name, map[string]uint64{"seq": position + 1},
		nil); err != nil {
		return fmt.Errorf("set consumer %s of %s to position %d: %w", co.Name, co.Stream, position, err)
	}
	return nil
}

// logConsumer is the consumer of a role on the log.
func logConsumer(station string, role events.Service) (topology.Consumer, error) {
	for _, co := range topology.Consumers(station, role) {
		if co.Stream == topology.Log(station) {
			return co, nil
		}
	}
	return topology.Consumer{}, fmt.Errorf("%s has no consumer on the log of station %s", role, station)
}

// Depth is how much the consumers of a role have to do.
type Depth struct {
	// Waiting messages are not delivered yet, Open ones are delivered and not acknowledged.
	Waiting, Open uint64
	// Delivered is when the last message was; zero where that is not known.
	Delivered time.Time
}

// Depth returns that of all consumers of a role. Every watcher may ask.
func (cs Consumers) Depth(ctx context.Context, station string, role events.Service) (Depth, error) {
	var d Depth
	for _, co := range topology.Consumers(station, role) {
		var there jetstream.ConsumerInfo
		if err := cs.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there); err != nil {
			return Depth{}, fmt.Errorf("ask about consumer %s of %s: %w", co.Name, co.Stream, err)
		}
		d.Waiting += there.NumPending
		d.Open += uint64(max(there.NumAckPending, 0)) //nolint:gosec // not negative
		if last := there.Delivered.Last; last != nil && last.After(d.Delivered) {
			d.Delivered = *last
		}
	}
	return d, nil
}
