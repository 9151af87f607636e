package treelog

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Types of the kernel for workspaces.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of workspaces.
func Aggregate() *kernel.Aggregate[State] {
	return &kernel.Aggregate[State]{
		Name:   events.WorkspaceAggregate,
		Lookup: events.LookupWorkspace,
		Apply:  Apply,
		Chain: func(s *State) kernel.Chain {
			if s.Sequence == 0 {
				return kernel.Chain{}
			}
			return kernel.Chain{ID: events.WorkspaceID(s.Workspace.Workspace), Sequence: s.Sequence, Hash: s.Hash}
		},
	}
}

// NewLedger checks the configuration, whose aggregate is that of workspaces.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}
