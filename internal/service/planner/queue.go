package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/team"
)

// mergeQueues are the merge queues of a station; nil where it has none.
func mergeQueues(in *service.Instance) (*team.MergeQueues, error) {
	p := in.Ports
	if p.QueueLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := mergequeue.NewLedger(mergequeue.LedgerConfig{Station: in.Base.Station, By: events.Planner,
		Journal:   p.QueueLog,
		Snapshots: mergequeue.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return nil, fmt.Errorf("log of merge queues: %w", err)
	}
	return &team.MergeQueues{Ledger: l, Rows: p.Sessions, Timers: p.QueueTimers, Now: p.ScheduleClock}, nil
}
