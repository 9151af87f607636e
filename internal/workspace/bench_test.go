package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/mem"
)

// BenchmarkKeep is what a call that changes one file pays for its snapshot, with the git program and stores in memory.
func BenchmarkKeep(b *testing.B) {
	for _, files := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			g, err := git.New(git.Config{})
			if err != nil {
				b.Fatal(err)
			}
			st, err := mem.New("s1", mem.Config{})
			if err != nil {
				b.Fatal(err)
			}
			trees, err := New(Config{Root: b.TempDir(), Log: logOf(b, st, nil, nil), Leases: st.Leases(), Blobs: st.Blobs(),
				Snapshots: Git{g}, Instance: "i"})
			if err != nil {
				b.Fatal(err)
			}
			v, err := trees.Enter(context.Background(), demo, "r1")
			if err != nil {
				b.Fatal(err)
			}
			write := func(n, text int) {
				at := filepath.Join(v.Dir(), fmt.Sprintf("d%d", n/100), fmt.Sprintf("f%d", n))
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					b.Fatal(err)
				}
				if err := os.WriteFile(at, fmt.Appendf(nil, "%d: %01000d\n", n, text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			for n := range files {
				write(n, 0)
			}
			if err := v.Keep(context.Background(), "c0"); err != nil {
				b.Fatal(err)
			}
			for n := 1; b.Loop(); n++ {
				write(n%files, n)
				v.Touch(true)
				if err := v.Settle(context.Background(), "c"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVisit is what a call pays that only looks at its tree.
func BenchmarkVisit(b *testing.B) {
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	trees, err := New(Config{Root: b.TempDir(), Log: logOf(b, st, nil, nil), Leases: st.Leases(), Blobs: st.Blobs(), Snapshots: copies{}, Instance: "i"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v, err := trees.Enter(context.Background(), demo, "r1")
		if err != nil {
			b.Fatal(err)
		}
		v.Touch(false)
		if err := v.Settle(context.Background(), "c"); err != nil {
			b.Fatal(err)
		}
		v.Leave()
	}
}
