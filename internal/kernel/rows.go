package kernel

import "context"

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
