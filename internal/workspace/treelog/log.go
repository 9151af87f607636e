package treelog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Config of a Log.
type Config struct {
	Station string
	// By is the role: only the toolrunner appends, others read.
	By      events.Service
	Journal kernel.Journal
	Rows    kernel.KV
	// Older returns an error while an instance of a version lives that has the rows for the truth: then none is taken
	// over. Nil is where there can be none.
	Older   func(ctx context.Context) error
	Now     func() time.Time
	Entropy io.Reader
}

// Log is where the workspaces of a station are. It may be used by several goroutines.
type Log struct {
	cfg   Config
	pages *kernel.Pages
}

const (
	// cached is how many workspaces a Log has in memory.
	cached = 1024
	// rowEvery is after how many events the row is written although nothing else asks for it.
	rowEvery = 64
)

// New checks a Config.
func New(cfg Config) (*Log, error) {
	if cfg.Rows == nil {
		return nil, errors.New("the log of workspaces needs their rows")
	}
	l := &Log{cfg: cfg, pages: kernel.NewPages(Aggregate(), cached)}
	_, err := ledgerOf(l, "")
	return l, err
}

// ledgerOf one workspace. All of a Log share the states that are known.
func ledgerOf(l *Log, workspace string) (*Ledger, error) {
	return NewLedger(LedgerConfig{Station: l.cfg.Station, By: l.cfg.By, Journal: l.cfg.Journal,
		Snapshots: rowOf(l.cfg.Rows, workspace), Pages: l.pages, Now: l.cfg.Now, Entropy: l.cfg.Entropy})
}

// checked checks the path of a workspace and returns its ledger and its id. It is no method: whoever knows a Log would
// compile the ledger once more.
func checked(l *Log, workspace string) (*Ledger, string, error) {
	if err := events.CheckWorkspace(workspace); err != nil {
		return nil, "", err
	}
	ledger, err := ledgerOf(l, workspace)
	return ledger, events.WorkspaceID(workspace), err
}

// Known returns a workspace as far as it is known here, reading what is new. It may be behind: it chooses what to try,
// and an append decides. A workspace without a log is the zero State.
func (l *Log) Known(ctx context.Context, workspace string) (State, error) {
	ledger, id, err := checked(l, workspace)
	if err != nil {
		return State{}, err
	}
	s, _, err := ledger.State(ctx, id)
	return s, err
}

// Latest returns a workspace as the leader has it. A row of an older version is taken over before, where there is no
// log. It is the zero State where there is neither.
func (l *Log) Latest(ctx context.Context, workspace string) (State, error) {
	ledger, id, err := checked(l, workspace)
	if err != nil {
		return State{}, err
	}
	row, revision, err := l.row(ctx, workspace)
	if err != nil {
		return State{}, err
	}
	s, err := ledger.Fresh(ctx, id)
	switch {
	case err != nil:
		return s, err
	case s.Sequence > 0:
		if shown, _, ok := FromRow(row); ok && shown.Sequence > s.Sequence { // the row was read first
			return s, fmt.Errorf("workspace %s: its row shows event %d, its log ends with event %d: events are lost", workspace,
				shown.Sequence, s.Sequence)
		}
		_, err = Stale(row, revision, s)
		return s, err
	case row == nil:
		return s, nil
	}
	return l.takeOver(ctx, workspace, row, revision)
}

// row reads the row of a workspace; nil bytes where there is none.
func (l *Log) row(ctx context.Context, workspace string) (row []byte, revision uint64, err error) {
	row, revision, err = l.cfg.Rows.Load(ctx, events.TreeKey(workspace))
	if errors.Is(err, kernel.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("row of workspace %s: %w", workspace, err)
	}
	return row, revision, nil
}

