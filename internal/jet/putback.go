package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/storecheck"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// PutBack has consumers of a station give out again all that is not known to be acknowledged: back has the last
// position that is, by the key of the stream and by consumer. A consumer that is beyond the end of its stream, whose
// end was lost, is put back to the end. Like RedeliverOpen it is for the topology.Reviver.
func (cs Consumers) PutBack(ctx context.Context, station string, streams map[string]storecheck.Stream,
	back map[string]map[string]uint64) error {
	if err := events.CheckID("station", station); err != nil {
		return err
	}
	for _, role := range events.Services() {
		for _, co := range topology.Consumers(station, role) {
			key := storecheck.Key(topology.StreamsAccount(station), co.Stream)
			floor, named := back[key][co.Name]
			if err := cs.c.patiently(ctx, func() error {
				return cs.putBack(ctx, co, streams[key].Last, floor, named)
			}); err != nil {
				return fmt.Errorf("put consumer %s of %s back to position %d: %w", co.Name, co.Stream, floor, err)
			}
		}
	}
	return nil
}

func (cs Consumers) putBack(ctx context.Context, co topology.Consumer, last, floor uint64, named bool) error {
	var there jetstream.ConsumerInfo
	if err := cs.c.api(ctx, "CONSUMER.INFO."+co.Stream+"."+co.Name, nil, &there); err != nil {
		return err
	}
	reached := max(there.Delivered.Stream, there.AckFloor.Stream)
	switch {
	case reached > last:
		floor = min(floor, last)
		if !named {
			floor = last
		}
	case !named || reached <= floor:
		return nil
	}
	return cs.c.api(ctx, "CONSUMER.RESET."+co.Stream+"."+co.Name, map[string]uint64{"seq": min(floor, last) + 1}, nil)
}
