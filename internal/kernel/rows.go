package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// Folded is how far the state of an aggregate is, and what was decided on it and is not stored yet. States embed it.
type Folded struct {
	// Sequence and Hash of the last event that the state includes.
	Sequence uint64
	Hash     string
	changes  []events.Payload
}

// Changes are the events that were decided on a state since it was folded, in order.
func (f Folded) Changes() []events.Payload { return f.changes }

// With returns that of the state after one more decision.
func (f Folded) With(p events.Payload) Folded {
	f.changes = append(slices.Clip(f.changes), p)
	return f
}

// View is how the states of an aggregate are shown as rows of a bucket, which people read and logs are loaded from.
type View[S any] struct {
	// Name is what people call such a thing, for errors.
	Name string
	// Prefix begins the keys of the rows; the rest is the id.
	Prefix string
	// Parts are what a row shows of a state, where that notes its place in the log, and how far the state is.
	Parts func(s *S) (shown any, log **events.LogHead, at *Folded)
}

// Key is the key of the row of an id.
func (v View[S]) Key(id string) string { return v.Prefix + id }

// At is how far a state is.
func (v View[S]) At(s S) Folded {
	_, _, at := v.Parts(&s)
	return *at
}

// Row is the row of a state, at the position of its last event in the station's log.
func (v View[S]) Row(s S, position uint64) ([]byte, error) {
	shown, log, at := v.Parts(&s)
	*log = &events.LogHead{Sequence: at.Sequence, Hash: at.Hash, Position: position}
	b, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("encode the row of a %s: %w", v.Name, err)
	}
	return b, nil
}

// Read returns the state that a row shows, and the position of its last event; ok is false for a row that shows no log.
// Whoever uses it compares the state with the log.
func (v View[S]) Read(row []byte) (s S, position uint64, ok bool) {
	shown, log, at := v.Parts(&s)
	if err := json.Unmarshal(row, shown); err != nil || *log == nil {
		var none S
		return none, 0, false
	}
	position, *at = (*log).Position, Folded{Sequence: (*log).Sequence, Hash: (*log).Hash}
	*log = nil
	return s, position, true
}

// Snapshots are the rows as the snapshots of their logs.
func (v View[S]) Snapshots(kv KV) Snapshots[S] { return Rows[S]{KV: kv, Key: v.Key, Read: v.Read} }

// Rows are views of aggregates in a bucket as the snapshots of their logs: one is loaded from its row and the events
// after it.
type Rows[S any] struct {
	KV KV
	// Key is the key of an aggregate's row; Read is the state that a row shows, and the position of its last event.
	Key  func(id string) string
	Read func(row []byte) (s S, position uint64, ok bool)
}

// Latest implements Snapshots.
func (r Rows[S]) Latest(ctx context.Context, id string) (s S, position uint64, ok bool) {
	b, err := r.KV.Get(ctx, r.Key(id))
	if err != nil {
		return s, 0, false
	}
	return r.Read(b)
}
