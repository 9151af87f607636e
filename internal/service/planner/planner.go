// Package planner makes the planner of a station from its settings.
package planner

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/budgets"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	workitem "github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner"
)

var _ planner.Agents = (*service.Agents)(nil)

// Config is what the program reads.
type Config struct {
	service.Base
	service.Planning
}

// Program is the planner as a program of its own: it registers the agents of a folder too.
func Program() service.Program {
	var cfg Config
	return service.Program{Role: events.Planner, Config: &cfg, Base: &cfg.Base, Wire: func() (service.Wiring, error) {
		return Wire(cfg), nil
	}, Prepare: func(ctx context.Context, ports service.Ports, log zerolog.Logger) error {
		return service.RegisterAgents(ctx, ports.Config, cfg.Planning, log)
	}}
}

// Wire makes the planner.
func Wire(cfg Config) service.Wiring {
	return service.Wiring{Role: events.Planner,
		Start: func(ctx context.Context, in *service.Instance) (service.Work, error) {
			role, err := start(ctx, cfg, in)
			if err != nil {
				return service.Work{}, err
			}
			work := service.Work{Role: role}
			if s := role.Scheduler(); s != nil {
				work.Others = append(work.Others, kernel.Handle(s.Ledger, kernel.Role[schedule.State](s)))
			}
			if a := role.Assigner(); a != nil {
				work.Others = append(work.Others, kernel.Handle(a.Ledger, kernel.Role[workitem.State](a)))
			}
			if m := role.Postmaster(); m != nil {
				work.Others = append(work.Others, kernel.Handle(m.Ledger, kernel.Role[mailbox.State](m)))
			}
			if l := role.Lander(); l != nil {
				work.Others = append(work.Others, kernel.Handle(l.Ledger, kernel.Role[mergequeue.State](l)))
			}
			if t := role.Treasurer(); t != nil {
				work.Others = append(work.Others, kernel.Handle(t.Ledger, kernel.Role[budgets.State](t)))
			}
			if r := role.Recorder(); r != nil {
				work.Others = append(work.Others, kernel.Handle(r.Ledger, kernel.Role[harness.State](r)))
			}
			return work, nil
		}, Always: always}
}

func start(ctx context.Context, cfg Config, in *service.Instance) (*planner.Role, error) {
	p := in.Ports
	// Outsiders cannot ask the server; they find it here (inspan doctor).
	if err := p.Config.Put(ctx, topology.DurabilityKey, []byte(p.Durability)); err != nil {
		return nil, fmt.Errorf("record the durability: %w", err)
	}
	prices, err := agentfile.LoadPrices(cfg.Prices)
	if err != nil {
		return nil, fmt.Errorf("INSPAN_PRICES: %w", err)
	}
	windows, err := cfg.Windows()
	if err != nil {
		return nil, err
	}
	sessions, err := sessions(in)
	if err != nil {
		return nil, err
	}
	schedules, err := schedules(in)
	if err != nil {
		return nil, err
	}
	items, err := workItems(in)
	if err != nil {
		return nil, err
	}
	mail, err := mailboxes(in)
	if err != nil {
		return nil, err
	}
	recorded, err := harnesses(in)
	if err != nil {
		return nil, err
	}
	key, err := in.Key(ctx, topology.ChildKeyKey)
	if err != nil {
		return nil, fmt.Errorf("key of child runs: %w", err)
	}
	queues, err := mergeQueues(in)
	if err != nil {
		return nil, err
	}
	own, err := budgetsOf(in)
	if err != nil {
		return nil, err
	}
	return planner.New(planner.Config{ChildKey: key,
		Aggregates: planner.Aggregates{Schedules: schedules, Harnesses: recorded, Work: items, Mail: mail, Queues: queues,
			Budgets: own, Stood: in.Stood},
		Prices: prices.Over(catalog.Prices()), Station: cfg.Station, Ledger: in.Ledger, Timers: p.Timers,
		Agents:  &service.Agents{KV: p.Config},
		Windows: windows.Of, Context: func(context.Context) (string, error) { return operatorText(cfg.Context) },
		Isolation:  cfg.Isolation,
		Durability: p.Durability, StationStats: p.StationStats, Damage: p.Damage, Hooks: in.Asker,
		Earlier: in.Workflows().Join, Sessions: sessions, Blobs: p.Blobs, LongRunning: cfg.LongRunning,
		Quotas: planner.Quotas{PerSender: cfg.SenderPerMinute, Limits: quota.Limits{Running: cfg.MaxRuns,
			PerMinute: cfg.RunsPerMinute, Patience: cfg.Patience}}})
}

// operatorText reads what the operator tells all agents. It is read for each run, so that a change needs no restart.
func operatorText(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("INSPAN_CONTEXT: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, events.MaxContext+1))
	if err != nil {
		return "", fmt.Errorf("INSPAN_CONTEXT: %w", err)
	}
	return string(b), nil
}
