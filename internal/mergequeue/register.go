package mergequeue

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Types of the kernel for merge queues.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of merge queues.
func Aggregate() *kernel.Aggregate[State] {
	return &kernel.Aggregate[State]{
		Name:   events.QueueAggregate,
		Lookup: events.LookupQueue,
		Apply:  Apply,
		Chain:  func(s *State) kernel.Chain { return kernel.Chain{ID: s.ID, Sequence: s.Sequence, Hash: s.Hash} },
	}
}

// NewLedger checks the configuration, whose aggregate is that of merge queues.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}

// View is how merge queues are shown as rows in the bucket of sessions.
func View() kernel.View[State] {
	return kernel.View[State]{Name: "merge queue", Prefix: events.QueueRows,
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.MergeQueue, &s.Log, &s.Folded
		}}
}
