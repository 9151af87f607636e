package mergequeue

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of merge queues.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "merge queue", Prefix: events.QueueRows,
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.MergeQueue, &s.Log, &s.Folded
		}},
	Token:  events.QueueAggregate,
	Lookup: events.LookupQueue,
	ID:     func(s *State) string { return s.ID },
	Next:   State.apply,
}

// Types of the kernel for merge queues.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of merge queues.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of merge queues.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how merge queues are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
