package mem

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/pkg/events"
)

type blobs struct{ s *Station }

// Put implements reactor.Blobs.
func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	if ctx.Err() != nil {
		return events.Ref{}, context.Cause(ctx)
	}
	ref := events.Ref{SHA256: digest(data), Size: int64(len(data)), Type: kind}
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if have, ok := b.s.blobs[ref.SHA256]; !ok || digest(have) != ref.SHA256 {
		b.s.blobs[ref.SHA256] = bytes.Clone(data)
	}
	return ref, nil
}

// Get implements reactor.Blobs.
func (b blobs) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	b.s.mu.Lock()
	data, ok := b.s.blobs[ref.SHA256]
	b.s.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, reactor.ErrNotFound)
	}
	if int64(len(data)) != ref.Size || digest(data) != ref.SHA256 {
		return nil, fmt.Errorf("object %s: the stored bytes are not those it was named for: restore the object store", ref.SHA256)
	}
	return bytes.Clone(data), nil
}

func digest(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// DamageBlob puts other bytes in the place of an object, as nobody could through the port.
func (s *Station) DamageBlob(sha256 string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[sha256] = bytes.Clone(data)
}

// shelf is one bucket.
type shelf struct {
	mu sync.Mutex
	// Everything below is guarded by mu. revisions holds that of the last change of each key, made counts changes.
	values    map[string][]byte
	revisions map[string]uint64
	made      uint64
}

// set makes a change. Called with mu held.
func (s *shelf) set(key string, value []byte) uint64 {
	s.made++
	s.values[key], s.revisions[key] = bytes.Clone(value), s.made
	return s.made
}

var errNoKey = errors.New("the key is empty: want tokens joined by dots")

// Put implements reactor.Shelf.
func (s *shelf) Put(ctx context.Context, key string, value []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if key == "" {
		return errNoKey
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, value)
	return nil
}

// Create implements reactor.Shelf.
func (s *shelf) Create(ctx context.Context, key string, value []byte) error {
	_, err := s.Swap(ctx, key, value, 0)
	return err
}

// Swap implements reactor.Shelf.
func (s *shelf) Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if key == "" {
		return 0, errNoKey
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revisions[key] != revision {
		return 0, fmt.Errorf("key %s: %w", key, reactor.ErrExists)
	}
	return s.set(key, value), nil
}

// Get implements reactor.Shelf.
func (s *shelf) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.Load(ctx, key)
	return value, err
}

// Load implements reactor.Shelf.
func (s *shelf) Load(ctx context.Context, key string) ([]byte, uint64, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	if !ok {
		return nil, 0, fmt.Errorf("key %s: %w", key, reactor.ErrNotFound)
	}
	return bytes.Clone(v), s.revisions[key], nil
}

// Delete implements reactor.Shelf. A key that is not there is deleted already.
func (s *shelf) Delete(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, key)
	delete(s.revisions, key)
	return nil
}

// Keys implements reactor.Shelf. They are sorted.
func (s *shelf) Keys(ctx context.Context, prefix string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.values))
	return slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, prefix) }), nil
}

type leases struct{ s *Station }

// Renew implements reactor.Leases.
func (l leases) Renew(ctx context.Context, instance string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := events.CheckID("instance", instance); err != nil {
		return err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.leases[instance] = l.s.cfg.Clock.Now().Add(l.s.cfg.LeaseTerm)
	return nil
}

// Alive implements reactor.Leases.
func (l leases) Alive(ctx context.Context, instance string) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	until, ok := l.s.leases[instance]
	return ok && l.s.cfg.Clock.Now().Before(until), nil
}
