package mailbox

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of addresses.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "address", Prefix: events.MailboxRows,
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Mailbox, &s.Log, &s.Folded
		}},
	Token:  events.AgentAggregate,
	Lookup: events.LookupAgent,
	ID:     func(s *State) string { return s.ID },
	Next:   State.apply,
}

// Types of the kernel for addresses.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of addresses.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of addresses.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how addresses are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
