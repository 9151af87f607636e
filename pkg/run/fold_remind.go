package run

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// GateTime is what time does to a gate that is pending.
type GateTime struct {
	// ExpiresAt is when it ends, and OnExpiry what follows; zero where it waits for ever.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	OnExpiry  string    `json:"onExpiry,omitempty"`
	events.GateReminders
	// Reminded is the number of the last reminder, 0 where there was none.
	Reminded int `json:"reminded,omitempty"`
}

// gateReminded notes that people were called again. No one is called before the time that the gate was opened with.
func (s *State) gateReminded(d *events.GateRemindedData, at time.Time) string {
	g, fault := s.answerable(d.Gate, d.ProposalHash)
	if fault != "" {
		return fault
	}
	after, to, ok := g.Reminder(d.Number)
	switch {
	case !ok || d.Number <= g.Reminded:
		return fmt.Sprintf("gate %s: reminder %d after reminder %d", g.ID, d.Number, g.Reminded)
	case d.To != to:
		return fmt.Sprintf("gate %s: reminder %d is for %q", g.ID, d.Number, to)
	case at.Before(g.CreatedAt.Add(after)):
		return fmt.Sprintf("gate %s: reminder %d comes before its time", g.ID, d.Number)
	}
	g.Reminded = d.Number
	s.setGate(g)
	return ""
}
