package treelog

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Row is the view of a workspace in the bucket of working trees, at the position of its last event in the station's
// log.
func Row(s State, position uint64) ([]byte, error) {
	row := s.Workspace
	row.Log = &events.LogHead{Sequence: s.Sequence, Hash: s.Hash, Position: position, Migrated: s.Migrated}
	b, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode workspace %s: %w", row.Workspace, err)
	}
	return b, nil
}

// ErrOlderWriter means that a toolrunner of a version without logs of workspaces wrote a row after the log had begun,
// or may do so.
var ErrOlderWriter = errors.New("a toolrunner of an older version writes workspaces")

// Stale reports whether a row, which is nil where there is none, at a revision of its bucket has to be written again
// for a state. Its error is ErrOlderWriter.
func Stale(row []byte, revision uint64, s State) (bool, error) {
	if row == nil {
		return true, nil
	}
	var w events.Workspace
	if err := json.Unmarshal(row, &w); err != nil {
		return true, nil //nolint:nilerr // the log has what cannot be read here
	}
	if w.Log == nil && revision != s.Migrated {
		return false, fmt.Errorf("workspace %s: %w: stop it, then run inspan rebuild",
			s.Workspace.Workspace, ErrOlderWriter)
	}
	return w.Log == nil || w.Log.Sequence < s.Sequence, nil
}

// FromRow returns the state that a row shows, and the position of its last event; ok is false for a row that shows no
// log. Whoever uses it compares the state with the log.
func FromRow(row []byte) (s State, position uint64, ok bool) {
	if err := json.Unmarshal(row, &s.Workspace); err != nil || s.Log == nil {
		return State{}, 0, false
	}
	position, s.Migrated = s.Log.Position, s.Log.Migrated
	s.Sequence, s.Hash, s.Log = s.Log.Sequence, s.Log.Hash, nil
	return s, position, true
}

// rowOf is the row of one workspace as the snapshot of its log. The id in subjects does not tell the key of the row.
func rowOf(rows kernel.KV, workspace string) kernel.Snapshots[State] {
	return kernel.Rows[State]{KV: rows, Key: func(string) string { return events.TreeKey(workspace) }, Read: FromRow}
}
