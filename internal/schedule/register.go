package schedule

import (
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// definition is what the kernel needs to know of schedules.
var definition = kernel.Definition[State]{
	View: kernel.View[State]{Name: "schedule", Prefix: events.ScheduleRows,
		Parts: func(s *State) (shown any, log **events.LogHead, at *kernel.Folded) {
			return &s.Schedule, &s.Log, &s.Folded
		}},
	Token:  events.ScheduleAggregate,
	Lookup: events.LookupSchedule,
	ID:     func(s *State) string { return s.ID },
	Next:   State.apply,
}

// Types of the kernel for schedules.
type (
	Ledger       = kernel.Ledger[State]
	LedgerConfig = kernel.LedgerConfig[State]
)

// Aggregate returns what the kernel needs to know of schedules.
func Aggregate() *kernel.Aggregate[State] { return definition.Aggregate() }

// NewLedger checks the configuration, whose aggregate is that of schedules.
func NewLedger(cfg LedgerConfig) (*Ledger, error) { return definition.NewLedger(cfg) }

// View is how schedules are shown as rows in the bucket of sessions.
func View() kernel.View[State] { return definition.View }
