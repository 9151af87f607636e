package localstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

type blobs struct{ store *store }

// objectHead is what is stored of an object before its data.
type objectHead struct {
	Kind string `json:"kind"`
}

// Put implements kernel.Blobs. Bytes that were damaged are replaced.
func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	ref := events.Ref{SHA256: events.HashOf(data), Size: int64(len(data)), Type: kind}
	if err := b.store.write(ctx, func(t *tx) error { return putObject(t, ref.SHA256, kind, data) }); err != nil {
		return events.Ref{}, fmt.Errorf("put object %s: %w", ref.SHA256, err)
	}
	return ref, nil
}

func putObject(t putter, sha256, kind string, data []byte) error {
	value, err := join(objectHead{kind}, data)
	if err != nil {
		return err
	}
	return t.put(objectsBucket, []byte(sha256), value)
}

// Get implements kernel.Blobs.
func (b blobs) Get(ctx context.Context, ref events.Ref) (data []byte, err error) {
	err = b.store.view(ctx, func(t *tx) error {
		value, err := t.get(objectsBucket, []byte(ref.SHA256))
		if err == nil && value == nil {
			err = kernel.ErrNotFound
		}
		if err == nil {
			data, err = split(value, &objectHead{})
		}
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, err)
	case int64(len(data)) != ref.Size || events.HashOf(data) != ref.SHA256:
		return nil, fmt.Errorf("object %s: the stored bytes are not those it was named for: restore the local store",
			ref.SHA256)
	}
	return data, nil
}

type kv struct {
	store  *store
	bucket string
}

// validPrefix is what a server takes for a prefix of keys, without wildcards.
var validPrefix = pattern.New(`^([-/_=a-zA-Z0-9]+\.)+$`)

var errNoKey = errors.New("the key is empty: want tokens joined by dots")

// at is the key of a value in the file. No store has a zero byte in its name.
func (s kv) at(key string) []byte { return append(group(s.bucket), key...) }

// Put implements kernel.Shelf.
func (s kv) Put(ctx context.Context, key string, value []byte) error {
	return s.change(ctx, key, func(t *tx) error {
		_, err := s.set(t, key, value)
		return err
	})
}

// set writes a value and returns its revision, which is greater than all before it.
func (s kv) set(t *tx, key string, value []byte) (uint64, error) {
	revision, err := t.next(valuesBucket)
	if err != nil {
		return 0, err
	}
	return revision, s.putAt(t, key, value, revision)
}

func (s kv) putAt(t putter, key string, value []byte, revision uint64) error {
	return t.put(valuesBucket, s.at(key), append(number(revision), value...))
}

// get returns a value and its revision, which is 0 where there is none.
func (s kv) get(t *tx, key string) (value []byte, revision uint64, err error) {
	b, err := t.get(valuesBucket, s.at(key))
	if err != nil || b == nil {
		return nil, 0, err
	}
	if revision, err = numberAt(b); err != nil {
		return nil, 0, err
	}
	return append([]byte{}, b[8:]...), revision, nil
}

// Create implements kernel.Shelf.
func (s kv) Create(ctx context.Context, key string, value []byte) error {
	_, err := s.Swap(ctx, key, value, 0)
	return err
}

// Swap implements kernel.Shelf.
func (s kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	err = s.change(ctx, key, func(t *tx) error {
		_, there, err := s.get(t, key)
		if err != nil {
			return err
		}
		if there != revision {
			return kernel.ErrExists
		}
		now, err = s.set(t, key, value)
		return err
	})
	if err != nil {
		return 0, err
	}
	return now, nil
}

// Delete implements kernel.Shelf. A key that is not there is deleted already.
func (s kv) Delete(ctx context.Context, key string) error {
	return s.change(ctx, key, func(t *tx) error { return t.remove(valuesBucket, s.at(key)) })
}

