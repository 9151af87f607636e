package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner"
)

// sessions are the sessions of a station; nil where it keeps none.
func sessions(in *service.Instance) (*planner.Sessions, error) {
	p := in.Ports
	if p.Sessions == nil {
		return nil, nil
	}
	l, err := session.NewLedger(session.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.SessionLog,
		Snapshots: session.Rows(p.Sessions), Entropy: p.Entropy})
	if err != nil {
		return nil, fmt.Errorf("log of sessions: %w", err)
	}
	return &planner.Sessions{Ledger: l, Rows: p.Sessions, Older: func(ctx context.Context) error {
		return older(ctx,
			p.Trees, p.Leases)
	}}, nil
}

// older returns an error where a toolrunner of a version lives that knows no logs of sessions: then a planner of that
// version may live, too, and planners of such a version hold no lease.
func older(ctx context.Context, hosts kernel.KV, leases kernel.Leases) error {
	if hosts == nil || leases == nil {
		return nil // the station has one process
	}
	keys, err := hosts.Keys(ctx, service.HostKeys)
	if err != nil {
		return fmt.Errorf("list the toolrunners: %w", err)
	}
	for _, key := range keys {
		b, err := hosts.Get(ctx, key)
		var h service.RunnerHost
		if err != nil || json.Unmarshal(b, &h) == nil && h.SessionLogs {
			continue // one that is just gone, or of this version
		}
		instance := strings.TrimPrefix(key, service.HostKeys)
		alive, err := leases.Alive(ctx, instance)
		if err != nil {
			return fmt.Errorf("lease of %s: %w", instance, err)
		}
		if alive {
			return fmt.Errorf("%w: the lease of toolrunner %s on %s lives: stop all services of that version first",
				session.ErrOlderWriter, instance, h.Name())
		}
	}
	return nil
}
