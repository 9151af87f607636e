package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner"
)

// schedules are the schedules of a station; nil where it keeps none.
func schedules(in *service.Instance) (*planner.Schedules, error) {
	p := in.Ports
	if p.ScheduleLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := schedule.NewLedger(schedule.LedgerConfig{Station: in.Base.Station, By: events.Planner,
		Journal:   p.ScheduleLog,
		Snapshots: schedule.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return nil, fmt.Errorf("log of schedules: %w", err)
	}
	return &planner.Schedules{Ledger: l, Rows: p.Sessions, Timers: p.ScheduleTimers, Now: p.ScheduleClock}, nil
}