func (s kv) change(ctx context.Context, key string, f func(*tx) error) error {
	if key == "" {
		return errNoKey
	}
	if err := s.store.write(ctx, f); err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	return nil
}

// Get implements kernel.Shelf.
func (s kv) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.Load(ctx, key)
	return value, err
}

// Load implements kernel.Shelf.
func (s kv) Load(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	err = s.store.view(ctx, func(t *tx) error {
		if value, revision, err = s.get(t, key); err == nil && revision == 0 {
			err = kernel.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("key %s: %w", key, err)
	}
	return value, revision, nil
}

// Each implements kernel.KV, in the order of the keys.
func (s kv) Each(ctx context.Context, prefix string, visit func(key string, value []byte) error) error {
	return kernel.EachOf(ctx, s, prefix, visit)
}

// Keys implements kernel.KV. They are sorted.
func (s kv) Keys(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" && !validPrefix.MatchString(prefix) {
		return nil, fmt.Errorf("list keys: %.80q is no prefix of whole tokens", prefix)
	}
	keys := []string{}
	err := s.store.view(ctx, func(t *tx) error {
		return t.scan(valuesBucket, s.at(prefix), nil, func(key, _ []byte) error {
			keys = append(keys, string(key[len(s.bucket)+1:]))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("keys of %q: %w", prefix, err)
	}
	return keys, nil
}

type refusals struct{ store *store }

// Refuse implements kernel.Refusals.
func (r refusals) Refuse(ctx context.Context, by events.Service, d kernel.DeadLetter) error {
	letter, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	return r.store.write(ctx, func(t *tx) error {
		seq, err := t.next(deadBucket)
		if err != nil {
			return err
		}
		return putDead(t, seq, by, d.Seq, letter)
	})
}

// putDead stores a dead letter, and that it is of the message at a position.
func putDead(t putter, seq uint64, by events.Service, of uint64, letter []byte) error {
	if err := t.put(deadBucket, number(seq), append(group(string(by)), letter...)); err != nil {
		return err
	}
	return t.put(refusedBucket, slices.Concat(group(string(by)), number(of), number(seq)), nil)
}

// deadAt decodes a dead letter.
func deadAt(seq uint64, value []byte) (r Refused, err error) {
	by, letter, ok := bytes.Cut(value, []byte{0})
	if !ok {
		return r, fmt.Errorf("%w: dead letter %d does not name who refused it", ErrDamaged, seq)
	}
	r.Seq, r.By = seq, events.Service(by)
	if err := json.Unmarshal(letter, &r.Letter); err != nil {
		return r, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	return r, nil
}

// Refused implements kernel.Refusals.
func (r refusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (refused bool, err error) {
	prefix := append(group(string(by)), number(m.Seq())...)
	err = r.store.view(ctx, func(t *tx) error {
		return t.scan(refusedBucket, prefix, nil, func(key, _ []byte) error {
			seq, err := numberAt(key[len(prefix):])
			if err != nil {
				return err
			}
			value, err := t.get(deadBucket, number(seq))
			if err != nil {
				return err
			}
			d, err := deadAt(seq, value)
			refused = refused || err == nil && d.Letter.Of(m)
			return err
		})
	})
	return refused, err
}

// Refused is a dead letter, the service that refused it and its position in the list.
type Refused struct {
	Seq    uint64
	By     events.Service
	Letter kernel.DeadLetter
}

// Dead returns the dead letters after a position, oldest first, at most 256.
func (s *Station) Dead(ctx context.Context, after uint64) ([]Refused, error) {
	var all []Refused
	err := s.store.view(ctx, func(t *tx) error {
		return t.scan(deadBucket, nil, number(after+1), func(key, value []byte) error {
			seq, err := numberAt(key)
			if err != nil {
				return err
			}
			r, err := deadAt(seq, value)
			if err != nil {
				return err
			}
			if all = append(all, r); len(all) == batch {
				return errEnough
			}
			return nil
		})
	})
	return all, err
}
