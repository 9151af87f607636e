package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Consumers puts consumers of a station back to messages that their services have not worked off. It is for
// topology.Reviver.
type Consumers struct{ c *Conn }

// Consumers returns what puts consumers back.
func (c *Conn) Consumers() Consumers { return Consumers{c} }

// maxAgain is how many messages a consumer may have to receive again so that the open ones among them are received at
// once. A consumer is put back to the first open one: with one that has been put off for long, all that came after it
// is received again.
const maxAgain = 4096

// RedeliverOpen gives out at once what the roles of a station were given and have not acknowledged, not only when its
// time is up. It is for whoever knows that all of them are gone, as with a server in the process that they were in;
// topology.Reviver may. What was received already may be received again, as after any crash.
func (cs Consumers) RedeliverOpen(ctx context.Context, station string) error {
	if err := events.CheckID("station", station); err != nil {
		return err
	}
	for _, role := range events.Services() {
		for _, co := range topology.Consumers(station, role) {
			if err := cs.c.patiently(ctx, func() error { return cs.redeliverOpen(ctx, co) }); err != nil {
				return fmt.Errorf("give out again what consumer %s of %s has open: %w", co.Name, co.Stream, err)
			}
		}
	}
	return nil
}

// redeliverOpen puts a consumer back to the first message that is open, if there is one.
func (cs Consumers) redeliverOpen(ctx context.Context, co topology.Consumer) error {
	var there jetstream.ConsumerInfo
	if err := cs.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there); err != nil {
		return err
	}
	if again := there.Delivered.Consumer - there.AckFloor.Consumer; there.NumAckPending == 0 || again > maxAgain {
		return nil
	}
	return cs.c.api(ctx, "CONSUMER.RESET."+co.Stream+"."+co.Name, nil, nil)
}
