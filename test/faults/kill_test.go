//go:build slow

package faults

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/test/robust/report"
)

// TestKill is the short programme: one process of each service and one server, each killed with -9 three times in the
// middle of runs (make kill).
func TestKill(t *testing.T) {
	seed, _ := seedAndRounds(t)
	t.Logf("seed %d", seed)
	part := &report.Part{}
	v := &verdicts{part: part, said: map[string]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w := small(ctx, t, fleetConfig{bin: binaries(t)}, seed, v, topology.Limits{})
	for _, name := range append(append([]string{}, w.services...), "n1") {
		for range 3 {
			w.fault("kill -9 of "+name, func() {
				w.stop(name, syscall.SIGKILL)
				w.rest(100*time.Millisecond, 500*time.Millisecond)
				w.start(name)
			})
			w.rest(300*time.Millisecond, time.Second)
		}
		w.flows("kill -9 of " + name)
	}
	known, lost := w.finish("kill -9")
	v.row("events acknowledged as stored, lost", fmt.Sprintf("%d, %d", known, lost), "0 lost")
	for _, r := range part.Rows {
		t.Logf("%-60s %s  %s", r.What, r.Saw, r.Want)
	}
	t.Run("PERS-15 DEPL-2 SAFE-7 each process is killed with -9 in the middle of runs, and nothing is lost or done twice", func(t *testing.T) {
		for _, x := range part.Violations {
			t.Errorf("seed %d: %s", seed, x)
		}
	})
}
