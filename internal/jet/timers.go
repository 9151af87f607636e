package jet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// The headers of a schedule. They are written by hand because the client library cuts the time to whole seconds.
const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
	headerScheduleTTL    = "Nats-Schedule-TTL"
	headerScheduleRollup = "Nats-Schedule-Rollup"
	headerScheduler      = "Nats-Scheduler"
	headerScheduleNext   = "Nats-Schedule-Next"
	headerTTL            = "Nats-TTL"
	headerRollup         = "Nats-Rollup"
)

// timers are schedules in the server: they fire while all services are away, and a firing waits for its role.
type timers struct {
	c                  *Conn
	station, aggregate string
}

var _ kernel.Timers = timers{}

// Set implements kernel.Timers. A time that has come fires at once, from here; the server's own schedules fire up to
// a quarter of a second late, and never earlier than a quarter of a second after they were set.
func (t timers) Set(ctx context.Context, id, name string, at time.Time, after uint64) error {
	if err := events.CheckID(t.aggregate, id); err != nil {
		return err
	}
	family, name, err := kernel.TimerName(t.aggregate, name)
	if err != nil {
		return err
	}
	if _, ok := topology.ReceiverOfTimer(family); !ok {
		return fmt.Errorf("timer %q: no role receives timers of family %q", name, family)
	}
	timer, due := events.TimerSubject(t.station, id, name), events.DueSubject(t.station, id, name)
	ttl := strconv.FormatInt(int64(topology.DueAge/time.Second), 10) + "s"
	m := &nats.Msg{Subject: timer, Header: nats.Header{
		headerSchedule:       {"@at " + at.UTC().Format(time.RFC3339Nano)},
		headerScheduleTarget: {due},
		headerScheduleTTL:    {ttl},
		headerScheduleRollup: {"sub"}, // a firing replaces one that no one has received yet
	}}
	if !at.After(time.Now()) {
		// This is what the server itself publishes when a schedule fires; it removes the schedule of that name too.
		m = &nats.Msg{Subject: due, Header: nats.Header{
			headerScheduler: {timer}, headerScheduleNext: {"purge"}, headerTTL: {ttl}, headerRollup: {"sub"},
		}}
	}
	if after > 0 {
		m.Header.Set(kernel.AfterHeader, strconv.FormatUint(after, 10)) // a firing has it, too
	}
	if _, err := t.c.publish(ctx, m, topology.Tmr(t.station, family)); err != nil {
		return fmt.Errorf("set timer %s of %s %s: %w", name, t.aggregate, id, err)
	}
	return nil
}
