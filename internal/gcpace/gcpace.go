// Package gcpace lets the garbage collector run less often while a process is busy.
//
// Promises: a process that is idle, or whose collector runs seldom, keeps the collector's default pace and memory. One that is
// busy takes at most Budget bytes more. A pace that the environment sets (GOGC, GOMEMLIMIT) is left alone.
package gcpace

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Budget is how much garbage a busy process may hold beyond what it would hold at the default pace.
	Budget = 96 << 20
	// slowest is the largest percentage.
	slowest = 400
	// standard is the percentage of the runtime's own default.
	standard = 100
	// often is how many collections a second are too many.
	often = 2.0
	// look is how often the pace is looked at.
	look = time.Second
)

// percent returns the percentage to set, where now is set and there were cycles a second with so many bytes live.
func percent(now int, cycles float64, live uint64) int {
	if cycles*float64(now)/standard < often { // as often as it would be at the default pace
		return standard
	}
	return int(min(slowest, standard+standard*uint64(Budget)/max(live, 1))) //nolint:gosec // at most slowest
}

// Run sets the pace until ctx ends, and then the one that was set before.
func Run(ctx context.Context) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, set := os.LookupEnv(name); set {
			return
		}
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	cycles, at, now := samples[0].Value.Uint64(), time.Now(), standard
	defer func() {
		if now != standard {
			debug.SetGCPercent(standard)
		}
	}()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(samples)
		since := time.Since(at).Seconds()
		next := percent(now, float64(samples[0].Value.Uint64()-cycles)/since, samples[1].Value.Uint64())
		cycles, at = samples[0].Value.Uint64(), time.Now()
		if next > now+now/8 || next < now-now/8 { // a change stops the world for a moment
			debug.SetGCPercent(next)
			now = next
		}
	}
}
