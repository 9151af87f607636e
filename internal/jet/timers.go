package jet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	c       *Conn
	station string
}

var _ kernel.Timers = timers{}

// Set implements kernel.Timers. A time that has come fires at once, from here; the server's own schedules fire up to
// a quarter of a second late, and never earlier than a quarter of a second after they were set.
func (t timers) Set(ctx context.Context, run, name string, at time.Time) error {
	family, err := t.check(run, name)
	if err != nil {
		return err
	}
	timer, due := events.TimerSubject(t.station, run, name), events.DueSubject(t.station, run, name)
	ttl := strconv.FormatInt(int64(topology.DueAge/time.Second), 10) + "s"
	m := &nats.Msg{Subject: timer, Header: nats.Header{
		headerSchedule:       {"@at " + at.UTC().Format(time.RFC3339Nano)},
		headerScheduleTarget: {due},
		headerScheduleTTL:    {ttl},
		headerScheduleRollup: {"sub"}, // a firing replaces one that nobody has heard yet
	}}
	if !at.After(time.Now()) {
		// This is what the server itself publishes when a schedule fires; it removes the schedule of that name too.
		m = &nats.Msg{Subject: due, Header: nats.Header{
			headerScheduler: {timer}, headerScheduleNext: {"purge"}, headerTTL: {ttl}, headerRollup: {"sub"},
		}}
	}
	if _, err := t.c.publish(ctx, m, topology.Tmr(t.station, family)); err != nil {
		return fmt.Errorf("set timer %s of run %s: %w", name, run, err)
	}
	return nil
}

// check returns the family of a timer.
func (t timers) check(run, name string) (family string, err error) {
	if err := events.CheckID("run", run); err != nil {
		return "", err
	}
	family, id, ok := strings.Cut(name, ".")
	if !ok || !events.ValidID(family) || !events.ValidID(id) {
		return "", fmt.Errorf("timer %q: want {family}.{id}", name)
	}
	for _, h := range topology.Hearing() {
		if slices.Contains(h.Timers, family) {
			return family, nil
		}
	}
	return "", fmt.Errorf("timer %q: no role hears timers of family %q", name, family)
}
