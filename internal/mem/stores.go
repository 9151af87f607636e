package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

type blobs struct{ s *Station }

// Put implements kernel.Blobs.
func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if ctx.Err() != nil {
		return events.Ref{}, context.Cause(ctx)
	}
	ref := events.Ref{SHA256: events.HashOf(data), Size: int64(len(data)), Type: kind}
	if len(data) > topology.MaxObject {
		return events.Ref{}, fmt.Errorf("put object of %d bytes, the limit is %d: %w", len(data), topology.MaxObject,
			kernel.ErrTooLarge)
	}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	err := b.s.put(BlobStore, ref.SHA256, func() error {
		if have, ok := b.s.blobs[ref.SHA256]; !ok || events.HashOf(have) != ref.SHA256 {
			b.s.blobs[ref.SHA256] = bytes.Clone(data)
		}
		return nil
	})
	if err != nil {
		return events.Ref{}, fmt.Errorf("put object %s: %w", ref.SHA256, err)
	}
	return ref, nil
}

// Get implements kernel.Blobs.
func (b blobs) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d, err := hex.DecodeString(ref.SHA256); err != nil || len(d) != sha256.Size {
		return nil, fmt.Errorf("get object: %.80q is not a SHA-256 digest in hex", ref.SHA256)
	}
	if ref.Size < 0 || ref.Size > topology.MaxObject {
		return nil, fmt.Errorf("get object %s of %d bytes, the limit is %d: %w", ref.SHA256, ref.Size, topology.MaxObject,
			kernel.ErrTooLarge)
	}
	b.s.mu.Lock()
	data, ok := b.s.blobs[ref.SHA256]
	behind, err := b.s.get(BlobStore, ref.SHA256)
	b.s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("get object %s: %w", ref.SHA256, err)
	}
	if !ok {
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, kernel.ErrNotFound)
	}
	if behind > 0 || int64(len(data)) != ref.Size || events.HashOf(data) != ref.SHA256 {
		return nil, fmt.Errorf("object %s: the stored bytes are not those it was named for: %w (restore the object store)",
			ref.SHA256, kernel.ErrDamagedObject)
	}
	return bytes.Clone(data), nil
}

// DamageBlob puts other bytes in the place of an object, as no one could through the port.
func (s *Station) DamageBlob(sha256 string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[sha256] = bytes.Clone(data)
}

// maxValue is the most bytes of a value: what a server takes in one message.
const maxValue = 1 << 20

// oldValues is how many values of a key are kept for reads that are behind.
const oldValues = 8

// shelf is one bucket. values holds the last few changes of each key, the newest last. Everything is guarded by
// Station.mu.
type kv struct {
	s      *Station
	values map[string][]kept
	// made counts the changes of the bucket: it is the revision of the last one.
	made uint64
}

// kept is one change; a nil value is a deleted key.
type kept struct {
	value    []byte
	revision uint64
}

