// Package treelog is the aggregate of workspaces: which toolrunner owns a working tree, and which snapshot it has.
//
// Promises: a workspace is its log, and the row that older versions and people read is a view of it. Only the owner
// that a workspace.claimed event names says anything of a workspace, under the fence of that event: an event with
// another fence does not fold, and an append is stored only where the log ends with what the writer has seen. Whether
// an owner lives is in no log: its lease says so.
package treelog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// State of a workspace: the fold of its log. It is a value: no function changes what can be reached from it.
type State struct {
	events.Workspace
	// Sequence and Hash of the last event that it includes.
	Sequence uint64
	Hash     string
	// Migrated is the revision of the row that the log began with, 0 where it began with none.
	Migrated uint64
}

// rules are the fold rules of workspaces.
var rules = kernel.Rules[State]{kernel.On(migrated), kernel.On(restored), kernel.On(claimed), kernel.On(entered),
	kernel.On(changed), kernel.On(snapshotted), kernel.On(released), kernel.On(forgotten)}

// Apply returns the state after one more event, whose stored bytes have the given hash.
func Apply(s State, f events.Event, p events.Payload, hash string) (State, error) {
	next, err := rules.Fold(s, p, f.Time)
	if err == nil && events.WorkspaceID(next.Workspace.Workspace) != f.Subject {
		err = fmt.Errorf("it is of workspace %.200q", next.Workspace.Workspace)
	}
	if err != nil {
		return State{}, fmt.Errorf("workspace %s, event %d (%s): %w", f.Subject, f.Sequence, p.Kind(), err)
	}
	next.At, next.Sequence, next.Hash = f.Time, f.Sequence, hash
	return next, nil
}

var errBegun = errors.New("only a log begins with it")

func migrated(s State, d *events.WorkspaceMigratedData, _ time.Time) (State, error) {
	if s.Sequence > 0 {
		return s, errBegun
	}
	s.Workspace, s.Migrated = d.Row, d.Revision
	s.Log = nil
	return s, nil
}

func restored(s State, d *events.WorkspaceRestoredData, _ time.Time) (State, error) {
	if s.Sequence > 0 || d.Row.Owner != "" {
		return s, errBegun
	}
	s.Workspace = d.Row
	s.Log = nil
	return s, nil
}

func claimed(s State, d *events.WorkspaceClaimedData, _ time.Time) (State, error) {
	if s.Sequence > 0 && s.Workspace.Workspace != d.Workspace || d.Owner == "" {
		return s, fmt.Errorf("it claims workspace %.200q for %.64q", d.Workspace, d.Owner)
	}
	if d.Fence <= s.Fence {
		return s, fmt.Errorf("fence %d is not above %d", d.Fence, s.Fence)
	}
	if !d.Resumed {
		s.Workspace = passedOn(s.Workspace)
	}
	s.Lost = s.Lost || s.Owner != "" && s.Owner != d.Owner
	s.Workspace.Workspace, s.Owner, s.Run, s.Fence = d.Workspace, d.Owner, d.Run, d.Fence
	s.Workspace = with(s.Workspace, d.Run)
	return s, nil
}

// owned returns an error for an event that does not have the fence of the owner.
func owned(s State, fence uint64) error {
	if s.Owner == "" || fence != s.Fence {
		return fmt.Errorf("fence %d is not that of the owner %q, which is %d", fence, s.Owner, s.Fence)
	}
	return nil
}

func entered(s State, d *events.WorkspaceEnteredData, _ time.Time) (State, error) {
	s.Workspace = with(s.Workspace, d.Run)
	return s, owned(s, d.Fence)
}

func changed(s State, d *events.WorkspaceChangedData, _ time.Time) (State, error) {
	if len(s.Unkept) >= events.MaxUnkept {
		return s, fmt.Errorf("%d calls wait for a snapshot", len(s.Unkept))
	}
	s.Workspace = learned(s.Workspace, d.WorkspaceLearned)
	s.Unkept = append(slices.Clone(s.Unkept), d.Call)
	return s, owned(s, d.Fence)
}

func snapshotted(s State, d *events.WorkspaceSnapshottedData, _ time.Time) (State, error) {
	s.Workspace = learned(s.Workspace, d.WorkspaceLearned)
	s.Covers, s.Unkept = d.Covers, nil
	if t := d.Taken; t != nil {
		s.Packs = slices.Clone(s.Packs)
		if t.Whole {
			s.Packs = nil
		}
		s.Packs = append(s.Packs, t.Pack)
		s.Snapshot, s.Files, s.Bytes, s.Repository = t.Pack.Snapshot, t.Files, t.Bytes, t.Repository
	}
	return s, owned(s, d.Fence)
}

func released(s State, d *events.WorkspaceReleasedData, _ time.Time) (State, error) {
	err := owned(s, d.Fence)
	s.Workspace = learned(s.Workspace, d.WorkspaceLearned)
	s.Owner = ""
	return s, err
}

func forgotten(s State, d *events.WorkspaceForgottenData, _ time.Time) (State, error) {
	if s.Sequence == 0 || d.Fence <= s.Fence {
		return s, fmt.Errorf("fence %d is not above %d", d.Fence, s.Fence)
	}
	s.Workspace = events.Workspace{Workspace: s.Workspace.Workspace, Fence: d.Fence}
	return s, nil
}

// with is a workspace that names a run.
func with(w events.Workspace, run string) events.Workspace {
	if len(w.Runs) < events.MaxWorkspaceRuns && !slices.Contains(w.Runs, run) {
		w.Runs = append(slices.Clone(w.Runs), run)
	}
	return w
}

// passedOn makes of the calls that a lost owner had not saved calls that are missing in the tree of the next one.
func passedOn(w events.Workspace) events.Workspace {
	if len(w.Unkept) == 0 {
		return w
	}
	w.Missing = append(slices.Clone(w.Missing), w.Unkept...)
	w.Missing = w.Missing[max(0, len(w.Missing)-events.MaxUnkept):]
	w.Unkept, w.Lost = nil, true
	return w
}

// learned takes out of a workspace what an agent knows by now, and the runs that have ended. Where not all runs are
// named, none is taken out: one that is not named may still work there.
func learned(w events.Workspace, l events.WorkspaceLearned) events.Workspace {
	if len(w.Runs) < events.MaxWorkspaceRuns {
		w.Runs = slices.DeleteFunc(slices.Clone(w.Runs), func(run string) bool { return slices.Contains(l.Ended, run) })
	}
	if l.Informed {
		w.Lost, w.Missing = false, nil
	}
	return w
}

// After returns what a workspace is after an event that was decided on it, as far as the event says it.
func After(w events.Workspace, p events.Payload) events.Workspace {
	s, err := rules.Fold(State{Workspace: w, Sequence: 1}, p, w.At)
	if err != nil {
		return w
	}
	return s.Workspace
}
