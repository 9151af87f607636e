package wasm_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// BenchmarkWarm runs one command in a sandbox that is there, and the same through os/exec in turn, so that both see the same
// machine; it tells the medians and how many times as long the sandbox takes.
func BenchmarkWarm(b *testing.B) {
	backend := backend(b)
	warm(b, backend)
	box := open(b, backend, sandbox.Config{})
	for _, args := range [][]string{{"true"}, {"sh", "-c", "echo hi | cat"}} {
		b.Run(args[0], func(b *testing.B) {
			var plain, boxed []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := exec.CommandContext(b.Context(), args[0], args[1:]...).Run(); err != nil {
					b.Fatal(err)
				}
				plain = append(plain, time.Since(begin))
				begin = time.Now()
				if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: args}); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
				boxed = append(boxed, time.Since(begin))
			}
			b.ReportMetric(float64(median(boxed))/1e6, "ms-median")
			b.ReportMetric(float64(median(boxed))/float64(median(plain)), "times-plain")
		})
	}
}

// BenchmarkCold opens a sandbox, runs one command and destroys the sandbox; the program is compiled.
func BenchmarkCold(b *testing.B) {
	backend := backend(b)
	warm(b, backend)
	dir := b.TempDir()
	for b.Loop() {
		box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir})
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		if err := box.Destroy(context.WithoutCancel(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompile is the first command of a machine (new), and that of a process where another kept what it compiled (kept).
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"new", "kept"} {
		b.Run(name, func(b *testing.B) {
			cache := b.TempDir()
			if err := exec.CommandContext(b.Context(), "chmod", "700", cache).Run(); err != nil {
				b.Fatal(err)
			}
			if name == "kept" {
				first(b, cache)
			}
			for b.Loop() {
				if name == "new" {
					cache = b.TempDir() + "/cache"
				}
				first(b, cache)
			}
		})
	}
}

// first runs the first command of an engine.
func first(b *testing.B, cache string) {
	backend := wasm.New(wasm.Config{Dirs: []string{toolbox}, Cache: cache})
	defer func() { must(b, backend.Close(context.Background())) }()
	box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: b.TempDir()})
	must(b, err)
	exit, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}})
	if err != nil || exit.Code != 0 {
		b.Fatal(exit, err)
	}
	must(b, box.Destroy(context.Background()))
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
