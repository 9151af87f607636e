// Package rebuild makes the views of a station again from its log (DEPL-8, PERS-21): the index of runs and the
// snapshots, with the archives that the index refers to, and the rows of sessions and workspaces.
//
// Promises: the log decides; nothing of a view is believed. Each row is one guarded write, made from a log that was
// read after the row: a row that a living persister wrote meanwhile is looked at again and never replaced by an older
// one. Whoever is interrupted leaves rows that are old or new, and begins again. What only looks like a view, because
// it is truth beside the log or evidence against the log, is left as it is and named by Beside.
package rebuild

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/internal/snapshot"
	"github.com/inspan/inspan/pkg/run"
)

// Prefixes of the keys of views in the state bucket.
const (
	rowPrefix      = "run."
	snapshotPrefix = "snap."
)

// Config holds what a rebuild reads and writes. Journal, State and Blobs are those of the persister's user.
type Config struct {
	Journal kernel.Journal
	State   kernel.KV
	Blobs   kernel.Blobs
	// Sessions, Schedules, Work, Agents, Queues, Halts, Budgets, Harnesses and Workspaces may be zero: then their rows
	// stay as they are.
	Sessions   Rows
	Schedules  Rows
	Work       Rows
	Agents     Rows
	Queues     Rows
	Halts      Rows
	Budgets    Viewed
	Harnesses  Rows
	Workspaces Rows
	// Logged lists the runs that the log has events of, from the leader.
	Logged func(ctx context.Context) ([]string, error)
	// Form of the snapshots that are written.
	Form snapshot.Form
	// Sign signs the heads of runs into their rows; nil keeps the anchors that rows have and that the log reaches.
	Sign ed25519.PrivateKey
	// Now is the clock of anchors.
	Now func() time.Time
	// Progress is called after each run; may be nil.
	Progress func(done, total int)
}

// Outcome of one row.
type Outcome string

// The outcomes.
const (
	// Same is a row that was right.
	Same Outcome = "same"
	// Made is a row that was not there.
	Made Outcome = "made"
	// Corrected is a row that was wrong, old or damaged.
	Corrected Outcome = "corrected"
	// Newer is a row that others wrote meanwhile: it shows more than was read.
	Newer Outcome = "newer"
	// Removed is a row of a run that the log has no event of.
	Removed Outcome = "removed"
	// None is where the run needs no row and has none.
	None Outcome = "none"
)

// Count says how many rows had each outcome.
type Count map[Outcome]int

// Fault is a run or, as "session.s" and "workspace.w", a session or a workspace whose views could not be made again.
type Fault struct {
	Run string `json:"run"`
	Why string `json:"why"`
}

// Report says what was done. Faults are runs whose log does not fold or does not reach an anchor: their rows are as
// they were.
type Report struct {
	Runs       int         `json:"runs"`
	Events     uint64      `json:"events"`
	Index      Count       `json:"index"`
	Snapshots  Count       `json:"snapshots"`
	Sessions   Count       `json:"sessions"`
	Schedules  Count       `json:"schedules"`
	Work       Count       `json:"work"`
	Agents     Count       `json:"agents"`
	Queues     Count       `json:"merge_queues"`
	Halts      Count       `json:"halts"`
	Budgets    Count       `json:"budgets"`
	Harnesses  Count       `json:"harnesses"`
	Workspaces Count       `json:"workspaces"`
	Archives   int         `json:"archives"`
	Unsigned   int         `json:"rows_without_anchor"`
	Faults     []Fault     `json:"faults"`
	NotRebuilt []Untouched `json:"not_rebuilt"`
}

// Changed counts the rows that were written or removed.
func (r Report) Changed() int {
	n := 0
	for _, c := range []Count{r.Index, r.Snapshots, r.Sessions, r.Schedules, r.Work, r.Agents, r.Queues, r.Halts,
		r.Budgets, r.Harnesses, r.Workspaces} {
		n += c[Made] + c[Corrected] + c[Removed]
	}
	return n
}

