// Package snapshot keeps the states of runs so that loading one does not fold its whole log.
//
// Promises: a snapshot is a cache. One that is missing, damaged, of another schema version or not in step with the
// log is as good as none; the log decides. Small ones are kept in the state bucket, large ones in the object store.
// They are written in one of two forms, and those of either form are read whatever is written today.
package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Form of stored states.
type Form string

// The forms. A Store with no form writes FormBinary.
const (
	// FormBinary is Binary: smaller, faster, and a damaged one is always noticed.
	FormBinary Form = "binary"
	// FormJSON is JSON, compressed with gzip: standard tools read it.
	FormJSON Form = "json+gzip"
)

// CheckForm says what is wrong with a form from a configuration. Empty is right.
func CheckForm(f Form) error {
	switch f {
	case "", FormBinary, FormJSON:
		return nil
	}
	return fmt.Errorf("%q is not a snapshot format: want %q or %q", f, FormBinary, FormJSON)
}

// Limits of a snapshot, in bytes.
const (
	maxInline = 256 << 10
	maxState  = 256 << 20
)

// Store keeps snapshots under "snap.{run}".
type Store struct {
	KV kernel.KV
	// Blobs takes the large ones; nil leaves them on the shelf.
	Blobs kernel.Blobs
	Codec run.Codec
	// Form that Save writes; Load reads all of them.
	Form Form
}

var _ runlog.Snapshots = (*Store)(nil)

// envelope is the row of a snapshot: this as JSON and, in the binary form, a line break and the bytes of a small one.
type envelope struct {
	Head     uint64      `json:"head"`
	Sequence uint64      `json:"sequence"`
	Codec    Form        `json:"codec"`
	Ref      *events.Ref `json:"ref,omitempty"`
	Zipped   []byte      `json:"zipped,omitempty"`
}

// Key of a run's snapshot.
func Key(runID string) string { return "snap." + runID }

// Save stores a state whose last event is at head.
func (st *Store) Save(ctx context.Context, s run.State, head uint64) error {
	value, err := st.Pack(ctx, s, head)
	if err != nil {
		return err
	}
	return st.KV.Put(ctx, Key(s.HarnessID), value)
}

// Pack makes the row that Save stores. A large state goes to the object store first.
func (st *Store) Pack(ctx context.Context, s run.State, head uint64) ([]byte, error) {
	b := envelope{Head: head, Sequence: s.Sequence, Codec: st.Form}
	if b.Codec == "" {
		b.Codec = FormBinary
	}
	body, err := st.encode(b.Codec, s)
	if err != nil {
		return nil, err
	}
	var tail []byte
	switch {
	case len(body) > maxInline && st.Blobs != nil:
		ref, err := st.Blobs.Put(ctx, "snapshot", body)
		if err != nil {
			return nil, fmt.Errorf("store snapshot: %w", err)
		}
		b.Ref = &ref
	case b.Codec == FormJSON:
		b.Zipped = body
	default:
		tail = append([]byte{'\n'}, body...)
	}
	value, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	return append(value, tail...), nil
}

func (st *Store) encode(f Form, s run.State) ([]byte, error) {
	switch f {
	case FormJSON:
		plain, err := st.Codec.Encode(s)
		if err != nil {
			return nil, err
		}
		return zip(plain)
	case FormBinary:
		return Binary{st.Codec}.Encode(s)
	}
	return nil, CheckForm(f)
}

func (st *Store) decode(f Form, body []byte) (run.State, error) {
	switch f {
	case FormJSON:
		plain, err := unzip(body)
		if err != nil {
			return run.State{}, err
		}
		return st.Codec.Decode(plain)
	case FormBinary:
		return Binary{st.Codec}.Decode(body)
	}
	return run.State{}, CheckForm(f)
}

// Latest implements runlog.Snapshots.
func (st *Store) Latest(ctx context.Context, runID string) (run.State, uint64, bool) {
	s, head, err := st.Load(ctx, runID)
	return s, head, err == nil
}

// First is the snapshots of several stores: the first that has one counts.
type First []*Store

var _ runlog.Snapshots = First{}

// Latest implements runlog.Snapshots.
func (f First) Latest(ctx context.Context, runID string) (run.State, uint64, bool) {
	for _, st := range f {
		if s, head, ok := st.Latest(ctx, runID); ok {
			return s, head, true
		}
	}
	return run.State{}, 0, false
}

// Load returns a snapshot or says why there is none.
func (st *Store) Load(ctx context.Context, runID string) (run.State, uint64, error) {
	value, err := st.KV.Get(ctx, Key(runID))
	if err != nil {
		return run.State{}, 0, err
	}
	return st.Unpack(ctx, runID, value)
}

// Unpack reads a row that Pack made. Shelf is not asked.
func (st *Store) Unpack(ctx context.Context, runID string, value []byte) (run.State, uint64, error) {
	row, body, _ := bytes.Cut(value, []byte{'\n'})
	var b envelope
	if err := json.Unmarshal(row, &b); err != nil {
		return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
	}
	switch {
	case b.Ref != nil && st.Blobs == nil:
		return run.State{}, 0, fmt.Errorf("snapshot of %s is in an object store, and none is configured", runID)
	case b.Ref != nil:
		var err error
		if body, err = st.Blobs.Get(ctx, *b.Ref); err != nil {
			return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
		}
	case b.Codec == FormJSON:
		body = b.Zipped
	}
	s, err := st.decode(b.Codec, body)
	if err != nil {
		return run.State{}, 0, fmt.Errorf("snapshot of %s: %w", runID, err)
	}
	if s.HarnessID != runID || s.Sequence != b.Sequence {
		return run.State{}, 0, errors.New("the snapshot has the state of another run or sequence")
	}
	return s, b.Head, nil
}

func zip(plain []byte) ([]byte, error) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(plain); err != nil {
		return nil, fmt.Errorf("compress state: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress state: %w", err)
	}
	return zipped.Bytes(), nil
}

func unzip(zipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("decompress state: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxState))
	if err != nil {
		return nil, fmt.Errorf("decompress state: %w", err)
	}
	return plain, nil
}
