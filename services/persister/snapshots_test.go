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
		r := &Role{covered: map[string]uint64{}}
		const facts = 100_000
		var sum, taken uint64
		for n := uint64(1); n <= facts; n++ {
			if r.wantsSnapshot(run.State{HarnessID: "r1", Sequence: n, Status: events.Running}, "") {
				taken++
				sum += n // a state grows with its facts at most
			}
		}
		if taken < 10 || sum > 8*facts {
			t.Errorf("%d snapshots of %d facts in all for a run of %d: they grow with its square, or are never taken", taken, sum, facts)
		}
	})
}
