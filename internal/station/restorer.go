package station

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// NewRestorer is the station as runs are brought to it. as connects as a user: one of the roles, or the setup user.
// Each event is then stored under the user who may say it, and each thing beside the log under one who may write it.
// Whoever connected closes the connections.
func NewRestorer(ctx context.Context, name string, as func(ctx context.Context, user events.Service) (*jet.Conn,
	error)) (*archive.Restorer, error) {
	cfg := archive.RestorerConfig{Station: name, Journals: map[events.Service]kernel.Journal{}, Entropy: rand.Reader}
	for _, user := range append([]events.Service{topology.SetupUser}, events.Services()...) {
		conn, err := as(ctx, user)
		if err != nil {
			return nil, fmt.Errorf("connect as %s: %w", user, err)
		}
		st, err := conn.Station(name)
		if err != nil {
			return nil, err
		}
		switch user {
		case topology.SetupUser:
			if err := conn.Setup().Apply(ctx, name, jet.ApplyOptions{}); err != nil {
				return nil, err
			}
			cfg.Config = st.KV(topology.ConfigBucket)
			continue
		case events.Planner:
			cfg.Timers, cfg.Sessions = st.Timers(), st.KV(topology.SessionBucket)
		case events.Toolrunner:
			cfg.Blobs, cfg.Artifacts, cfg.Trees = st.Blobs(), st.Artifacts(), st.KV(topology.TreeBucket)
			cfg.Workspaces, err = treelog.New(treelog.Config{Station: name, By: user,
				Journal: st.JournalFor(events.WorkspaceAggregate), Rows: cfg.Trees, Entropy: rand.Reader})
			if err != nil {
				return nil, err
			}
		case events.Persister:
			cfg.State = st.KV(topology.StateBucket)
		default: // its journal alone
		}
		cfg.Journals[user] = st.Journal()
	}
	return archive.NewRestorer(cfg)
}
