// Package snapshot keeps the states of runs so that loading one does not fold its whole log.
//
// Promises: a snapshot is a cache. One that is missing, damaged, of another schema version or not in step with the
// log is as good as none; the log decides. Small ones are kept in the state bucket, large ones in the object store.
package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// codec names how states are stored.
const codec = "json+gzip"

// Limits of a snapshot, in bytes.
const (
	maxInline = 256 << 10
	maxState  = 256 << 20
)

// Store keeps snapshots under "snap.{run}".
type Store struct {
	Shelf reactor.Shelf
	Blobs reactor.Blobs
	Codec run.Codec
}

var _ reactor.Snapshots = (*Store)(nil)

type box struct {
	Head     uint64      `json:"head"`
	Sequence uint64      `json:"sequence"`
	Codec    string      `json:"codec"`
	Ref      *events.Ref `json:"ref,omitempty"`
	Zipped   []byte      `json:"zipped,omitempty"`
}

// Key of a run's snapshot.
func Key(runID string) string { return "snap." + runID }

// Save stores a state whose last fact is at head.
func (st *Store) Save(ctx context.Context, s run.State, head uint64) error {
	plain, err := st.Codec.Encode(s)
	if err != nil {
		return err
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(plain); err != nil {
		return fmt.Errorf("compress state: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compress state: %w", err)
	}
	b := box{Head: head, Sequence: s.Sequence, Codec: codec, Zipped: zipped.Bytes()}
	if zipped.Len() > maxInline {
		ref, err := st.Blobs.Put(ctx, "snapshot", zipped.Bytes())
		if err != nil {
			return fmt.Errorf("store snapshot: %w", err)
		}
		b.Ref, b.Zipped = &ref, nil
	}
	value, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode snapshot: %w", err)
	}
	return st.Shelf.Put(ctx, Key(s.HarnessID), value)
}

// Latest implements reactor.Snapshots.
func (st *Store) Latest(ctx context.Context, runID string) (run.State, uint64, bool) {
	s, head, err := st.Load(ctx, runID)
	return s, head, err == nil
}

// Load returns a snapshot or says why there is none.
func (st *Store) Load(ctx context.Context, runID string) (run.State, uint64, error) {
	value, err := st.Shelf.Get(ctx, Key(runID))
	if err != nil {
		return run.State{}, 0, err
	}
	var b box
	if err := json.Unmarshal(value, &b); err != nil {
		return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
	}
	if b.Codec != codec {
		return run.State{}, 0, fmt.Errorf("snapshot of %s is stored as %q, want %q", runID, b.Codec, codec)
	}
	zipped := b.Zipped
	if b.Ref != nil {
		if zipped, err = st.Blobs.Get(ctx, *b.Ref); err != nil {
			return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxState))
	if err != nil {
		return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
	}
	s, err := st.Codec.Decode(plain)
	if err != nil {
		return run.State{}, 0, err
	}
	if s.HarnessID != runID || s.Sequence != b.Sequence {
		return run.State{}, 0, errors.New("snapshot is of another state than it says")
	}
	return s, b.Head, nil
}
