package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// How often garbage is collected. With the percentage that Go begins with, a station that works spends a tenth of its
// CPU time on it; a higher one lets a heap that is not collected grow while there is nothing to do.
const (
	usual = 100
	// busiest is the percentage where much is allocated and there is room.
	busiest = 400
	// busyRate is how many bytes a second are much.
	busyRate = 16 << 20
	// quietFor seconds with less end it.
	quietFor = 5
)

// Pace has garbage collected less often while much is allocated, until ctx ends: the heap may then grow by a sixteenth
// of the memory that is available, at most 512 MiB, before it is collected, instead of to twice its size. Nine tenths
// of the limit of the process's control group become Go's own limit; near it more is collected whatever is said here.
// It is for the main function of a program: what it sets is the process's.
func Pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(usual))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	p := pace{percent: usual, quiet: quietFor}
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	for p.allocated = sample[0].Value.Uint64(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.room == 0 { // a program that ends at once does not ask for it
			_, _ = memlimit.Set(memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithRatio(0.9)) // where there is one
			p.room = uint64(Share(16, 32<<20, 512<<20))                                              //nolint:gosec // it is positive
		}
		metrics.Read(sample)
		if percent, changed := p.next(sample[0].Value.Uint64(), sample[1].Value.Uint64()); changed {
			debug.SetGCPercent(percent)
		}
	}
}

// pace decides on the percentage, once a second.
type pace struct {
	room      uint64
	allocated uint64
	quiet     int
	percent   int
}

// next takes how many bytes were ever allocated, and how many the last collection left.
func (p *pace) next(allocated, live uint64) (percent int, changed bool) {
	rate := allocated - p.allocated
	p.allocated = allocated
	if p.quiet++; rate >= busyRate {
		p.quiet = 0
	}
	want := usual
	if p.quiet < quietFor {
		want = int(min(max(p.room*100/max(live, 1), usual), busiest)) //nolint:gosec // at most busiest
	}
	changed = want != p.percent
	p.percent = want
	return want, changed
}