type rebuild struct {
	cfg       Config
	snapshots snapshot.Store
	// keys are the public keys of anchors that the station knows.
	keys []ed25519.PublicKey
	rep  Report
}

// All makes the views of all runs again, or of those given. Its error is one of the station: what was done until then
// is in the report and stays.
func All(ctx context.Context, cfg Config, only ...string) (Report, error) {
	if cfg.Journal == nil || cfg.State == nil || cfg.Blobs == nil || cfg.Logged == nil || cfg.Now == nil {
		return Report{}, errors.New("a rebuild needs a journal, a shelf, blobs, the list of runs and a clock")
	}
	r := &rebuild{cfg: cfg, snapshots: snapshot.Store{KV: cfg.State, Blobs: cfg.Blobs, Form: cfg.Form},
		rep: Report{Index: Count{}, Snapshots: Count{}, Sessions: Count{}, Schedules: Count{}, Work: Count{},
			Agents: Count{}, Queues: Count{}, Halts: Count{}, Budgets: Count{}, Harnesses: Count{},
			Workspaces: Count{}, Faults: []Fault{},
			NotRebuilt: NotRebuilt()}}
	if err := r.anchorKeys(ctx); err != nil {
		return r.rep, err
	}
	runs, err := r.runs(ctx)
	if err != nil {
		return r.rep, err
	}
	if len(only) > 0 {
		runs = slices.DeleteFunc(runs, func(id string) bool { return !slices.Contains(only, id) })
		for _, id := range only {
			if !slices.Contains(runs, id) {
				return r.rep, fmt.Errorf("run %s: %w", id, kernel.ErrNotFound)
			}
		}
	}
	for i, id := range runs {
		if err := context.Cause(ctx); err != nil {
			return r.rep, fmt.Errorf("rebuild: %d of %d runs: %w", i, len(runs), err)
		}
		if err := r.views(ctx, id); err != nil {
			return r.rep, fmt.Errorf("rebuild the views of run %s: %w", id, err)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(runs))
		}
	}
	if len(only) > 0 {
		return r.rep, nil // of runs that were named, nothing else is looked at
	}
	return r.rep, r.aggregates(ctx)
}

