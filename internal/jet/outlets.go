package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// live publishes what is no event, on the subject of a run. It never waits: without a connection the message is
// dropped.
type live struct {
	c       *Conn
	station string
	subject func(station, run string) string
}

var _ kernel.Live = live{}

// Publish implements kernel.Live.
func (l live) Publish(run string, data []byte) {
	if !events.ValidID(run) {
		return
	}
	_ = l.c.nc.Publish(l.subject(l.station, run), data) // no one may rely on it
}

// refusals is the dead-letter list.
type refusals struct {
	c       *Conn
	station string
}

var _ kernel.Refusals = refusals{}

// Refuse implements kernel.Refusals.
func (r refusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	b, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	if _, err := r.c.publish(ctx, &nats.Msg{Subject: events.DeadSubject(r.station, by), Data: b},
		topology.Dead(r.station)); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// Refused is a dead letter as stored.
type Refused struct {
	// Seq is its position in the list, By the service that refused it.
	Seq    uint64
	By     events.Service
	Letter kernel.DeadLetter
}

// Dead returns a page of the dead-letter list after a position, oldest first; more says that there are others behind.
func (s *Station) Dead(ctx context.Context, after uint64) (letters []Refused, more bool, err error) {
	prefix := "station." + s.name + ".dead."
	page, err := s.c.direct(ctx, topology.Dead(s.name), directRequest{Seq: after + 1, NextFor: prefix + "*",
		Batch: pageEvents, MaxBytes: pageBytes})
	if err != nil {
		return nil, false, fmt.Errorf("read dead letters after %d: %w", after, err)
	}
	for _, m := range page.messages {
		r := Refused{Seq: m.seq, By: events.Service(strings.TrimPrefix(stamped(m.Msg, "Nats-Subject"), prefix))}
		if err := json.Unmarshal(m.Data, &r.Letter); err != nil {
			return nil, false, fmt.Errorf("dead letter %d: %w", m.seq, err)
		}
		letters = append(letters, r)
	}
	return letters, page.pending > 0 && len(letters) > 0, nil
}