// takeOver begins the log of a workspace with the row that an older version kept. It is one append that is stored only
// where the log has no event, so it happens once, whoever tries and dies.
func (l *Log) takeOver(ctx context.Context, workspace string, row []byte, revision uint64) (State, error) {
	d := &events.WorkspaceMigratedData{Event: "workspace_migrated", Revision: revision}
	switch err := json.Unmarshal(row, &d.Row); {
	case err != nil:
		return State{}, fmt.Errorf("row of workspace %s: %w", workspace, err)
	case d.Row.Workspace != workspace:
		return State{}, fmt.Errorf("row of workspace %s is of %.200q", workspace, d.Row.Workspace)
	case d.Row.Log != nil:
		return State{}, fmt.Errorf("workspace %s: its row is of a log that is not there: restore the log, or remove the row",
			workspace)
	}
	if l.cfg.Older != nil {
		if err := l.cfg.Older(ctx); err != nil {
			return State{}, fmt.Errorf("workspace %s cannot be taken over: %w", workspace, err)
		}
	}
	s, err := l.Append(ctx, workspace, 0, d)
	if errors.Is(err, kernel.ErrExists) {
		return l.Known(ctx, workspace)
	}
	return s, err
}

// Append appends an event where the log still ends with the event of that sequence; else it returns kernel.ErrExists.
// The row is written before it returns where others must see at once what was said: who owns the workspace.
func (l *Log) Append(ctx context.Context, workspace string, sequence uint64, p events.Payload) (State, error) {
	ledger, id, err := checked(l, workspace)
	if err != nil {
		return State{}, err
	}
	w, err := ledger.Write(ctx, id, func(s State, _ time.Time) ([]events.Payload, error) {
		if s.Sequence != sequence {
			return nil, kernel.ErrExists
		}
		return []events.Payload{p}, nil
	})
	switch {
	case err != nil:
		return w.State, fmt.Errorf("log of workspace %s: %w", workspace, err)
	case len(w.Events) == 0: // another one was faster
		return w.State, fmt.Errorf("log of workspace %s: %w", workspace, kernel.ErrExists)
	}
	switch p.(type) {
	case *events.WorkspaceClaimedData, *events.WorkspaceRestoredData, *events.WorkspaceForgottenData:
		return w.State, l.show(ctx, w.State, w.Head)
	case *events.WorkspaceReleasedData:
	default:
		if w.State.Sequence%rowEvery != 0 {
			return w.State, nil
		}
	}
	// What stands in the log stands: a row that shows less makes the next load longer, and the next claim writes it.
	_ = l.show(ctx, w.State, w.Head)
	return w.State, nil
}

// maxSwaps bounds how often a row is written again because another writer was faster.
const maxSwaps = 8

// show writes the row of a workspace where it does not show the state yet. A row that shows more is left.
func (l *Log) show(ctx context.Context, s State, position uint64) error {
	workspace := s.Workspace.Workspace
	b, err := Row(s, position)
	if err != nil {
		return err
	}
	for range maxSwaps {
		row, revision, err := l.row(ctx, workspace)
		if err != nil {
			return err
		}
		if stale, err := Stale(row, revision, s); err != nil || !stale {
			return err
		}
		_, err = l.cfg.Rows.Swap(ctx, events.TreeKey(workspace), b, revision)
		if !errors.Is(err, kernel.ErrExists) {
			return err
		}
	}
	return fmt.Errorf("row of workspace %s: others write it all the time", workspace)
}

// Record returns what is known of a workspace, as JSON, from the leader: of its log, or of the row of a version without
// logs. It returns kernel.ErrNotFound where there is neither.
func (l *Log) Record(ctx context.Context, workspace string) ([]byte, error) {
	ledger, id, err := checked(l, workspace)
	if err != nil {
		return nil, err
	}
	row, _, err := l.row(ctx, workspace)
	if err != nil {
		return nil, err
	}
	s, err := ledger.Fresh(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case s.Sequence > 0:
		return json.Marshal(s.Workspace)
	case row == nil:
		return nil, fmt.Errorf("workspace %s: %w", workspace, kernel.ErrNotFound)
	}
	return row, nil
}

// Restore begins the log of a workspace that the station does not know with the record that was saved elsewhere; it
// returns kernel.ErrExists for one that it knows.
func (l *Log) Restore(ctx context.Context, workspace string, record []byte) error {
	d := &events.WorkspaceRestoredData{Event: "workspace_restored"}
	if err := json.Unmarshal(record, &d.Row); err != nil {
		return fmt.Errorf("record of workspace %s: %w", workspace, err)
	}
	row, _, err := l.row(ctx, workspace)
	switch {
	case err != nil:
		return err
	case row != nil:
		return fmt.Errorf("workspace %s: %w", workspace, kernel.ErrExists)
	}
	_, err = l.Append(ctx, workspace, 0, d)
	return err
}