// runs lists the runs that the log or a view knows of. The views are read first: a row comes after the first event of
// its run, so that a run that only a view knows of has no event.
func (r *rebuild) runs(ctx context.Context) ([]string, error) {
	ids := map[string]bool{}
	for _, prefix := range []string{rowPrefix, snapshotPrefix} {
		keys, err := r.cfg.State.Keys(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("list the rows %s: %w", prefix, err)
		}
		for _, key := range keys {
			ids[strings.TrimPrefix(key, prefix)] = true
		}
	}
	logged, err := r.cfg.Logged(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range logged {
		ids[id] = true
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// maxTries bounds how often the views of a run are made because others wrote one meanwhile.
const maxTries = 16

// views makes the views of one run again.
func (r *rebuild) views(ctx context.Context, id string) error {
	r.rep.Runs++
	open := []view{
		{count: r.rep.Index, key: rowPrefix + id, make: r.row}, // first: it finds what is wrong with the log
		{count: r.rep.Snapshots, key: snapshot.Key(id), make: r.snapshot},
	}
	for try := 0; len(open) > 0; try++ {
		if try == maxTries {
			return errors.New("others write its rows all the time")
		}
		var err error
		if open, err = r.attempt(ctx, id, open); err != nil {
			bad, ok := errors.AsType[*fault](err)
			if !ok {
				return err
			}
			r.rep.Faults = append(r.rep.Faults, Fault{id, bad.why})
			return nil
		}
	}
	return nil
}

// view is one row of a run that is to be made.
type view struct {
	count Count
	key   string
	// make returns what the row must be by the log, the row that is there where that is right, and nil for no row.
	make func(ctx context.Context, l log, there []byte) ([]byte, error)
	// there is the row as it was before the log was read, at a revision.
	there    []byte
	revision uint64
	has      bool
}

// attempt looks at rows, reads the log and writes the rows. It returns those that others wrote meanwhile.
func (r *rebuild) attempt(ctx context.Context, id string, views []view) (again []view, err error) {
	for i := range views {
		v := &views[i]
		v.there, v.revision, err = r.cfg.State.Load(ctx, v.key)
		if v.has = err == nil; err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return nil, err
		}
	}
	l, err := r.read(ctx, id, r.covered(ctx, id, views))
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		outcome, err := r.settle(ctx, v, l)
		switch {
		case errors.Is(err, kernel.ErrExists):
			again = append(again, v)
		case err != nil:
			return nil, err
		default:
			v.count[outcome]++
		}
	}
	return again, nil
}

// settle writes one row. ErrExists means that others wrote it since it was looked at.
func (r *rebuild) settle(ctx context.Context, v view, l log) (Outcome, error) {
	want, err := v.make(ctx, l, v.there)
	switch {
	case err != nil:
		return "", err
	case want == nil && !v.has:
		return None, nil
	case want == nil:
		return r.remove(ctx, v, l)
	case v.has && bytes.Equal(want, v.there):
		return Same, nil
	}
	if _, err := r.cfg.State.Swap(ctx, v.key, want, v.revision); err != nil {
		return "", err
	}
	if v.has {
		return Corrected, nil
	}
	return Made, nil
}

// remove takes a row away that the log does not ask for. Should others have written it since it was looked at, the log
// has more events than it had then, and the row is made again.
func (r *rebuild) remove(ctx context.Context, v view, l log) (Outcome, error) {
	if err := r.cfg.State.Delete(ctx, v.key); err != nil {
		return "", err
	}
	last, some, err := r.cfg.Journal.Last(ctx, l.run)
	if err != nil || !some || last.Seq == l.head() {
		return Removed, err
	}
	return "", kernel.ErrExists
}

// fault is what is wrong with the log of a run.
type fault struct{ why string }

func (f *fault) Error() string { return f.why }

// log is what was read of the log of a run.
type log struct {
	run   string
	state run.State
	// covered is the state after the event that the snapshot covers.
	covered run.State
	events  []event
	// lines are all events as JSON lines.
	lines []byte
}

// event is where an event stands in the station's log, and its hash.
type event struct {
	seq  uint64
	hash string
}

// head is the position of the last event.
func (l log) head() uint64 {
	if len(l.events) == 0 {
		return 0
	}
	return l.events[len(l.events)-1].seq
}

// behindWait is how long a replica that lacks what its leader has is given.
const behindWait = 20 * time.Millisecond

// read reads the log of a run up to what its leader has. covered is the event after which the state is kept.
func (r *rebuild) read(ctx context.Context, id string, covered uint64) (log, error) {
	l := log{run: id}
	last, some, err := r.cfg.Journal.Last(ctx, id)
	for some && err == nil && l.head() < last.Seq {
		var evs []kernel.Record
		if evs, _, err = r.cfg.Journal.Read(ctx, id, l.head()); err != nil {
			return l, err
		}
		for _, f := range evs {
			if l.state, err = runlog.Apply(id, l.state, f); err != nil {
				return l, &fault{fmt.Sprintf("its log does not fold: %v", err)}
			}
			l.events = append(l.events, event{f.Seq, l.state.Hash})
			l.lines = append(append(l.lines, f.Bytes...), '\n')
			if l.state.Sequence == covered {
				l.covered = l.state
			}
		}
		if len(evs) == 0 {
			select {
			case <-time.After(behindWait):
			case <-ctx.Done():
				return l, ctx.Err()
			}
		}
	}
	r.rep.Events += uint64(len(l.events))
	return l, err
}