var validKey = pattern.New(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

func checkKey(key string) error {
	if !validKey.MatchString(key) {
		return fmt.Errorf("key %.80q: want tokens of letters, digits and -/_= joined by dots", key)
	}
	return nil
}

// newest returns the value of a key without the newest few; a nil value for none. Called with mu held.
func (s *kv) newest(key string, behind int) kept {
	all := s.values[key]
	if behind >= len(all) {
		return kept{}
	}
	return all[len(all)-1-behind]
}

// set makes a write and returns its revision. Called with mu held.
func (s *kv) set(key string, value []byte) uint64 {
	s.made++
	all := append(s.values[key], kept{value, s.made})
	s.values[key] = all[max(0, len(all)-oldValues):]
	return s.made
}

// change makes a write as a fault has it, if the key and the size are right.
func (s *kv) change(ctx context.Context, key string, size int, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := checkKey(key); err != nil {
		return err
	}
	if size > maxValue {
		return fmt.Errorf("key %s: a value of %d bytes, the limit is %d", key, size, maxValue)
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	return s.s.put(KVStore, key, do)
}

// Put implements kernel.Shelf.
func (s *kv) Put(ctx context.Context, key string, value []byte) error {
	value = append([]byte{}, value...)
	return s.change(ctx, key, len(value), func() error {
		s.set(key, value)
		return nil
	})
}

// Create implements kernel.Shelf.
func (s *kv) Create(ctx context.Context, key string, value []byte) error {
	_, err := s.Swap(ctx, key, value, 0)
	return err
}

// Swap implements kernel.Shelf.
func (s *kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	value = append([]byte{}, value...)
	err = s.change(ctx, key, len(value), func() error {
		there := s.newest(key, 0)
		if there.value == nil && there.revision > 0 && revision == 0 {
			// Clients ask any replica whether what refuses the new key is only the mark of a deleted one.
			behind, err := s.s.get(KVStore, key)
			if err != nil {
				return fmt.Errorf("get %s: %w", key, err)
			}
			there = s.newest(key, behind)
		}
		if there.value == nil {
			there.revision = 0
		}
		if there.revision != revision {
			return fmt.Errorf("key %s: %w", key, kernel.ErrExists)
		}
		now = s.set(key, value)
		return nil
	})
	return now, err
}

// Get implements kernel.Shelf.
func (s *kv) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.Load(ctx, key)
	return value, err
}

// Load implements kernel.Shelf.
func (s *kv) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	if err := checkKey(key); err != nil {
		return nil, 0, err
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	behind, err := s.s.get(KVStore, key)
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", key, err)
	}
	v := s.newest(key, behind)
	if v.value == nil {
		return nil, 0, fmt.Errorf("key %s: %w", key, kernel.ErrNotFound)
	}
	return append([]byte{}, v.value...), v.revision, nil
}

// Delete implements kernel.Shelf. A key that is not there is deleted already.
func (s *kv) Delete(ctx context.Context, key string) error {
	return s.change(ctx, key, 0, func() error {
		s.set(key, nil)
		return nil
	})
}

// Each implements kernel.KV, in the order of the keys.
func (s *kv) Each(ctx context.Context, prefix string, visit func(key string, value []byte) error) error {
	return kernel.EachOf(ctx, s, prefix, visit)
}

// Keys implements kernel.KV. They are sorted. Each is looked at, so a read that is behind shows here too.
func (s *kv) Keys(ctx context.Context, prefix string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if token, ok := strings.CutSuffix(prefix, "."); prefix != "" && (!ok || !validKey.MatchString(token)) {
		return nil, fmt.Errorf("list keys: prefix %.80q: want tokens of letters, digits and -/_=, each with a dot behind it",
			prefix)
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	there := []string{}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		behind, err := s.s.get(KVStore, key)
		if err != nil {
			return nil, fmt.Errorf("list keys: %w", err)
		}
		if s.newest(key, behind).value != nil {
			there = append(there, key)
		}
	}
	return there, nil
}

type leases struct{ s *Station }

// Renew implements kernel.Leases.
func (l leases) Renew(ctx context.Context, instance string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := events.CheckID("instance", instance); err != nil {
		return err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.put(LeaseStore, instance, func() error {
		term := l.s.cfg.LeaseTerm
		l.s.asked.renewals++
		if l.s.faults.Expire != nil {
			term += max(0, l.s.faults.Expire(l.s.asked.renewals, instance))
		}
		l.s.leases[instance] = l.s.cfg.Clock.Now().Add(term)
		return nil
	})
}

// Alive implements kernel.Leases.
func (l leases) Alive(ctx context.Context, instance string) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err := events.CheckID("instance", instance); err != nil {
		return false, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	behind, err := l.s.get(LeaseStore, instance)
	if err != nil {
		return false, fmt.Errorf("lease of %s: %w", instance, err)
	}
	if behind > 0 {
		return false, nil
	}
	until, ok := l.s.leases[instance]
	return ok && l.s.cfg.Clock.Now().Before(until), nil
}
