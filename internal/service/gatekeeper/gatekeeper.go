// Package gatekeeper makes the gatekeeper of a station from its settings.
package gatekeeper

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/deputy"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/toolbox"
	"github.com/inspan/inspan/internal/tools/specs"
	"github.com/inspan/inspan/pkg/approval"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gatekeeper"
	"github.com/inspan/inspan/services/gatekeeper/answers"
)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Gates
	service.Approvals
}

// Program is the gatekeeper as a program of its own: it knows the tools by what they say of themselves and links none.
func Program() service.Program {
	var cfg Config
	return service.Program{Role: events.Gatekeeper, Config: &cfg, Base: &cfg.Base, Wire: func() (service.Wiring, error) {
		known, err := specs.Registry()
		return Wire(cfg, toolbox.New(known, nil)), err
	}}
}

// Wire makes the gatekeeper.
func Wire(cfg Config, tools *toolbox.Toolbox) service.Wiring {
	return service.Wiring{Role: events.Gatekeeper,
		Start: func(_ context.Context, in *service.Instance) (service.Work, error) {
			c := gatekeeper.Config{Ledger: in.Ledger, Timers: in.Ports.Timers, Terms: cfg.GateTerms(), Blobs: in.Ports.Blobs,
				Tools: tools.Base(), ToolsOf: tools.For,
				Rules: in.Policy.Rules, Hooks: in.Asker, MaxGates: cfg.MaxGates, Stood: in.Stood,
				Answers: answers.Config{OnlySigned: cfg.OnlySigned, PerMinute: cfg.AnswersPerMinute}}
			if cfg.ApproverKeys != "" {
				keys, err := approval.LoadKeys(cfg.ApproverKeys)
				if err != nil {
					return service.Work{}, fmt.Errorf("INSPAN_APPROVER_KEYS: %w", err)
				}
				c.Answers.Approvers = keys
			}
			if p := in.Ports; p.Sessions != nil {
				l, err := session.NewLedger(session.LedgerConfig{Station: in.Base.Station, By: events.Gatekeeper,
					Journal: p.SessionLog, Snapshots: session.View().Snapshots(p.Sessions), Entropy: p.Entropy})
				if err != nil {
					return service.Work{}, fmt.Errorf("log of sessions: %w", err)
				}
				c.Sessions = l
			}
			var work service.Work
			if p := in.Ports; p.DeputyLog != nil {
				l, err := deputy.NewLedger(deputy.LedgerConfig{Station: in.Base.Station, By: events.Gatekeeper,
					Journal: p.DeputyLog, Entropy: p.Entropy, Now: p.ScheduleClock})
				if err != nil {
					return work, fmt.Errorf("log of deputies: %w", err)
				}
				c.Deputies.Ledger = l
				work.Others = append(work.Others, c.Deputies.Handler())
			}
			role, err := gatekeeper.New(c)
			work.Role = role
			return work, err
		}}
}
