package git_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git/wall"
)

// mb is the size of BenchmarkSnapshot's tree: go test -bench Snapshot -args -mb 1024.
var mb = flag.Int("mb", 200, "MiB of the tree that is kept")

// BenchmarkCall is what one git command costs with its private place.
func BenchmarkCall(b *testing.B) {
	g := newGit(b)
	for b.Loop() {
		if err := g.Probe(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

const fileSize = 64 << 10

// content is half noise and half text.
func content(r *rand.Rand) []byte {
	b := make([]byte, fileSize)
	for i := range b {
		if i < fileSize/2 {
			b[i] = byte(r.Uint32())
		} else {
			b[i] = "the quick brown fox\n"[i%20]
		}
	}
	return b
}

// BenchmarkSnapshot keeps a tree of files of 64 KiB, of which one in a hundred changes by a line before each snapshot.
// It tells the first snapshot and the restore of the whole chain beside the snapshots that follow.
func BenchmarkSnapshot(b *testing.B) {
	ws := b.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	files := *mb << 20 / fileSize
	name := func(i int) string { return filepath.Join(ws, fmt.Sprintf("d%d/f%d", i%50, i)) }
	for i := range 50 {
		if err := os.Mkdir(filepath.Join(ws, fmt.Sprintf("d%d", i)), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	for i := range files {
		if err := os.WriteFile(name(i), content(r), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	g := newGit(b)
	k := keeper(b, g, ws)
	start := time.Now()
	s, pack := snap(b, k, "")
	first, packs := time.Since(start), [][]byte{pack}
	moved, steps, read := 0, 0, 0
	for b.Loop() {
		b.StopTimer()
		for range files / 100 {
			at := name(r.IntN(files))
			old, err := os.ReadFile(at)
			if err != nil {
				b.Fatal(err)
			}
			copy(old[fileSize/2+r.IntN(1000):], fmt.Sprintf("a new line %d\n", r.Uint32()))
			if err := os.WriteFile(at, old, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		next, pack := snap(b, k, s.ID)
		s = next
		packs, moved, steps, read = append(packs, pack), moved+len(pack), steps+1, read+next.Read
	}
	b.StopTimer()
	heir := filepath.Join(b.TempDir(), "ws")
	hk := keeper(b, g, heir)
	start = time.Now()
	if err := hk.Restore(b.Context(), s.ID, readers(packs...)...); err != nil {
		b.Fatal(err)
	}
	restored := time.Since(start)
	if again, _, err := keeper(b, g, heir).Snapshot(b.Context(), ""); err != nil || again.ID != s.ID || bytes.Equal(packs[0], nil) {
		b.Fatalf("restored %+v, %v", again, err)
	}
	b.ReportMetric(first.Seconds(), "first-s")
	b.ReportMetric(float64(len(packs[0]))/(1<<20), "first-MiB")
	b.ReportMetric(float64(moved)/float64(steps)/(1<<10), "KiB/op")
	b.ReportMetric(float64(read)/float64(steps), "files-read/op")
	b.ReportMetric(restored.Seconds(), "restore-s")
}

// BenchmarkWall is what one git command in a repository costs, by how it is kept in its tree.
func BenchmarkWall(b *testing.B) {
	url, _ := bare(b)
	for name, way := range map[string]wall.Way{"none": wall.None, "thread": wall.Thread, "helper": wall.Helper} {
		b.Run(name, func(b *testing.B) {
			g := newGit(b)
			g.Through(way)
			r := clone(b, g, url)
			for b.Loop() {
				if _, err := r.Status(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
