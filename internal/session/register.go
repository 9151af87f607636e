package session

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Types of the kernel for sessions.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of sessions.
func Aggregate() *kernel.Aggregate[State] {
	return &kernel.Aggregate[State]{
		Name:   events.SessionAggregate,
		Lookup: events.LookupSession,
		Apply:  Apply,
		Chain:  func(s *State) kernel.Chain { return kernel.Chain{ID: s.ID, Sequence: s.Sequence, Hash: s.Hash} },
		Envelope: func(station, id string, _ *State, _ events.Payload) (events.Identity, string) {
			return events.Identity{Station: station, Session: id}, ""
		},
	}
}

// NewLedger checks the configuration, whose aggregate is that of sessions.
func NewLedger(cfg LedgerConfig) (*Ledger, error) {
	cfg.Aggregate = Aggregate()
	return kernel.NewLedger(cfg)
}

// View is how sessions are shown as rows in the bucket of sessions.
func View() kernel.View[State] {
	return kernel.View[State]{Name: "session", Prefix: "session.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Session, &s.Log, &s.Folded
		}}
}
