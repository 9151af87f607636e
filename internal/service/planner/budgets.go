package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner"
)

// budgetsOf are the budgets of a station; nil where it has none.
func budgetsOf(in *service.Instance) (*planner.Budgets, error) {
	p := in.Ports
	if p.BudgetLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := budgets.NewLedger(budgets.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.BudgetLog,
		Snapshots: budgets.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return nil, fmt.Errorf("log of budgets: %w", err)
	}
	return &planner.Budgets{Ledger: l, Rows: p.Sessions, Now: p.ScheduleClock}, nil
}
