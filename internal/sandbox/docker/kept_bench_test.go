package docker_test

import (
	"context"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// BenchmarkKept takes in turn a call that has a container of its own, from open to gone, and a call in one that is kept, and
// tells how many times the second the first takes.
func BenchmarkKept(b *testing.B) {
	backend := real(b)
	sandboxtest.Need(b, backend)
	cfg := sandbox.Config{ID: "bench", Workspace: b.TempDir()}
	kept, err := backend.Open(b.Context(), cfg)
	must(b, err)
	b.Cleanup(func() { must(b, kept.Destroy(context.Background())) })
	call := func(box sandbox.Sandbox) {
		if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
	call(kept)
	var own, in []time.Duration
	for b.Loop() {
		begin := time.Now()
		box, err := backend.Open(b.Context(), cfg)
		must(b, err)
		call(box)
		must(b, box.Destroy(context.WithoutCancel(b.Context())))
		own = append(own, time.Since(begin))
		begin = time.Now()
		call(kept)
		in = append(in, time.Since(begin))
	}
	median(b, own, in)
	b.ReportMetric(float64(in[len(in)/2].Milliseconds()), "ms-kept")
	b.ReportMetric(float64(in[0].Milliseconds()), "ms-kept-least") // median has sorted them
}
