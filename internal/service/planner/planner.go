// Package planner makes the planner of a station from its settings.
package planner

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/catalog"
	"github.com/inspan/inspan/internal/core/quota"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner"
	"github.com/inspan/inspan/services/planner/funding"
	"github.com/inspan/inspan/services/planner/part"
	"github.com/inspan/inspan/services/planner/resolve"
	"github.com/inspan/inspan/services/planner/tasks"
	"github.com/inspan/inspan/services/planner/team"
)

var _ part.Agents = (*service.Agents)(nil)

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
		Start:  func(ctx context.Context, in *service.Instance) (service.Work, error) { return start(ctx, cfg, in) },
		Always: always}
}

func start(ctx context.Context, cfg Config, in *service.Instance) (work service.Work, err error) {
	p := in.Ports
	// Outsiders cannot ask the server; they find it here (inspan doctor).
	if err := p.Config.Put(ctx, topology.DurabilityKey, []byte(p.Durability)); err != nil {
		return work, fmt.Errorf("record the durability: %w", err)
	}
	prices, err := agentfile.LoadPrices(cfg.Prices)
	if err != nil {
		return work, fmt.Errorf("INSPAN_PRICES: %w", err)
	}
	windows, err := cfg.Windows()
	if err != nil {
		return work, err
	}
	key, err := in.Key(ctx, topology.ChildKeyKey)
	if err != nil {
		return work, fmt.Errorf("key of child runs: %w", err)
	}
	made := resolve.Config{Agents: &service.Agents{KV: p.Config}, Windows: windows.Of,
		Prices:  prices.Over(catalog.Prices()),
		Context: func(context.Context) (string, error) { return operatorText(cfg.Context) }, Blobs: p.Blobs,
		Isolation: cfg.Isolation, Durability: p.Durability, LongRunning: cfg.LongRunning, Sessions: p.Sessions != nil}
	resolver, err := resolve.New(made)
	if err != nil {
		return work, err
	}
	names := part.Names{Station: cfg.Station, Key: key}
	role, err := planner.New(planner.Config{Names: names, Ledger: in.Ledger, Timers: p.Timers, Resolve: resolver,
		Intake: tasks.Config{StationStats: p.StationStats, Damage: p.Damage,
			Quotas: tasks.Quotas{PerSender: cfg.SenderPerMinute, Limits: quota.Limits{Running: cfg.MaxRuns,
				PerMinute: cfg.RunsPerMinute, Patience: cfg.Patience}}},
		Earlier: in.Workflows().Join, Stood: in.Stood, Hooks: in.Asker,
		Parts: func(runs part.Runs) (all planner.Parts, err error) {
			all, work.Others, err = parts(in, names, made, resolver, runs)
			return all, err
		}})
	if err != nil {
		return service.Work{}, err
	}
	work.Role = role
	return work, nil
}

// parts are what a station has beside runs, and what handles what is received of it.
func parts(in *service.Instance, names part.Names, made resolve.Config, r *resolve.Resolver,
	runs part.Runs) (all planner.Parts, handlers []kernel.Handler, err error) {
	if s, err := scheduled(in, names, runs); err != nil {
		return all, nil, err
	} else if s != nil {
		all.Schedules, handlers = s, append(handlers, s.Handler())
	}
	t := team.Config{Names: names, Agents: made.Agents}
	if t.Work, err = workItems(in); err != nil {
		return all, nil, err
	}
	if t.Mail, err = mailboxes(in); err != nil {
		return all, nil, err
	}
	if t.Queues, err = mergeQueues(in); err != nil {
		return all, nil, err
	}
	of, err := team.New(t, runs)
	if err != nil {
		return all, nil, err
	}
	all.Team, handlers = of, append(handlers, of.Handlers()...)
	budgets, err := budgetsOf(in, made.Prices)
	if err != nil {
		return all, nil, err
	}
	funds, err := funding.New(budgets, runs)
	if err != nil {
		return all, nil, err
	}
	all.Budgets, handlers = funds, append(handlers, funds.Handlers()...)
	if s, err := entered(in, r, made.Windows, runs); err != nil {
		return all, nil, err
	} else if s != nil {
		all.Sessions = s
	}
	rec, err := recorded(in)
	if rec != nil {
		handlers = append(handlers, rec.Handler())
	}
	return all, handlers, err
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
