package e2b_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// BenchmarkPaired tells how many times as long as a bare command a sandbox takes from its begin to its end (cold), and a
// command in one that is there (warm). It is against the double on this machine: what is measured is this side, without the
// way to a service and what that does.
func BenchmarkPaired(b *testing.B) {
	_, backend := cloud(b)
	dir, box := b.TempDir(), open(b, backend)
	var plain, cold, warm []time.Duration
	timed := func(list *[]time.Duration, do func() error) {
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		*list = append(*list, time.Since(begin))
	}
	for b.Loop() {
		timed(&plain, func() error { return exec.CommandContext(b.Context(), "/bin/true").Run() })
		timed(&cold, func() error {
			box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir, Network: true})
			if err != nil {
				return err
			}
			_, _, err = sh(b, box, "true")
			return errors.Join(err, box.Destroy(context.Background()))
		})
		timed(&warm, func() error { _, _, err := sh(b, box, "true"); return err })
	}
	for _, list := range [][]time.Duration{plain, cold, warm} {
		slices.Sort(list)
	}
	middle := func(list []time.Duration) float64 { return float64(list[len(list)/2]) }
	b.ReportMetric(middle(cold)/middle(plain), "cold-times-plain")
	b.ReportMetric(middle(warm)/middle(plain), "warm-times-plain")
}
