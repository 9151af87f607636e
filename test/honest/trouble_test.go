//go:build slow

package honest

import (
	"context"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/topology"
)

// until waits until as many operations have ended, or ctx.
func until(ctx context.Context, made func() int, n int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for made() < n && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// troubles has the leader of the log step down now and then, and once leads with the third server and stops it in the
// middle. total is the number of operations that will be made.
func troubles(t *testing.T, s *side, total int, down *int) func(ctx context.Context, made func() int) {
	stream := topology.Log(s.station)
	return func(ctx context.Context, made func() int) {
		stepDown := func(to string) {
			if err := s.group.StepDown(0, stream, to); err != nil {
				t.Logf("step down: %v", err) // there was no leader: trouble enough
				return
			}
			*down++
		}
		for part := 1; part <= 4; part++ {
			until(ctx, made, part*total/10)
			stepDown("")
		}
		until(ctx, made, total/2)
		stepDown("n3")
		until(ctx, made, total/2+total/20)
		s.group.Stop(2)
		until(ctx, made, total*7/10)
		s.group.Restart(2)
		for part := 8; part <= 9; part++ {
			until(ctx, made, part*total/10)
			stepDown("")
		}
	}
}

func TestClusterWriters(t *testing.T) {
	s, c := onCluster(t, short), newTally()
	h := write(t, s, chance(t, 5), 6, 150, nil)
	judge(t, h, s, c)
	c.tell(t)
}

func TestTroubledWriters(t *testing.T) {
	s, c := onCluster(t, short), newTally()
	down := 0
	h := write(t, s, chance(t, 6), 6, 250, troubles(t, s, 6*250, &down))
	judge(t, h, s, c)
	c.tell(t)
	t.Logf("%d leaders stepped down", down)
}
