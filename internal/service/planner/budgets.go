package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/funding"
	"github.com/inspan/inspan/services/planner/part"
)

// budgetsOf is where a station has its budgets, if it has any.
func budgetsOf(in *service.Instance, prices part.Prices) (funding.Config, error) {
	p := in.Ports
	cfg := funding.Config{Rows: p.Sessions, Timers: p.Timers, Prices: prices, Now: p.ScheduleClock}
	if p.BudgetLog == nil || p.Sessions == nil {
		return cfg, nil
	}
	l, err := budgets.NewLedger(budgets.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.BudgetLog,
		Snapshots: budgets.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return cfg, fmt.Errorf("log of budgets: %w", err)
	}
	cfg.Ledger = l
	return cfg, nil
}
