package work

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Types of the kernel for work items.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of work items.
func Aggregate() *kernel.Aggregate[State] {
	return &kernel.Aggregate[State]{
		Name:   events.WorkAggregate,
		Lookup: events.LookupWork,
		Apply:  Apply,
		Chain:  func(s *State) kernel.Chain { return kernel.Chain{ID: s.ID, Sequence: s.Sequence, Hash: s.Hash} },
	}
}

// NewLedger checks the configuration, whose aggregate is that of work items.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}

// View is how work items are shown as rows in the bucket of sessions.
func View() kernel.View[State] {
	return kernel.View[State]{Name: "work item", Prefix: "work.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.WorkItem, &s.Log, &s.Folded
		}}
}
