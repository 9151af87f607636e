package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/internal/workspace/treelog"
	"github.com/inspan/inspan/pkg/events"
)

// lab is a station with instances that may die.
type lab struct {
	t  *testing.T
	st *mem.Station
	mu sync.Mutex
	// dead instances, guarded by mu.
	dead map[string]bool
	// older is what keeps rows from being taken over.
	older error
}

func newLab(t *testing.T) *lab {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &lab{t: t, st: st, dead: map[string]bool{}}
}

func (l *lab) Renew(context.Context, string) error { return nil }

func (l *lab) Alive(_ context.Context, instance string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.dead[instance], nil
}

func (l *lab) kill(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[instance] = true
}

// at makes an instance on a root of its own; each operation goes through its fate.
func (l *lab) at(instance string, f *fate, change ...func(*Config)) *Trees {
	l.t.Helper()
	cfg := Config{Root: filepath.Join(l.t.TempDir(), instance), Log: l.log(f), Leases: l, Blobs: blobs{l.st.Blobs(), f},
		Snapshots: copies{f}, Instance: instance, Chain: 2}
	for _, c := range change {
		c(&cfg)
	}
	trees, err := New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return trees
}

// log is that of a process of its own; each operation goes through its fate.
func (l *lab) log(f *fate) *treelog.Log {
	l.t.Helper()
	return logOf(l.t, l.st, f, func(context.Context) error { return l.older })
}

func logOf(t testing.TB, st *mem.Station, f *fate, older func(context.Context) error) *treelog.Log {
	t.Helper()
	log, err := treelog.New(treelog.Config{Station: "s1", By: events.Toolrunner, Entropy: rand.Reader, Older: older,
		Journal: journal{st.JournalFor(events.WorkspaceAggregate), f}, Rows: kv{st.KV(topology.TreeBucket), f}})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func (l *lab) record(workspace string) Record { return l.state(workspace).Workspace }

func (l *lab) state(workspace string) treelog.State {
	l.t.Helper()
	s, err := l.log(nil).Latest(l.t.Context(), workspace)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

var errGone = errors.New("the process is gone")

// fate counts operations and ends a process at one of them, or loses one answer. A nil fate does nothing.
type fate struct {
	// at is the operation, 0 for none; done: it is carried out first. once: the process goes on after it.
	at         int
	done, once bool
	n          int
	gone       bool
	// asleep, where it is set, is what happens to others while this process is paused before operation at; then it
	// wakes up and goes on.
	asleep func()
}

func (f *fate) op(do func() error) error {
	if f == nil {
		return do()
	}
	if f.gone {
		return errGone
	}
	if f.n++; f.n != f.at {
		return do()
	}
	if f.asleep != nil {
		f.asleep()
		return do()
	}
	f.gone = !f.once
	if f.done {
		_ = do()
	}
	return errGone
}

// journal is a log whose operations a process may not survive. What is stored although the process is gone is stored.
type journal struct {
	kernel.Journal
	f *fate
}

func (j journal) Append(ctx context.Context, e kernel.Entry) (ack kernel.Ack) {
	if j.f != nil && j.f.gone {
		return kernel.Ack{Outcome: kernel.Full, Err: errGone} // it tries no more
	}
	if err := j.f.op(func() error { ack = j.Journal.Append(ctx, e); return ack.Err }); err != nil && ack.Err == nil {
		return kernel.Ack{Outcome: kernel.Unknown, Err: err}
	}
	return ack
}

func (j journal) Read(ctx context.Context, id string, after uint64) (evs []kernel.Record, more bool, err error) {
	err = j.f.op(func() error { evs, more, err = j.Journal.Read(ctx, id, after); return err })
	return evs, more, err
}

func (j journal) Last(ctx context.Context, id string) (r kernel.Record, ok bool, err error) {
	err = j.f.op(func() error { r, ok, err = j.Journal.Last(ctx, id); return err })
	return r, ok && err == nil, err
}

type kv struct {
	kernel.KV
	f *fate
}

func (s kv) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.f.op(func() error { value, err = s.KV.Get(ctx, key); return err })
	return value, err
}

func (s kv) Load(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	err = s.f.op(func() error { value, revision, err = s.KV.Load(ctx, key); return err })
	return value, revision, err
}

func (s kv) Swap(ctx context.Context, key string, value []byte, revision uint64) (now uint64, err error) {
	err = s.f.op(func() error { now, err = s.KV.Swap(ctx, key, value, revision); return err })
	return now, err
}

type blobs struct {
	kernel.Blobs
	f *fate
}

func (b blobs) Put(ctx context.Context, kind string, data []byte) (ref events.Ref, err error) {
	err = b.f.op(func() error { ref, err = b.Blobs.Put(ctx, kind, data); return err })
	return ref, err
}

func (b blobs) Get(ctx context.Context, ref events.Ref) (data []byte, err error) {
	err = b.f.op(func() error { data, err = b.Blobs.Get(ctx, ref); return err })
	return data, err
}

// copies keeps whole files: small and slow, and nothing like git.
type copies struct{ f *fate }

func (c copies) Keep(_ context.Context, tree, store string) (Keeper, error) {
	var k Keeper
	err := c.f.op(func() error {
		k = &copier{tree: tree, f: c.f, known: map[string]map[string]string{}}
		return os.MkdirAll(store, 0o755)
	})
	return k, err
}

type copier struct {
	tree     string
	f        *fate
	known    map[string]map[string]string
	changing int // how many snapshots find the tree changing
}

type delta struct {
	Parent string
	Files  map[string]string
	Gone   []string
}

func id(files map[string]string) string {
	b, _ := json.Marshal(files) // strings can be encoded
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func filesOf(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path) // it is below
		all[rel] = string(b)
		return err
	})
	return all, err
}

