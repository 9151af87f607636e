package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/services/toolrunner"
)

// What INSPAN_WORKSPACE_MODE may say.
const (
	// workspaceLocal: the root belongs to one machine, and all toolrunners of the station are on it.
	workspaceLocal = "local"
	// workspaceShared: the root is one volume for all toolrunners. One of them works in a workspace at a time.
	workspaceShared = "shared"
	// workspaceFollow: each toolrunner has a root of its own, and workspaces move through the object store.
	workspaceFollow = "follow"
)

// What INSPAN_WORKSPACE_SNAPSHOT may say.
const (
	// snapshotCall: after each call that may have changed files, before its result is said.
	snapshotCall = "call"
	// snapshotStep: when a step ends. What is lost in between with a machine is told to the agent.
	snapshotStep = "step"
)

func (c *Config) checkWorkspaces() error {
	var errs []error
	switch {
	case !slices.Contains([]string{"", snapshotCall, snapshotStep}, c.WorkspaceSnapshot):
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_SNAPSHOT is %q, want %s or %s", c.WorkspaceSnapshot, snapshotCall, snapshotStep))
	case c.WorkspaceSnapshot == snapshotStep && c.WorkspaceMode != workspaceFollow:
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_SNAPSHOT=%s goes with INSPAN_WORKSPACE_MODE=%s alone: no other mode keeps snapshots", snapshotStep, workspaceFollow))
	}
	if !slices.Contains([]string{"", workspaceLocal, workspaceShared, workspaceFollow}, c.WorkspaceMode) {
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_MODE is %q, want %s, %s or %s", c.WorkspaceMode, workspaceLocal, workspaceShared, workspaceFollow))
	}
	if c.CleanupAfter < 0 {
		errs = append(errs, fmt.Errorf("INSPAN_WORKSPACE_CLEANUP_AFTER is %s, want more than 0, or 0 for 24h", c.CleanupAfter))
	}
	return errors.Join(errs...)
}

// trees lets workspaces follow their runs, where that is configured; else it is nil.
func (h *Host) trees(ctx context.Context, ledger *runlog.Ledger, instance string) (*workspace.Trees, error) {
	mode := h.cfg.WorkspaceMode
	if mode == "" || mode == workspaceLocal {
		return nil, nil
	}
	cfg := workspace.Config{Root: h.cfg.Workspace, Shelf: h.ports.Trees, Leases: h.ports.Leases, Blobs: h.ports.Blobs, Instance: instance,
		AtSteps: h.cfg.WorkspaceSnapshot == snapshotStep, After: h.cfg.CleanupAfter, AtEnd: h.cfg.CleanupOnComplete, Snapshots: h.ports.Snapshots}
	if mode == workspaceShared {
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

// tend gives workspaces back while run runs, and the rest of them when it has ended.
func (h *Host) tend(role runlog.Role, trees *workspace.Trees, run func(context.Context) error) func(context.Context) error {
	tends, ok := role.(*toolrunner.Role)
	if trees == nil || !ok {
		return run
	}
	return func(ctx context.Context) error {
		report := func(err error) { h.log.Warn().Err(err).Msg("workspaces not looked after, will try again") }
		hold, stop := context.WithCancel(context.WithoutCancel(ctx))
		var tending sync.WaitGroup
		tending.Go(func() { tends.Janitor().RunTrees(hold, report) })
		var early sync.WaitGroup
		early.Go(func() { tends.ServeRepublished(ctx, hold) })
		err := run(ctx)
		grace := time.AfterFunc(h.cfg.Drain, stop)
		early.Wait() // as what was delivered, what was begun early may come to its end
		grace.Stop()
		stop()
		tending.Wait()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.cfg.Drain)
		defer cancel()
		if err := trees.Close(last); err != nil {
			h.log.Warn().Err(err).Msg("workspaces not given back: others take them over when the lease of this instance has lapsed")
		}
		return err
	}
}
