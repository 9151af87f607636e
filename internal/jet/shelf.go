package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/reactor"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// shelf is a station's part of a key-value bucket: its keys begin with the station. A Get may come from a replica that
// is behind; Create asks the leader.
type shelf struct {
	c               *Conn
	bucket, station string
}

var _ reactor.Shelf = shelf{}

// open binds to the bucket.
func (s shelf) open(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := s.c.bucket(ctx, s.bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("bucket %s: %w: set the station up", s.bucket, err)
	}
	return kv, err
}

func (s shelf) key(key string) string { return s.station + "." + key }

// Put implements reactor.Shelf.
func (s shelf) Put(ctx context.Context, key string, value []byte) error {
	return s.with(ctx, "put", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, s.key(key), value)
		return err
	})
}

// Create implements reactor.Shelf.
func (s shelf) Create(ctx context.Context, key string, value []byte) error {
	return s.with(ctx, "create", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Create(ctx, s.key(key), value)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return reactor.ErrExists
		}
		return err
	})
}

// Get implements reactor.Shelf.
func (s shelf) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.with(ctx, "get", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		entry, err := kv.Get(ctx, s.key(key))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return reactor.ErrNotFound
		}
		if err == nil {
			value = entry.Value()
		}
		return err
	})
	return value, err
}

// Delete implements reactor.Shelf.
func (s shelf) Delete(ctx context.Context, key string) error {
	return s.with(ctx, "delete", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		err := kv.Delete(ctx, s.key(key))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		return err
	})
}

// Keys implements reactor.Shelf.
func (s shelf) Keys(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" && !strings.HasSuffix(prefix, ".") {
		return nil, fmt.Errorf("list keys of %s: prefix %q does not end in a dot", s.bucket, prefix)
	}
	keys := []string{}
	err := s.with(ctx, "list", prefix+">", func(ctx context.Context, kv jetstream.KeyValue) error {
		list, err := kv.ListKeysFiltered(ctx, s.key(prefix+">"))
		if err != nil {
			return err
		}
		defer list.Stop() //nolint:errcheck // the list is complete or given up
		for {
			select {
			case key, ok := <-list.Keys():
				if !ok {
					return context.Cause(ctx)
				}
				keys = append(keys, strings.TrimPrefix(key, s.station+"."))
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// with does something to a key within the time of a request. A denied subject ends it at once.
func (s shelf) with(ctx context.Context, verb, key string, do func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	err := s.c.Ready(ctx)
	if err == nil {
		subject := "$KV." + s.bucket + "." + s.key(key)
		watched, done := s.c.denied.watch(ctx, subject)
		defer done()
		watched, doneReading := s.c.denied.watch(watched, apiPrefix+"DIRECT.GET."+topology.KVStream(s.bucket)+"."+subject)
		defer doneReading()
		var kv jetstream.KeyValue
		if kv, err = s.open(watched); err == nil {
			err = do(watched, kv)
		}
		if cause := context.Cause(watched); err != nil && cause != nil {
			err = cause
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s in %s: %w", verb, key, s.bucket, err)
	}
	return nil
}

// bucket binds to a bucket once and keeps it.
func (c *Conn) bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	c.mu.Lock()
	kv := c.buckets[name]
	c.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := c.js.KeyValue(ctx, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.buckets[name] = kv
	c.mu.Unlock()
	return kv, nil
}

// validInstance keeps instance names to one token of a key.
func validInstance(instance string) error { return events.CheckID("instance", instance) }
