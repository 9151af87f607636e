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

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/session"
	"github.com/inspan/inspan/pkg/events"
)

// Sessions is what their rows are rebuilt from and written to, with the rights of a planner.
type Sessions struct {
	Journal kernel.Journal
	Rows    kernel.KV
	// Logged lists the sessions that the log has events of, from the leader.
	Logged func(ctx context.Context) ([]string, error)
}

// sessions makes the rows of all sessions again. A row without a log is the truth of a session that was not taken over
// yet, and stays.
func (r *rebuild) sessions(ctx context.Context) error {
	if r.cfg.Sessions.Rows == nil {
		return nil
	}
	ids := map[string]bool{}
	keys, err := r.cfg.Sessions.Rows.Keys(ctx, session.RowPrefix)
	if err != nil {
		return fmt.Errorf("list the rows of sessions: %w", err)
	}
	for _, key := range keys {
		ids[strings.TrimPrefix(key, session.RowPrefix)] = true
	}
	logged, err := r.cfg.Sessions.Logged(ctx)
	if err != nil {
		return err
	}
	for _, id := range logged {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		outcome, err := r.session(ctx, id)
		if bad, ok := errors.AsType[*fault](err); ok {
			r.rep.Faults = append(r.rep.Faults, Fault{kernel.Key(events.SessionAggregate, id), bad.why})
			continue
		}
		if err != nil {
			return fmt.Errorf("rebuild the row of session %s: %w", id, err)
		}
		r.rep.Sessions[outcome]++
	}
	return nil
}

// session makes the row of one session again, until no one else writes it meanwhile.
func (r *rebuild) session(ctx context.Context, id string) (Outcome, error) {
	for range maxTries {
		there, revision, err := r.cfg.Sessions.Rows.Load(ctx, session.RowKey(id))
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return "", err
		}
		s, position, err := r.readSession(ctx, id)
		if err != nil {
			return "", err
		}
		if s.Sequence == 0 {
			var row events.Session
			if json.Unmarshal(there, &row) == nil && row.Log == nil {
				return None, nil
			}
			return "", &fault{"its row is of a log that is not there: its events are lost"}
		}
		if shown, _, ok := session.FromRow(there); ok && shown.Sequence > s.Sequence {
			return "", &fault{fmt.Sprintf("its log ends with event %d, its row shows event %d: the end was cut off", s.Sequence,
				shown.Sequence)}
		}
		want, err := session.Row(s, position)
		switch {
		case err != nil:
			return "", err
		case bytes.Equal(want, there):
			return Same, nil
		}
		switch _, err := r.cfg.Sessions.Rows.Swap(ctx, session.RowKey(id), want, revision); {
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

// readSession folds the log of a session from its first event up to what its leader has.
func (r *rebuild) readSession(ctx context.Context, id string) (session.State, uint64, error) {
	l, err := session.NewLedger(session.LedgerConfig{Station: "rebuild", By: events.Planner,
		Journal: r.cfg.Sessions.Journal, Entropy: nothing{}, Cache: 1})
	if err != nil {
		return session.State{}, 0, err
	}
	s, err := l.Fresh(ctx, id)
	if errors.Is(err, kernel.ErrHeld) {
		return s, 0, &fault{fmt.Sprintf("its log does not fold: %v", err)}
	}
	if err != nil {
		return s, 0, err
	}
	return l.Reach(ctx, id, s.Sequence)
}

// nothing is the entropy of a ledger that appends nothing.
type nothing struct{}

// Read implements io.Reader.
func (nothing) Read([]byte) (int, error) { return 0, errors.New("a rebuild appends nothing") }
