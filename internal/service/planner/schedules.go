package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/schedules"
)

// scheduled is what has the schedules of a station fire; nil where it keeps none.
func scheduled(in *service.Instance, names part.Names, runs part.Runs) (*schedules.Scheduler, error) {
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
	return schedules.New(schedules.Config{Names: names, Ledger: l, Rows: p.Sessions, Timers: p.ScheduleTimers,
		Now: p.ScheduleClock}, runs)
}
