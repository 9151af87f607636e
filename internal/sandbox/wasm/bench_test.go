package wasm_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// BenchmarkCosts is with programs that are compiled.
func BenchmarkCosts(b *testing.B) {
	backend := backend(b)
	warm(b, backend)
	sandboxtest.Costs(b, backend)
}

// BenchmarkCompile is the first command of a machine (new), and that of a process where another kept what it compiled
// (kept).
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
	sb, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: b.TempDir()})
	must(b, err)
	exit, err := sb.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}})
	if err != nil || exit.Code != 0 {
		b.Fatal(exit, err)
	}
	must(b, sb.Destroy(context.Background()))
}
