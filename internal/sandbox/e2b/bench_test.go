package e2b_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

// BenchmarkPlain is what the others are compared with, which are against the double on this machine: what is measured is this side, without the way.
func BenchmarkPlain(b *testing.B) {
	for b.Loop() {
		if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCold(b *testing.B) {
	_, backend := cloud(b)
	dir := b.TempDir()
	for b.Loop() {
		box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := sh(b, box, "true"); err != nil {
			b.Fatal(err)
		}
		if err := box.Destroy(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWarm(b *testing.B) {
	_, backend := cloud(b)
	box := open(b, backend)
	for b.Loop() {
		if _, _, err := sh(b, box, "true"); err != nil {
			b.Fatal(err)
		}
	}
}
