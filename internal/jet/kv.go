package jet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// shelf is a station's part of a key-value bucket: its keys begin with the station. A Get may come from a replica that
// is behind: it may be old, but a key that the leader has is not reported as missing, except in the bucket of views,
// which are made again from the log. Create and Swap are decided by the leader, but a key that was deleted a moment ago
// may be taken for one that is there, because a replica is asked whether it is deleted.
type kv struct {
	c               *Conn
	bucket, station string
}

var _ kernel.KV = kv{}

// open binds to the bucket.
func (s kv) open(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := s.c.bound.open(ctx, s.c.js, s.bucket)
	return kv, absent(err)
}

func (s kv) key(key string) string { return s.station + "." + key }

// Put implements kernel.Shelf.
func (s kv) Put(ctx context.Context, key string, value []byte) error {
	return s.with(ctx, "put", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, s.key(key), value)
		return err
	})
}

// Create implements kernel.Shelf.
func (s kv) Create(ctx context.Context, key string, value []byte) error {
	return s.with(ctx, "create", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Create(ctx, s.key(key), value)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return kernel.ErrExists
		}
		return err
	})
}

// Swap implements kernel.Shelf.
func (s kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	err = s.with(ctx, "swap", key, func(ctx context.Context, kv jetstream.KeyValue) (err error) {
		if revision == 0 {
			now, err = kv.Create(ctx, s.key(key), value)
		} else {
			now, err = kv.Update(ctx, s.key(key), value, revision)
		}
		if errors.Is(err, jetstream.ErrKeyExists) || code(err) == codeWrongLast || code(err) == codeWrongLastNoSeq {
			return kernel.ErrExists
		}
		return err
	})
	return now, err
}

// Get implements kernel.Shelf.
func (s kv) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.Load(ctx, key)
	return value, err
}

// Load implements kernel.Shelf. The revision may be behind: then a Swap with it returns ErrExists.
func (s kv) Load(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	err = s.with(ctx, "get", key, func(ctx context.Context, _ jetstream.KeyValue) error {
		if !validKey(s.key(key)) {
			return jetstream.ErrInvalidKey
		}
		for wait := behindWait; ; wait = min(2*wait, behindMost) {
			m, err := s.look(ctx, key)
			if err != nil {
				return err
			}
			if m != nil {
				value, revision, err = valueOf(m)
				return err
			}
			has, err := s.leaderHas(ctx, key)
			if err != nil {
				return err
			}
			if !has {
				return kernel.ErrNotFound
			}
			if err := kernel.Sleep(ctx, wait); err != nil {
				return fmt.Errorf("%w (%w)", ErrBehind, err)
			}
		}
	})
	return value, revision, err
}

// validKey reports whether a key is one, by the rule of the client library: what is read here becomes part of a
// subject.
func validKey(key string) bool {
	return key != "" && key[0] != '.' && key[len(key)-1] != '.' && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-/_=.", r)
	})
}

// ErrBehind means that the replica that answers lacks what the leader has.
var ErrBehind = errors.New("the replica that answers is behind its leader: try again, and look whether all NATS servers are up")

// Waits between two looks at a replica that is behind.
const (
	behindWait = 5 * time.Millisecond
	behindMost = 250 * time.Millisecond
)

// look asks any replica for the newest message of a key; nil where it has none.
func (s kv) look(ctx context.Context, key string) (*nats.Msg, error) {
	subject := "$KV." + s.bucket + "." + s.key(key)
	m, err := s.c.request(ctx, &nats.Msg{Subject: apiPrefix + "DIRECT.GET." + topology.KVStream(s.bucket) + "." + subject})
	if err != nil || stamped(m, "Nats-Subject") == subject {
		return m, err
	}
	if status := m.Header.Get("Status"); status != "404" {
		return nil, fmt.Errorf("the server answers %s %s", status, m.Header.Get("Description"))
	}
	return nil, nil
}

// valueOf is what a message says that is kept under its key. A deleted key has a message too.
func valueOf(m *nats.Msg) (value []byte, revision uint64, err error) {
	if m.Header.Get("KV-Operation") != "" {
		return nil, 0, kernel.ErrNotFound
	}
	revision, err = number(m, "Nats-Sequence")
	return m.Data, revision, err
}

// leaderHas asks the leader whether it has a message of a key. It is not asked for views, which are missing for a while
// as a matter of course and would be asked for with each new run.
func (s kv) leaderHas(ctx context.Context, key string) (bool, error) {
	if s.bucket == s.c.cfg.Buckets.Of(topology.StateBucket) {
		return false, nil
	}
	var answer struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	subject := "$KV." + s.bucket + "." + s.key(key)
	err := s.c.api(ctx, "STREAM.INFO."+topology.KVStream(s.bucket), map[string]string{"subjects_filter": subject}, &answer)
	return answer.State.Subjects[subject] > 0, err
}

