package station

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// Place is the station as runs are brought to it. as connects as the user of a role, where the server has users; each
// fact is then stored under the user who may say it. Whoever connected closes the connections.
func Place(ctx context.Context, name string, as func(context.Context, events.Service) (*jet.Conn, error)) (*archive.Place, error) {
	cfg := archive.PlaceConfig{Station: name, Journals: map[events.Service]reactor.Journal{}, Entropy: rand.Reader}
	for _, role := range events.Services() {
		conn, err := as(ctx, role)
		if err != nil {
			return nil, fmt.Errorf("connect as %s: %w", role, err)
		}
		st, err := conn.Station(name)
		if err != nil {
			return nil, err
		}
		if role == events.Planner {
			if err := conn.Apply(ctx, name, jet.ApplyOptions{}); err != nil {
				return nil, err
			}
			cfg.Timers, cfg.Blobs = st.Timers(), st.Blobs()
			cfg.Config, cfg.State = st.Shelf(topology.ConfigBucket), st.Shelf(topology.StateBucket)
		}
		cfg.Journals[role] = st.Journal()
	}
	return archive.NewPlace(cfg)
}
