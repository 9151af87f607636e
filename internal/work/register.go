package work

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of work items.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "work item", Prefix: "work.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.WorkItem, &s.Log, &s.Folded
		}},
	Token:  events.WorkAggregate,
	Lookup: events.LookupWork,
	ID:     func(s *State) string { return s.ID },
	Next:   State.apply,
}

// Types of the kernel for work items.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of work items.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of work items.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how work items are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
