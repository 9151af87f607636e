package planner

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/sessions"
)

// entered is what enters runs into the sessions of a station; nil where it keeps none.
func entered(in *service.Instance, r *resolve.Resolver, windows func(string) int,
	runs part.Runs) (*sessions.Sessions, error) {
	p := in.Ports
	if p.Sessions == nil {
		return nil, nil
	}
	l, err := session.NewLedger(session.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.SessionLog,
		Snapshots: session.View().Snapshots(p.Sessions), Entropy: p.Entropy})
	if err != nil {
		return nil, fmt.Errorf("log of sessions: %w", err)
	}
	return sessions.New(sessions.Config{Blobs: p.Blobs, Resolve: r, Windows: windows, Log: sessions.Log{Ledger: l,
		Rows: p.Sessions, Older: func(ctx context.Context) error { return older(ctx, p.Trees, p.Leases) }}}, runs)
}

// older returns an error where a toolrunner of a version lives that knows no logs of sessions: then a planner of that
// version may live, too, and planners of such a version hold no lease.
func older(ctx context.Context, hosts kernel.KV, leases kernel.Leases) error {
	runner, err := service.OlderRunner(ctx, hosts, leases, func(h service.RunnerHost) bool { return h.SessionLogs })
	if err == nil && runner != "" {
		err = fmt.Errorf("%w: the lease of toolrunner %s lives: stop all services of that version first",
			session.ErrOlderWriter, runner)
	}
	return err
}