func (c *copier) Snapshot(_ context.Context, parent string) (shot Shot, err error) {
	err = c.f.op(func() error {
		if c.changing > 0 {
			c.changing--
			return ErrChanging
		}
		now, err := filesOf(c.tree)
		if err != nil {
			return err
		}
		before, ok := c.known[parent]
		if !ok {
			parent = ""
		}
		shot = Shot{ID: id(now), Parent: parent, Files: len(now)}
		c.known[shot.ID] = now
		if shot.ID == parent {
			return nil
		}
		d := delta{Parent: parent, Files: map[string]string{}}
		for name, text := range now {
			if old, ok := before[name]; !ok || old != text {
				d.Files[name] = text
			}
		}
		for name := range before {
			if _, ok := now[name]; !ok {
				d.Gone = append(d.Gone, name)
			}
		}
		b, err := json.Marshal(d)
		shot.Pack = io.NopCloser(bytes.NewReader(b))
		return err
	})
	return shot, err
}

func (c *copier) Restore(_ context.Context, want string, packs ...io.Reader) error {
	files, last := map[string]string{}, ""
	for _, p := range packs {
		b, err := io.ReadAll(p)
		if err != nil {
			return err
		}
		var d delta
		if json.Unmarshal(b, &d) != nil || d.Parent != last {
			return ErrDamaged
		}
		maps.Copy(files, d.Files)
		for _, name := range d.Gone {
			delete(files, name)
		}
		last = id(files)
	}
	if last != want {
		return ErrDamaged
	}
	for name, text := range files {
		err := c.f.op(func() error { // it may die between any two files
			at := filepath.Join(c.tree, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			return os.WriteFile(at, []byte(text), 0o644)
		})
		if err != nil {
			return err
		}
	}
	c.known[want] = files
	return nil
}

// counts counts the writes of rows.
type counts struct {
	kernel.KV
	writes int
}

func (c *counts) Swap(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	c.writes++
	return c.KV.Swap(ctx, key, value, revision)
}

// zeros makes the same ids every time.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
