package rebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/halt"
	"github.com/inspan/inspan/internal/harness"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/mergequeue"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// Rows is what the rows of an aggregate that is no run are rebuilt from and written to, with the rights of its author.
type Rows struct {
	Journal kernel.Journal
	Rows    kernel.KV
	// Logged lists the aggregates that the log has events of, from the leader.
	Logged func(ctx context.Context) ([]string, error)
}

// aggregate says how the rows of the aggregates of a name follow from their logs.
type aggregate[S any] struct {
	*kernel.Aggregate[S]
	Rows
	author events.Service
	count  Count
	// prefix is what the keys of rows begin with; id is that of the log of a row with the rest of the key.
	prefix string
	id     func(rest string) string
	// key is that of the row of a state, row the row at the position of the last event. shown is how many events a row
	// shows; ok is false for one that shows no log.
	key   func(s S) string
	row   func(s S, position uint64) ([]byte, error)
	shown func(row []byte) (events uint64, ok bool)
}

// aggregates makes the rows of sessions, schedules, work items, addresses, merge queues, halts, budgets, harnesses and
// workspaces again.
func (r *rebuild) aggregates(ctx context.Context) error {
	for _, again := range []func() error{
		func() error {
			return viewed(ctx, r, session.Aggregate(), session.View(), r.cfg.Sessions, r.rep.Sessions)
		},
		func() error {
			return viewed(ctx, r, schedule.Aggregate(), schedule.View(), r.cfg.Schedules, r.rep.Schedules)
		},
		func() error { return viewed(ctx, r, work.Aggregate(), work.View(), r.cfg.Work, r.rep.Work) },
		func() error { return viewed(ctx, r, mailbox.Aggregate(), mailbox.View(), r.cfg.Agents, r.rep.Agents) },
		func() error {
			return viewed(ctx, r, mergequeue.Aggregate(), mergequeue.View(), r.cfg.Queues, r.rep.Queues)
		},
		func() error { return viewed(ctx, r, halt.Aggregate(), halt.View(), r.cfg.Halts, r.rep.Halts) },
		func() error {
			if r.cfg.Budgets == nil {
				return nil
			}
			return r.cfg.Budgets(ctx, r, r.rep.Budgets)
		},
		func() error {
			return viewed(ctx, r, harness.Aggregate(), harness.View(), r.cfg.Harnesses, r.rep.Harnesses)
		},
	} {
		if err := again(); err != nil {
			return err
		}
	}
	return rows(ctx, r, aggregate[treelog.State]{Aggregate: treelog.Aggregate(), Rows: r.cfg.Workspaces,
		author: events.Toolrunner, count: r.rep.Workspaces, prefix: events.TreeKeys,
		id:  func(rest string) string { return events.WorkspaceID(strings.ReplaceAll(rest, "=", "/")) },
		key: func(s treelog.State) string { return events.TreeKey(s.Workspace.Workspace) }, row: treelog.Row,
		shown: func(row []byte) (uint64, bool) {
			s, _, ok := treelog.FromRow(row)
			return s.Sequence, ok
		}})
}

// Viewed makes the rows again of an aggregate of the planner that this package need not know.
type Viewed func(ctx context.Context, r *rebuild, count Count) error

// ViewOf returns what makes the rows of an aggregate of the planner again.
func ViewOf[S any](a *kernel.Aggregate[S], v kernel.View[S], from Rows) Viewed {
	return func(ctx context.Context, r *rebuild, count Count) error { return viewed(ctx, r, a, v, from, count) }
}

// viewed makes the rows again of an aggregate of the planner.
func viewed[S any](ctx context.Context, r *rebuild, a *kernel.Aggregate[S], v kernel.View[S], from Rows,
	count Count) error {
	return rows(ctx, r, aggregate[S]{Aggregate: a, Rows: from, author: events.Planner, count: count, prefix: v.Prefix,
		id:  func(rest string) string { return rest },
		key: func(s S) string { return v.Key(a.Chain(&s).ID) }, row: v.Row,
		shown: func(row []byte) (uint64, bool) {
			s, _, ok := v.Read(row)
			return v.At(s).Sequence, ok
		}})
}

// rows makes all rows of one name again. A row without a log is the truth of an aggregate that was not taken over yet,
// and stays.
func rows[S any](ctx context.Context, r *rebuild, a aggregate[S]) error {
	if a.Rows.Rows == nil {
		return nil
	}
	keys, err := a.Rows.Rows.Keys(ctx, a.prefix)
	if err != nil {
		return fmt.Errorf("list the rows of %ss: %w", a.Name, err)
	}
	byID := map[string]string{} // the key of the row, "" where there is none
	logged, err := a.Logged(ctx)
	if err != nil {
		return err
	}
	for _, id := range logged {
		byID[id] = ""
	}
	for _, key := range keys {
		byID[a.id(strings.TrimPrefix(key, a.prefix))] = key
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		outcome, err := rowOf(ctx, a, id, byID[id])
		if bad, ok := errors.AsType[*fault](err); ok {
			r.rep.Faults = append(r.rep.Faults, Fault{kernel.Key(a.Name, id), bad.why})
			continue
		}
		if err != nil {
			return fmt.Errorf("rebuild the row of %s %s: %w", a.Name, id, err)
		}
		a.count[outcome]++
	}
	return nil
}

// rowOf makes one row again, until no one else writes it meanwhile. key is empty where the row was not there.
func rowOf[S any](ctx context.Context, a aggregate[S], id, key string) (Outcome, error) {
	for range maxTries {
		var there []byte
		var revision uint64
		var err error
		if key != "" {
			there, revision, err = a.Rows.Rows.Load(ctx, key)
		}
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return "", err
		}
		s, position, err := readLog(ctx, a, id)
		if err != nil {
			return "", err
		}
		shown, ok := a.shown(there)
		switch last := a.Chain(&s).Sequence; {
		case last == 0 && !ok && (there == nil || json.Valid(there)):
			return None, nil
		case last == 0:
			return "", &fault{"its row is of a log that is not there: its events are lost"}
		case ok && shown > last:
			return "", &fault{fmt.Sprintf("its log ends with event %d, its row shows event %d: the end was cut off", last,
				shown)}
		}
		want, err := a.row(s, position)
		switch {
		case err != nil:
			return "", err
		case bytes.Equal(want, there):
			return Same, nil
		}
		key = a.key(s)
		switch _, err := a.Rows.Rows.Swap(ctx, key, want, revision); {
		case errors.Is(err, kernel.ErrExists):
			continue
		case err != nil:
			return "", err
		case there == nil:
			return Made, nil
		}
		return Corrected, nil
	}
	return "", errors.New("others write it all the time")
}

// readLog folds a log from its first event up to what its leader has.
func readLog[S any](ctx context.Context, a aggregate[S], id string) (s S, position uint64, err error) {
	l, err := kernel.NewLedger(kernel.LedgerConfig[S]{Aggregate: a.Aggregate, Station: "rebuild", By: a.author,
		Journal: a.Journal, Entropy: nothing{}, Cache: 1})
	if err != nil {
		return s, 0, err
	}
	s, err = l.Fresh(ctx, id)
	if errors.Is(err, kernel.ErrHeld) {
		return s, 0, &fault{fmt.Sprintf("its log does not fold: %v", err)}
	}
	if err != nil {
		return s, 0, err
	}
	return l.Reach(ctx, id, a.Chain(&s).Sequence)
}

// nothing is the entropy of a ledger that appends nothing.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, errors.New("a rebuild appends nothing") }
