package capture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/core/artifact"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

const (
	// maxMembers is how many runs the row of a workflow names: the newest.
	maxMembers = 128
	// maxSwaps is how often a row is written again because another writer was faster, with swapWait at most between two
	// tries.
	maxSwaps = 64
	swapWait = 16 * time.Millisecond
)

// Workflows is the index of the runs of a workflow: one row per workflow, under the name that artifact.WorkflowOf gives
// it. A run enters it before it is created, so that the run after it cannot miss it; its end is noted there by the
// persister, which also adds a run that is missing. It is a view: a lost row is made again by the ends of the runs that
// follow.
type Workflows struct {
	KV   kernel.KV
	Runs Runs
}

// workflowRow is the row of a workflow.
type workflowRow struct {
	Runs []member `json:"runs"`
}

// member is a run of a workflow.
type member struct {
	Run string `json:"run"`
	// At is when it ended, in Unix milliseconds; of an Open one, of which no end is noted, when it entered.
	At   int64 `json:"at_ms"`
	Open bool  `json:"open,omitempty"`
}

// Join enters a run that is about to be created and returns the runs of its workflow that have ended and have files in
// the store: at most events.MaxEarlier, the newest, the one that ended last at the end.
func (w *Workflows) Join(ctx context.Context, c *events.RunCreatedData, runID string, now time.Time) ([]string, error) {
	name := artifact.WorkflowOf(c)
	if name == "" {
		return nil, nil
	}
	members, err := w.change(ctx, name, func(all []member) []member {
		if slices.ContainsFunc(all, func(m member) bool { return m.Run == runID }) {
			return all
		}
		return append(all, member{Run: runID, At: now.UnixMilli(), Open: true})
	})
	if errors.Is(err, kernel.ErrDenied) { // permissions of an earlier version: what persisters noted can be read
		members, _, err = w.load(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	var ended []member
	for _, m := range members {
		if m.Run == runID {
			continue
		}
		if m.Open {
			s, err := w.Runs.Fresh(ctx, m.Run)
			if errors.Is(err, kernel.ErrHeld) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("run %s of the same workflow: %w", m.Run, err)
			}
			if s.EndedAt == nil || !artifact.Stored(s) {
				continue
			}
			m.At = s.EndedAt.UnixMilli()
		}
		ended = append(ended, m)
	}
	slices.SortFunc(ended, older)
	var ids []string
	for _, m := range ended[max(0, len(ended)-events.MaxEarlier):] {
		ids = append(ids, m.Run)
	}
	return ids, nil
}

// Ended notes the end of a run, or takes it out where it has no files in the store. A second time changes nothing.
func (w *Workflows) Ended(ctx context.Context, s run.State) error {
	name := artifact.WorkflowOf(s.Created)
	if name == "" || s.EndedAt == nil {
		return nil
	}
	if !artifact.Stored(s) {
		return w.Remove(ctx, s)
	}
	now := member{Run: s.HarnessID, At: s.EndedAt.UnixMilli()}
	_, err := w.change(ctx, name, func(all []member) []member { return append(without(all, s.HarnessID), now) })
	return err
}

// Remove takes a run out, whose files are to be removed from the store.
func (w *Workflows) Remove(ctx context.Context, s run.State) error {
	name := artifact.WorkflowOf(s.Created)
	if name == "" {
		return nil
	}
	_, err := w.change(ctx, name, func(all []member) []member { return without(all, s.HarnessID) })
	return err
}

func without(all []member, runID string) []member {
	return slices.DeleteFunc(slices.Clone(all), func(m member) bool { return m.Run == runID })
}

// older sorts runs by their ends; the id decides between those of one moment, so that the order is always the same.
func older(a, b member) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Run, b.Run))
}

// change writes a row anew until no other writer comes between, and returns it. A row that stays as it is is not
// written.
func (w *Workflows) change(ctx context.Context, name string, edit func([]member) []member) ([]member, error) {
	wait := time.Millisecond
	for range maxSwaps {
		there, revision, err := w.load(ctx, name)
		if err != nil {
			return nil, err
		}
		next := edit(slices.Clone(there))
		slices.SortFunc(next, older)
		next = next[max(0, len(next)-maxMembers):]
		if slices.Equal(next, there) {
			return next, nil
		}
		b, err := json.Marshal(workflowRow{Runs: next})
		if err != nil {
			return nil, err
		}
		if _, err = w.KV.Swap(ctx, name, b, revision); err == nil {
			return next, nil
		}
		if !errors.Is(err, kernel.ErrExists) {
			return nil, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			wait = min(2*wait, swapWait)
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
	return nil, fmt.Errorf("row of %s: %w", name, kernel.ErrContended)
}

// load reads a row; one that is not there or cannot be read is empty, and is written over.
func (w *Workflows) load(ctx context.Context, name string) ([]member, uint64, error) {
	b, revision, err := w.KV.Load(ctx, name)
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var row workflowRow
	if json.Unmarshal(b, &row) != nil {
		return nil, revision, nil
	}
	return slices.DeleteFunc(row.Runs, func(m member) bool { return !events.ValidID(m.Run) }), revision, nil
}
