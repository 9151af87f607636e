package session

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of sessions.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "session", Prefix: "session.",
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Session, &s.Log, &s.Folded
		}},
	Token:  events.SessionAggregate,
	Lookup: events.LookupSession,
	ID:     func(s *State) string { return s.ID },
	Next:   State.apply,
	Stands: events.SessionPruned,
	Envelope: func(station, id string, _ *State, _ events.Payload) (events.Identity, string) {
		return events.Identity{Station: station, Session: id}, ""
	},
}

// Types of the kernel for sessions.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of sessions.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of sessions.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how sessions are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
