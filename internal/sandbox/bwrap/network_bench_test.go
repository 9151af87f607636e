package bwrap_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// BenchmarkShared takes in turn a command with a closed network of its own and one that shares its sandbox's, and tells
// how many times the first the second takes.
func BenchmarkShared(b *testing.B) {
	backend := bwrap.New("", "")
	sandboxtest.Need(b, backend)
	var took [2][]time.Duration
	var sandboxes [2]sandbox.Sandbox
	for i := range sandboxes {
		sb, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: b.TempDir(), Lasting: i == 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = sb.Destroy(context.Background()) })
		sandboxes[i] = sb
	}
	run := func(i int) {
		begin := time.Now()
		if exit, err := sandboxes[i].Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		took[i] = append(took[i], time.Since(begin))
	}
	run(1)
	took[1] = nil
	for b.Loop() {
		run(0)
		run(1)
	}
	for i := range took {
		slices.Sort(took[i])
	}
	middle := len(took[0]) / 2
	b.ReportMetric(float64(took[0][middle].Microseconds())/1000, "ms-own")
	b.ReportMetric(float64(took[1][middle])/float64(took[0][middle]), "times-own")
}
