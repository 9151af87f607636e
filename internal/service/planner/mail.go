package planner

import (
	"fmt"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/team"
)

// mailboxes are the addresses of a station; nil where it has none.
func mailboxes(in *service.Instance) (*team.Mailboxes, error) {
	p := in.Ports
	if p.AgentLog == nil || p.Sessions == nil {
		return nil, nil
	}
	l, err := mailbox.NewLedger(mailbox.LedgerConfig{Station: in.Base.Station, By: events.Planner, Journal: p.AgentLog,
		Snapshots: mailbox.View().Snapshots(p.Sessions), Entropy: p.Entropy, Now: p.ScheduleClock})
	if err != nil {
		return nil, fmt.Errorf("log of addresses: %w", err)
	}
	return &team.Mailboxes{Ledger: l, Rows: p.Sessions, Timers: p.AgentTimers, Now: p.ScheduleClock}, nil
}
