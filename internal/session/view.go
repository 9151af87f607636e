package session

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/pkg/events"
)

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
