package harness

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of harnesses.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "harness", Prefix: "harness.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Harness, &s.Log, &s.Folded
		}},
	Token:  events.HarnessAggregate,
	Lookup: events.LookupHarness,
	ID:     func(s *State) string { return s.ID },
	Next:   State.Next,
}

// Types of the kernel for harnesses.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of harnesses.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of harnesses.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how harnesses are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
