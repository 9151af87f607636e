package git_test

import (
	"testing"
)

func BenchmarkCall(b *testing.B) {
	g := newGit(b)
	for b.Loop() {
		if err := g.Probe(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
