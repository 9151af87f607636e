package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Station is one station as seen through a connection. It holds nothing but names and is safe for concurrent use.
type Station struct {
	c    *Conn
	name string
}

// Station returns a station; it does not look whether it is set up. It returns an *events.IDError for a name that can
// not be part of a subject.
func (c *Conn) Station(station string) (*Station, error) {
	if err := events.CheckID("station", station); err != nil {
		return nil, err
	}
	return &Station{c: c, name: station}, nil
}

// Name returns the station's id.
func (s *Station) Name() string { return s.name }

// Journal returns the log of the runs of the station.
func (s *Station) Journal() kernel.Journal { return s.JournalFor(events.RunAggregate) }

// JournalFor returns the log of the aggregates of a name, one of topology.Aggregates.
func (s *Station) JournalFor(aggregate string) kernel.Journal {
	return newJournal(s.c, s.name, aggregate)
}

// Inbox returns the deliveries of all roles.
func (s *Station) Inbox() kernel.Inbox { return inbox{c: s.c, station: s.name} }

// InboxWithoutLog returns the deliveries of all roles but the events of the log.
func (s *Station) InboxWithoutLog() kernel.Inbox {
	return inbox{c: s.c, station: s.name, withoutLog: true}
}

// HaltInbox returns the deliveries that a role receives also while the station is halted; Inbox and InboxWithoutLog
// leave them out.
func (s *Station) HaltInbox() kernel.Inbox { return inbox{c: s.c, station: s.name, always: true} }

// Timers returns the timers of the station's runs.
func (s *Station) Timers() kernel.Timers { return s.TimersFor(events.RunAggregate) }

// TimersFor returns the timers of the aggregates of a name.
func (s *Station) TimersFor(aggregate string) kernel.Timers {
	return timers{c: s.c, station: s.name, aggregate: aggregate}
}

// Blobs returns the object store.
func (s *Station) Blobs() kernel.Blobs {
	return blobs{c: s.c, bucket: s.c.cfg.Buckets.Of(topology.FilesBucket), scope: s.name}
}

// Shelf returns the station's part of a bucket, which is named by its constant in topology also where it has another
// name on the server: topology.StateBucket or topology.ConfigBucket.
func (s *Station) KV(bucket string) kernel.KV {
	return kv{c: s.c, bucket: s.c.cfg.Buckets.Of(bucket), station: s.name}
}

// Leases returns the leases of the station's instances.
func (s *Station) Leases() kernel.Leases { return leases{c: s.c, station: s.name} }

// Live returns the outlet of what is not kept.
func (s *Station) Live() kernel.Live {
	return live{c: s.c, station: s.name, subject: events.LiveSubject}
}

// Kept returns the outlet of what the server keeps for a while and publishes live as it does; see Told.
func (s *Station) Retained() kernel.Live {
	return live{c: s.c, station: s.name, subject: events.RetainedSubject}
}

// Refusals returns the dead-letter list.
func (s *Station) Refusals() kernel.Refusals { return refusals{c: s.c, station: s.name} }

// Publish says something as an outsider and returns once it is stored in IN. header may be nil. An error other than
// ErrDenied leaves open whether it was stored: whoever publishes again should give the task an id.
func (s *Station) Publish(ctx context.Context, subject string, data []byte, header map[string]string) error {
	m := &nats.Msg{Subject: subject, Data: data}
	for k, v := range header {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(k, v)
	}
	if _, err := s.c.publish(ctx, m, topology.In(s.name)); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	return nil
}
