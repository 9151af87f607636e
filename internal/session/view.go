package session

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// RowPrefix begins the keys of the rows of sessions in their bucket.
const RowPrefix = "session."

// RowKey is the key of the row of a session.
func RowKey(id string) string { return RowPrefix + id }

// Row is the view of a session that people and toolrunners read, at the position of its last event in the station's
// log.
func Row(s State, position uint64) ([]byte, error) {
	row := s.Session
	row.Log = &events.LogHead{Sequence: s.Sequence, Hash: s.Hash, Position: position}
	b, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode session %s: %w", s.ID, err)
	}
	return b, nil
}

// ErrOlderWriter means that a planner of a version without logs of sessions wrote a row after the log had begun.
var ErrOlderWriter = errors.New("a planner of an older version writes sessions")

// Stale reports whether a row, which is nil where there is none, at a revision of its bucket has to be written again
// for a state. Its error is ErrOlderWriter.
func Stale(row []byte, revision uint64, s State) (bool, error) {
	if row == nil {
		return true, nil
	}
	var e events.Session
	if err := json.Unmarshal(row, &e); err != nil {
		return true, nil //nolint:nilerr // the log has what cannot be read here
	}
	if e.Log == nil && revision != s.Migrated {
		return false, fmt.Errorf("session %s: %w: stop it, then run inspan rebuild", s.ID, ErrOlderWriter)
	}
	return e.Log == nil || e.Log.Sequence < s.Sequence, nil
}

// FromRow returns the state that a row shows, and the position of its last event; ok is false for a row that shows no
// log. Whoever uses it compares the state with the log.
func FromRow(row []byte) (s State, position uint64, ok bool) {
	if err := json.Unmarshal(row, &s.Session); err != nil || s.Log == nil {
		return State{}, 0, false
	}
	position, s.Sequence, s.Hash, s.Log = s.Log.Position, s.Log.Sequence, s.Log.Hash, nil
	return s, position, true
}

// Rows are the rows of sessions as the snapshots of their logs.
func Rows(kv kernel.KV) kernel.Snapshots[State] {
	return kernel.Rows[State]{KV: kv, Key: RowKey, Read: FromRow}
}
