package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/team"
)

// workItems are the work items of a station; nil where it keeps none.
func workItems(in *service.Instance) (*team.WorkItems, error) {
	p := in.Ports
	if p.WorkLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := work.NewLedger(work.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.WorkLog,
		Snapshots: work.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return nil, fmt.Errorf("log of work items: %w", err)
	}
	return &team.WorkItems{Ledger: l, Rows: p.Sessions, Timers: p.WorkTimers, Now: p.ScheduleClock}, nil
}
