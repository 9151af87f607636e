//go:build slow

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
)

// treeEnv is the size of the tree in MiB.
const treeEnv = "INSPAN_BENCH_TREE_MB"

// moved counts the bytes that go to the object store and come from it.
type moved struct {
	kernel.Blobs
	put, got atomic.Int64
}

func (m *moved) Put(ctx context.Context, kind string, data []byte) (events.Ref, error) {
	m.put.Add(int64(len(data)))
	return m.Blobs.Put(ctx, kind, data)
}

func (m *moved) Get(ctx context.Context, ref events.Ref) ([]byte, error) {
	data, err := m.Blobs.Get(ctx, ref)
	m.got.Add(int64(len(data)))
	return data, err
}

// TestTreeCost measures what it takes to keep a large workspace, to keep it again where one file in a hundred has
// changed, and to restore it on another machine (make bench-trees). The files are random bytes, so that nothing is won
// by compression. The store is a JetStream server in this process that syncs each write.
func TestTreeCost(t *testing.T) {
	mib := 1024
	if s := os.Getenv(treeEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q, want a number of MiB", treeEnv, s)
		}
		mib = n
	}
	const size = 100 << 10
	files := mib << 20 / size
	w := newWorld(t)
	g, err := git.New(git.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dead := &graves{Leases: w.ports.Leases}
	counted := &moved{Blobs: w.ports.Blobs}
	at := func(instance string) *workspace.Trees {
		trees, err := workspace.New(workspace.Config{Root: filepath.Join(w.dir, instance), Log: w.workspaces(), Leases: dead, Blobs: counted,
			Snapshots: workspace.Git{Program: g}, Instance: instance})
		if err != nil {
			t.Fatal(err)
		}
		return trees
	}
	chance := rand.NewChaCha8([32]byte{1})
	data := make([]byte, size)
	write := func(dir string, n int) {
		if _, err := chance.Read(data); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, fmt.Sprintf("d%03d", n/100), fmt.Sprintf("f%05d", n))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	row := func(what string, do func() error) {
		put, got, began := counted.put.Load(), counted.got.Load(), time.Now()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%-34s %8.2f s   to the store %10s   from it %10s", what, time.Since(began).Seconds(), view.Bytes(counted.put.Load()-put), view.Bytes(counted.got.Load()-got))
	}
	v, err := at("one").Enter(t.Context(), "session/large", "r1")
	if err != nil {
		t.Fatal(err)
	}
	for n := range files {
		write(v.Dir(), n)
	}
	t.Logf("a tree of %d files, %s", files, view.Bytes(int64(files)*size))
	row("first snapshot", func() error { return v.Keep(t.Context(), "c1") })
	for n := 0; n < files; n += 100 {
		write(v.Dir(), n)
	}
	row("snapshot with 1 % changed", func() error { v.Touch(true); return v.Settle(t.Context(), "c2") })
	row("snapshot with nothing changed", func() error { v.Touch(true); return v.Settle(t.Context(), "c3") })
	dead.dead = []string{"one"}
	var other *workspace.Visit
	row("restore on another machine", func() (err error) {
		other, err = at("two").Enter(t.Context(), "session/large", "r1")
		return err
	})
	rec := w.tree("session/large")
	t.Logf("the record: fence %d, %d packs, %d files", rec.Fence, len(rec.Packs), rec.Files)
	sample := filepath.Join("d000", "f00000")
	before, err := os.ReadFile(filepath.Join(v.Dir(), sample))
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(filepath.Join(other.Dir(), sample))
	if err != nil || string(after) != string(before) || rec.Files != files {
		t.Errorf("the other machine has something else: %d files, %v", rec.Files, err)
	}
	other.Leave()
	v.Leave()
}
