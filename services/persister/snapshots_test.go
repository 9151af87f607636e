package persister

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestSnapshotsAreRare(t *testing.T) {
	t.Parallel()
	t.Run("PERF-2 whole states are written so rarely that their sum stays a small multiple of the last one", func(t *testing.T) {
		t.Parallel()
		r := &Role{views: map[string]view{}}
		const count = 100_000
		var sum, taken uint64
		for n := uint64(1); n <= count; n++ {
			if r.wantsSnapshot(run.State{HarnessID: "r1", Sequence: n, Status: events.Running}, "") {
				taken++
				sum += n // a state grows with its events at most
			}
		}
		if taken < 10 || sum > 8*count {
			t.Errorf("%d snapshots of %d events in all for a run of %d: they grow with its square, or are never taken", taken, sum, count)
		}
	})
	t.Run("C30 LIFE-14 a run on the direct path has none, whatever happens to it", func(t *testing.T) {
		t.Parallel()
		r := &Role{views: map[string]view{}}
		s := run.State{HarnessID: "r1", Created: &events.RunCreatedData{Direct: true}}
		for n := uint64(1); n <= 1000; n++ {
			s.Sequence = n
			for _, s.Status = range []events.Status{events.Running, events.Paused} {
				if r.wantsSnapshot(s, "") || r.wantsSnapshot(s, "step-1") {
					t.Fatalf("a snapshot at %d, %s", n, s.Status)
				}
			}
		}
		if s.Status = events.Completed; r.wantsSnapshot(s, "step-1") || len(r.views) > 0 {
			t.Errorf("a snapshot at the end, or %v is kept", r.views)
		}
	})
}
