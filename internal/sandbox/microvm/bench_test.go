package microvm_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// BenchmarkPaired tells how long a machine takes from its begin to its end (cold), a command in one that is there (warm), and
// how many times as long as a bare command of the same run that is.
func BenchmarkPaired(b *testing.B) {
	backend := real()
	sandboxtest.Need(b, backend)
	dir, box := b.TempDir(), open(b, backend, sandbox.Config{})
	var plain, cold, warm []time.Duration
	timed := func(list *[]time.Duration, do func() error) {
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		*list = append(*list, time.Since(begin))
	}
	run := func(box sandbox.Sandbox) error {
		_, err := box.Exec(b.Context(), sandbox.Cmd{Args: []string{"true"}})
		return err
	}
	for b.Loop() {
		timed(&plain, func() error { return exec.CommandContext(b.Context(), "/bin/true").Run() })
		timed(&cold, func() error {
			box, err := backend.Open(b.Context(), sandbox.Config{ID: "bench", Workspace: dir})
			if err != nil {
				return err
			}
			return errors.Join(run(box), box.Destroy(context.WithoutCancel(b.Context())))
		})
		timed(&warm, func() error { return run(box) })
	}
	for _, list := range [][]time.Duration{plain, cold, warm} {
		slices.Sort(list)
	}
	middle := func(list []time.Duration) float64 { return float64(list[len(list)/2]) }
	b.ReportMetric(middle(cold)/1e6, "cold-ms")
	b.ReportMetric(middle(warm)/1e6, "warm-ms")
	b.ReportMetric(middle(cold)/middle(plain), "cold-times-plain")
	b.ReportMetric(middle(warm)/middle(plain), "warm-times-plain")
}
