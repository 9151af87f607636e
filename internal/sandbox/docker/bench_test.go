package docker_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// bare is how long the same command takes through os/exec.
func bare(b *testing.B, dir string) time.Duration {
	begin := time.Now()
	cmd := exec.CommandContext(b.Context(), "/bin/true")
	cmd.Dir = dir
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// median tells two series of times that were taken in turn: the first, and how many times the second that is.
func median(b *testing.B, boxed, plain []time.Duration) {
	slices.Sort(boxed)
	slices.Sort(plain)
	b.ReportMetric(float64(boxed[len(boxed)/2].Milliseconds()), "ms-median")
	b.ReportMetric(float64(boxed[len(boxed)/2])/float64(plain[len(plain)/2]), "times-plain")
}

// BenchmarkCold opens a sandbox, runs one command in its container and destroys it.
func BenchmarkCold(b *testing.B) {
	backend := real(b)
	sandboxtest.Need(b, backend)
	dir := b.TempDir()
	var boxed, plain []time.Duration
	for b.Loop() {
		plain = append(plain, bare(b, dir))
		begin := time.Now()
		box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir})
		must(b, err)
		if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		must(b, box.Destroy(context.WithoutCancel(b.Context())))
		boxed = append(boxed, time.Since(begin))
	}
	median(b, boxed, plain)
}

// BenchmarkWarm runs one command in a container that is there.
func BenchmarkWarm(b *testing.B) {
	backend := real(b)
	sandboxtest.Need(b, backend)
	dir := b.TempDir()
	box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir})
	must(b, err)
	defer func() { must(b, box.Destroy(context.WithoutCancel(b.Context()))) }()
	var boxed, plain []time.Duration
	for b.Loop() {
		plain = append(plain, bare(b, dir))
		begin := time.Now()
		if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		boxed = append(boxed, time.Since(begin))
	}
	median(b, boxed, plain)
}
