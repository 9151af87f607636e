package toolrunner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
	role "github.com/inspan/inspan/services/toolrunner"
)

// trees lets workspaces follow their runs, where that is configured; else it is nil.
func (h *wiring) trees(ctx context.Context, ledger *runlog.Ledger, instance string) (*workspace.Trees, error) {
	mode := h.cfg.WorkspaceMode
	if mode == "" || mode == service.WorkspaceLocal {
		return nil, nil
	}
	ports := h.in.Ports
	if ports.TreeLog == nil || ports.Trees == nil {
		return nil, fmt.Errorf("INSPAN_WORKSPACE_MODE=%s: the station keeps no workspaces", mode)
	}
	log, err := treelog.New(treelog.Config{Station: h.in.Base.Station, By: events.Toolrunner, Journal: ports.TreeLog,
		Rows: ports.Trees, Entropy: ports.Entropy, Older: func(ctx context.Context) error {
			return olderTrees(ctx, ports.Trees, ports.Leases)
		}})
	if err != nil {
		return nil, fmt.Errorf("log of workspaces: %w", err)
	}
	cfg := workspace.Config{Root: h.cfg.Workspace, Log: log, Leases: h.in.Ports.Leases,
		Blobs: h.in.Ports.Blobs, Instance: instance,
		AtSteps: h.cfg.WorkspaceSnapshot == service.SnapshotStep, After: h.cfg.CleanupAfter, AtEnd: h.cfg.CleanupOnComplete,
		Snapshots: h.deps.Snapshots}
	if mode == service.WorkspaceShared {
		cfg.Snapshots = nil
	} else if cfg.Snapshots == nil {
		g, err := git.New(git.Config{})
		if err == nil {
			err = g.Probe(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("INSPAN_WORKSPACE_MODE=%s: %w", mode, err)
		}
		cfg.Snapshots = workspace.Git{Program: g}
	}
	cfg.Over = func(ctx context.Context, run string) (bool, error) {
		s, err := ledger.Fresh(ctx, run)
		return err == nil && (s.Created == nil || s.Status.Ended()), err // a log that is gone was that of an ended run
	}
	desk, _, err := h.desk()
	if err != nil {
		return nil, fmt.Errorf("git work: %w", err)
	}
	cfg.Rescue = h.rescue(desk)
	return workspace.New(cfg)
}

// olderTrees returns an error where a toolrunner of a version lives that knows no logs of workspaces.
func olderTrees(ctx context.Context, hosts kernel.KV, leases kernel.Leases) error {
	runner, err := service.OlderRunner(ctx, hosts, leases, func(h service.RunnerHost) bool { return h.WorkspaceLogs })
	if err == nil && runner != "" {
		err = fmt.Errorf("%w: the lease of toolrunner %s lives: stop it first", treelog.ErrOlderWriter, runner)
	}
	return err
}

// runJanitor gives workspaces back while run runs, and the rest of them when it has ended.
func (h *wiring) runJanitor(r *role.Role, trees *workspace.Trees, run service.Run) service.Run {
	if trees == nil {
		return run
	}
	return func(ctx context.Context) error {
		report := func(err error) { h.in.Log.Warn().Err(err).Msg("workspaces not looked after, will try again") }
		hold, stop := context.WithCancel(context.WithoutCancel(ctx))
		var tending sync.WaitGroup
		tending.Go(func() { r.Janitor().RunTrees(hold, report) })
		var early sync.WaitGroup
		early.Go(func() { r.ServeRepublished(ctx, hold) })
		err := run(ctx)
		drain := h.cfg.Drain
		if service.Halted(ctx) {
			drain = 0
		}
		grace := time.AfterFunc(drain, stop)
		early.Wait() // as what was delivered, what was begun early may come to its end
		grace.Stop()
		stop()
		tending.Wait()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Drain)
		defer cancel()
		if err := trees.Close(last); err != nil {
			h.in.Log.Warn().Err(err).Msg("workspaces not given back: others take them over when the lease of this instance has lapsed")
		}
		return err
	}
}