// Delete implements kernel.Shelf.
func (s kv) Delete(ctx context.Context, key string) error {
	return s.with(ctx, "delete", key, func(ctx context.Context, kv jetstream.KeyValue) error {
		err := kv.Delete(ctx, s.key(key))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		return err
	})
}

// lookers is how many keys are looked at side by side when keys are listed.
const lookers = 32

// Keys implements kernel.KV.
func (s kv) Keys(ctx context.Context, prefix string) ([]string, error) {
	var mu sync.Mutex
	keys := []string{}
	err := s.Each(ctx, prefix, func(key string, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return keys, nil
}

// Each implements kernel.KV. The leader names the keys, and each is looked at because the deleted ones are among them.
// The usual way, a consumer, would need the right to create consumers, and a consumer delivers wherever its creator
// says, also where the creator may not publish. A request for many keys names no key in its subject, so no permission
// could hold it to one station.
func (s kv) Each(ctx context.Context, prefix string, visit func(key string, value []byte) error) error {
	if prefix != "" && !validPrefix.MatchString(prefix) {
		return fmt.Errorf("list keys of %s: prefix %.80q: want tokens of letters, digits and -/_=, each with a dot behind it",
			s.bucket, prefix)
	}
	named, err := s.named(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list %s in %s: %w", prefix, s.bucket, err)
	}
	errs := make([]error, lookers)
	var next atomic.Int64
	var failed atomic.Bool
	var wg sync.WaitGroup
	for w := range min(lookers, len(named)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(named)) && !failed.Load(); i = next.Add(1) - 1 {
				value, err := s.Get(ctx, named[i])
				if err == nil {
					err = visit(named[i], value)
				} else if errors.Is(err, kernel.ErrNotFound) {
					continue
				}
				if err != nil {
					errs[w] = err
					failed.Store(true)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// validPrefix keeps wildcards out: the server would take them for a pattern.
var validPrefix = regexp.MustCompile(`^([-/_=a-zA-Z0-9]+\.)+$`)

// named asks the leader for all keys below a prefix, sorted, the deleted ones too.
func (s kv) named(ctx context.Context, prefix string) ([]string, error) {
	base := "$KV." + s.bucket + "." + s.station + "."
	names := map[string]bool{} // pages overlap where keys are added meanwhile
	for offset := 0; ; {
		var page struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		ask := map[string]any{"subjects_filter": base + prefix + ">", "offset": offset}
		err := taken(ctx, func() error { return s.c.api(ctx, "STREAM.INFO."+topology.KVStream(s.bucket), ask, &page) })
		if err != nil {
			return nil, absent(err)
		}
		for subject := range page.State.Subjects {
			names[strings.TrimPrefix(subject, base)] = true
		}
		offset += len(page.State.Subjects)
		if len(page.State.Subjects) == 0 || offset >= page.Total {
			return slices.Sorted(maps.Keys(names)), nil
		}
	}
}

// with does something to a key within the time of a request. A denied subject ends it at once.
func (s kv) with(ctx context.Context, verb, key string, do func(context.Context, jetstream.KeyValue) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	err := s.c.Ready(ctx)
	if err == nil {
		subject := "$KV." + s.bucket + "." + s.key(key)
		watched, done := s.c.denied.watch(ctx, subject)
		defer done()
		watched, doneReading := s.c.denied.watch(watched, apiPrefix+"DIRECT.GET."+topology.KVStream(s.bucket)+"."+subject)
		defer doneReading()
		err = taken(watched, func() error {
			kv, err := s.open(watched)
			if err != nil {
				return err
			}
			return do(watched, kv)
		})
		if cause := context.Cause(watched); err != nil && cause != nil {
			err = cause
		}
	}
	switch {
	case errors.Is(err, ErrDenied):
		return fmt.Errorf("%s %s in %s: %w: %w", verb, key, s.bucket, kernel.ErrDenied, err)
	case err != nil:
		return fmt.Errorf("%s %s in %s: %w", verb, key, s.bucket, err)
	}
	return nil
}

// boundBuckets are the buckets that a connection has opened. The zero value is none.
type boundBuckets struct {
	mu sync.Mutex
	// byName is guarded by mu.
	byName map[string]jetstream.KeyValue
}

// open binds to a bucket once and keeps it.
func (b *boundBuckets) open(ctx context.Context, js jetstream.JetStream, name string) (jetstream.KeyValue, error) {
	b.mu.Lock()
	kv := b.byName[name]
	b.mu.Unlock()
	if kv != nil {
		return kv, nil
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byName == nil {
		b.byName = make(map[string]jetstream.KeyValue)
	}
	b.byName[name] = kv
	return kv, nil
}

// validInstance keeps instance names to one token of a key.
func validInstance(instance string) error { return events.CheckID("instance", instance) }
