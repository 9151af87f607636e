package service_test

import (
	"testing"

	"github.com/inspan/inspan/internal/service"
)

// BenchmarkLoad is what every command does before anything else.
func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := service.FromEnv(); err != nil {
			b.Fatal(err)
		}
	}
}
