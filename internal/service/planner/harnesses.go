package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/harnesses"
)

// recorded is what records the harnesses of a station; nil where it keeps none.
func recorded(in *service.Instance) (*harnesses.Recorder, error) {
	p := in.Ports
	if p.HarnessLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := harness.NewLedger(harness.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.HarnessLog,
		Snapshots: harness.View().Snapshots(p.Sessions), Entropy: p.Entropy})
	if err != nil {
		return nil, fmt.Errorf("log of harnesses: %w", err)
	}
	return harnesses.New(harnesses.Config{Ledger: l, Rows: p.Sessions})
}
