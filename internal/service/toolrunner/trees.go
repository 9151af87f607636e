package toolrunner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	role "github.com/inspan/inspan/services/toolrunner"
)

// trees lets workspaces follow their runs, where that is configured; else it is nil.
func (h *wiring) trees(ctx context.Context, ledger *runlog.Ledger, instance string) (*workspace.Trees, error) {
	mode := h.cfg.WorkspaceMode
	if mode == "" || mode == service.WorkspaceLocal {
		return nil, nil
	}
	cfg := workspace.Config{Root: h.cfg.Workspace, KV: h.in.Ports.Trees, Leases: h.in.Ports.Leases,
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
		grace := time.AfterFunc(h.cfg.Drain, stop)
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
