package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/planner/part"
)

// Log is where the sessions are.
type Log struct {
	// Ledger writes their logs, Rows holds the view of each that toolrunners and people read.
	Ledger *session.Ledger
	Rows   kernel.KV
	// Older returns an error while an instance of a version lives that has the rows for the truth: then none is taken
	// over. Nil is where there can be none.
	Older func(ctx context.Context) error
}

// sessionRow is the row of a session as it is in its bucket; nil bytes where there is none.
type sessionRow struct {
	bytes    []byte
	revision uint64
}

// row reads the row of a session.
func (l *Log) row(ctx context.Context, id string) (row sessionRow, err error) {
	row.bytes, row.revision, err = l.Rows.Load(ctx, session.View().Key(id))
	if errors.Is(err, kernel.ErrNotFound) {
		return sessionRow{}, nil
	}
	if err != nil {
		return row, fmt.Errorf("row of session %s: %w", id, err)
	}
	return row, nil
}

// change makes one change of a session: appended only where the session still is what it was decided on, and decided
// again where it is not. It returns once the row shows the log, also where there is nothing to change: whoever appended
// the last event may have died before the row was written.
func (l *Log) change(ctx context.Context, id string, decide func(e session.State) (session.State,
	error)) (session.State, error) {
	for range part.MaxSwaps {
		s, row, err := l.latest(ctx, id)
		if err != nil {
			return s, err
		}
		next, err := decide(s)
		if err != nil {
			return s, err
		}
		w, err := l.Ledger.Write(ctx, id, func(now session.State, _ time.Time) ([]events.Payload, error) {
			if now.Sequence != s.Sequence {
				return nil, part.ErrMoved
			}
			return next.Changes(), nil
		})
		switch {
		case errors.Is(err, part.ErrMoved):
			continue
		case err != nil:
			return s, fmt.Errorf("session %s: %w", id, err)
		}
		return w.State, l.show(ctx, w.State, w.Head, row)
	}
	return session.State{}, &kernel.RetryAfter{After: part.Again}
}

// latest returns a session as the leader has it, with its row. A row that is there before its log is taken over.
func (l *Log) latest(ctx context.Context, id string) (session.State, sessionRow, error) {
	row, err := l.row(ctx, id)
	if err != nil {
		return session.State{}, row, err
	}
	s, err := l.Ledger.Fresh(ctx, id)
	switch {
	case err != nil:
		return s, row, fmt.Errorf("session %s: %w", id, err)
	case s.Sequence > 0:
		if shown, _, ok := session.View().Read(row.bytes); ok && shown.Sequence > s.Sequence { // the row was read first
			return s, row, fmt.Errorf("session %s: its row shows event %d, its log ends with event %d: events are lost", id,
				shown.Sequence, s.Sequence)
		}
		_, err = session.Stale(row.bytes, row.revision, s)
		return s, row, err
	case row.bytes == nil:
		return s, row, nil
	}
	s, err = l.takeOver(ctx, id, row)
	return s, row, err
}

// takeOver begins the log of a session with the row that an older version kept. It is one append that is stored only
// where the log has no event, so it happens once, whoever tries and dies.
func (l *Log) takeOver(ctx context.Context, id string, row sessionRow) (session.State, error) {
	d := &events.SessionMigratedData{Event: "session_migrated", Revision: row.revision}
	if err := json.Unmarshal(row.bytes, &d.Row); err != nil {
		return session.State{}, fmt.Errorf("row of session %s: %w", id, err)
	}
	if d.Row.Log != nil {
		return session.State{}, fmt.Errorf("session %s: its row is of a log that is not there: restore the log, or remove the row", id)
	}
	if l.Older != nil {
		if err := l.Older(ctx); err != nil {
			return session.State{}, fmt.Errorf("session %s cannot be taken over: %w", id, err)
		}
	}
	w, err := l.Ledger.Write(ctx, id, func(s session.State, _ time.Time) ([]events.Payload, error) {
		if s.Sequence > 0 {
			return nil, nil
		}
		return []events.Payload{d}, nil
	})
	if err != nil {
		return w.State, fmt.Errorf("session %s: %w", id, err)
	}
	return w.State, nil
}

// show writes the row of a session where it does not show the state yet. A row that shows more is left.
func (l *Log) show(ctx context.Context, s session.State, position uint64, row sessionRow) error {
	if s.Sequence == 0 {
		return nil
	}
	for range part.MaxSwaps {
		stale, err := session.Stale(row.bytes, row.revision, s)
		if err != nil || !stale {
			return err
		}
		b, err := session.View().Row(s, position)
		if err != nil {
			return err
		}
		if _, err = l.Rows.Swap(ctx, session.View().Key(s.ID), b, row.revision); err == nil {
			return nil
		}
		if !errors.Is(err, kernel.ErrExists) {
			return fmt.Errorf("row of session %s: %w", s.ID, err)
		}
		if row, err = l.row(ctx, s.ID); err != nil {
			return err
		}
	}
	return &kernel.RetryAfter{After: part.Again}
}
