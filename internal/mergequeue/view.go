package mergequeue

import (
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// RowPrefix begins the keys of the rows of merge queues in the bucket of sessions.
const RowPrefix = events.QueueRows

// RowKey is the key of the row of a merge queue.
func RowKey(id string) string { return RowPrefix + id }

// Row is the view of a merge queue that people read, at the position of its last event in the station's log.
func Row(s State, position uint64) ([]byte, error) {
	row := s.MergeQueue
	row.Log = &events.LogHead{Sequence: s.Sequence, Hash: s.Hash, Position: position}
	b, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode merge queue %s: %w", s.ID, err)
	}
	return b, nil
}

// FromRow returns the state that a row shows, and the position of its last event; ok is false for a row that shows none.
func FromRow(row []byte) (s State, position uint64, ok bool) {
	if err := json.Unmarshal(row, &s.MergeQueue); err != nil || s.Log == nil {
		return State{}, 0, false
	}
	position, s.Sequence, s.Hash, s.Log = s.Log.Position, s.Log.Sequence, s.Log.Hash, nil
	return s, position, true
}

// Rows are the rows of merge queues as the snapshots of their logs.
func Rows(kv kernel.KV) kernel.Snapshots[State] {
	return kernel.Rows[State]{KV: kv, Key: RowKey, Read: FromRow}
}
