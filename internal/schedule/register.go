package schedule

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Types of the kernel for schedules.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of schedules.
func Aggregate() *kernel.Aggregate[State] {
	return &kernel.Aggregate[State]{
		Name:   events.ScheduleAggregate,
		Lookup: events.LookupSchedule,
		Apply:  Apply,
		Chain:  func(s *State) kernel.Chain { return kernel.Chain{ID: s.ID, Sequence: s.Sequence, Hash: s.Hash} },
	}
}

// NewLedger checks the configuration, whose aggregate is that of schedules.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}

// View is how schedules are shown as rows in the bucket of sessions.
func View() kernel.View[State] {
	return kernel.View[State]{Name: "schedule", Prefix: "schedule.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Schedule, &s.Log, &s.Folded
		}}
}
