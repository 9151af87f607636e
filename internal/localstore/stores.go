package localstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

type blobs struct{ store *store }

// Put implements kernel.Blobs. Bytes that were damaged are replaced.
func (b blobs) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	ref := events.Ref{SHA256: events.HashOf(data), Size: int64(len(data)), Type: kind}
	err := b.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO blobs(sha256, kind, data) VALUES(?, ?, ?) ON CONFLICT(sha256) DO UPDATE SET data = excluded.data", ref.SHA256, kind, nonNil(data))
		return err
	})
	if err != nil {
		return events.Ref{}, fmt.Errorf("put object %s: %w", ref.SHA256, err)
	}
	return ref, nil
}

// Get implements kernel.Blobs.
func (b blobs) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	var data []byte
	err := b.store.db.QueryRowContext(ctx, "SELECT data FROM blobs WHERE sha256 = ?", ref.SHA256).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, kernel.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("object %s: %w", ref.SHA256, err)
	case int64(len(data)) != ref.Size || events.HashOf(data) != ref.SHA256:
		return nil, fmt.Errorf("object %s: the stored bytes are not those it was named for: restore the local store",
			ref.SHA256)
	}
	return data, nil
}

// nonNil keeps an empty value from becoming NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

type kv struct {
	store  *store
	bucket string
}

// validPrefix is what a server takes for a prefix of keys, without wildcards.
var validPrefix = regexp.MustCompile(`^([-/_=a-zA-Z0-9]+\.)+$`)

var errNoKey = errors.New("the key is empty: want tokens joined by dots")

// Put implements kernel.Shelf.
func (s kv) Put(ctx context.Context, key string, value []byte) error {
	return s.change(ctx, key, func(tx *sql.Tx) error {
		_, err := s.set(tx, key, value)
		return err
	})
}

// set writes a value and returns its revision, which is greater than all before it.
func (s kv) set(tx *sql.Tx, key string, value []byte) (uint64, error) {
	res, err := tx.Exec("INSERT INTO revisions DEFAULT VALUES")
	if err != nil {
		return 0, err
	}
	revision, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec("DELETE FROM revisions WHERE n < ?", revision); err != nil {
		return 0, err
	}
	_, err = tx.Exec("INSERT INTO shelf(bucket, key, value, revision) VALUES(?, ?, ?, ?) ON CONFLICT(bucket, key) DO UPDATE SET value = excluded.value, revision = excluded.revision",
		s.bucket, key, nonNil(value), revision)
	return uint64(revision), err
}

// Create implements kernel.Shelf.
func (s kv) Create(ctx context.Context, key string, value []byte) error {
	_, err := s.Swap(ctx, key, value, 0)
	return err
}

// Swap implements kernel.Shelf.
func (s kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	err = s.change(ctx, key, func(tx *sql.Tx) error {
		var there uint64
		err := tx.QueryRow("SELECT revision FROM shelf WHERE bucket = ? AND key = ?", s.bucket, key).Scan(&there)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if there != revision {
			return kernel.ErrExists
		}
		now, err = s.set(tx, key, value)
		return err
	})
	return now, err
}

// Delete implements kernel.Shelf. A key that is not there is deleted already.
func (s kv) Delete(ctx context.Context, key string) error {
	return s.change(ctx, key, func(tx *sql.Tx) error {
		_, err := tx.Exec("DELETE FROM shelf WHERE bucket = ? AND key = ?", s.bucket, key)
		return err
	})
}

func (s kv) change(ctx context.Context, key string, f func(*sql.Tx) error) error {
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
	err = s.store.db.QueryRowContext(ctx, "SELECT value, revision FROM shelf WHERE bucket = ? AND key = ?", s.bucket,
		key).Scan(&value, &revision)
	if errors.Is(err, sql.ErrNoRows) {
		err = kernel.ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("key %s: %w", key, err)
	}
	return value, revision, nil
}

// Keys implements kernel.Shelf. They are sorted.
func (s kv) Keys(ctx context.Context, prefix string) ([]string, error) {
	if prefix != "" && !validPrefix.MatchString(prefix) {
		return nil, fmt.Errorf("list keys: %.80q is no prefix of whole tokens", prefix)
	}
	keys := []string{}
	err := s.store.each(ctx, func(scan func(...any) error) error {
		var k string
		if err := scan(&k); err != nil {
			return err
		}
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
		return nil
	}, "SELECT key FROM shelf WHERE bucket = ? AND key >= ? ORDER BY key", s.bucket, prefix)
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
	return r.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO dead(by, letter) VALUES(?, ?)", string(by), string(letter))
		return err
	})
}

// Refused implements kernel.Refusals.
func (r refusals) Refused(ctx context.Context, by events.Service, m kernel.Message) (refused bool, err error) {
	err = r.store.each(ctx, func(scan func(...any) error) error {
		var letter string
		if err := scan(&letter); err != nil {
			return err
		}
		var d kernel.DeadLetter
		if err := json.Unmarshal([]byte(letter), &d); err != nil {
			return fmt.Errorf("dead letter: %w", err)
		}
		refused = refused || d.Of(m)
		return nil
	}, "SELECT letter FROM dead WHERE by = ? AND letter ->> '$.seq' = ?", string(by), m.Seq())
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
	err := s.store.each(ctx, func(scan func(...any) error) error {
		var r Refused
		var by, letter string
		if err := scan(&r.Seq, &by, &letter); err != nil {
			return err
		}
		r.By = events.Service(by)
		all = append(all, r)
		return json.Unmarshal([]byte(letter), &all[len(all)-1].Letter)
	}, "SELECT seq, by, letter FROM dead WHERE seq > ? ORDER BY seq LIMIT ?", after, batch)
	return all, err
}
