package memory

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	have := Available()
	if have <= 0 || have == math.MaxInt64 {
		t.Fatalf("got %d bytes available, want what the machine has", have)
	}
	if got := int64(Share(2, 1, math.MaxInt)); got != have/2 {
		t.Errorf("got half of it as %d, want %d", got, have/2)
	}
	if got := Share(2, 1, 5); got != 5 {
		t.Errorf("got %d, want at most 5", got)
	}
	if got := Share(2, math.MaxInt, math.MaxInt); got != math.MaxInt {
		t.Errorf("got %d, want at least the largest number", got)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if got := Available(); got != 64<<20 {
		t.Errorf("got %d bytes where Go was limited to 64 MiB", got)
	}
}

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	p := pace{room: 256 * mib, percent: usual}
	allocated := uint64(0)
	for i, c := range []struct {
		rate, live uint64
		want       int
	}{
		{rate: 200 * mib, live: 32 * mib, want: busiest},
		{rate: 200 * mib, live: 128 * mib, want: 200},
		{rate: 200 * mib, live: 1024 * mib, want: usual},
		{rate: 200 * mib, live: 0, want: busiest},
		{rate: 1 * mib, live: 32 * mib, want: busiest},
		{rate: 1 * mib, live: 32 * mib, want: busiest},
		{rate: 1 * mib, live: 32 * mib, want: busiest},
		{rate: 1 * mib, live: 32 * mib, want: busiest},
		{rate: 1 * mib, live: 32 * mib, want: usual},
		{rate: 1 * mib, live: 32 * mib, want: usual},
		{rate: 16 * mib, live: 32 * mib, want: busiest},
	} {
		before := p.percent
		allocated += c.rate
		if got, changed := p.next(allocated, c.live); got != c.want || changed != (got != before) {
			t.Errorf("second %d: got %d %%, changed %t, want %d %%", i, got, changed, c.want)
		}
	}
}

// percent is what Go's collector has now.
func percent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestPace(t *testing.T) {
	t.Setenv("GOGC", "") // and it is not parallel: the collector is that of the process
	if err := os.Unsetenv("GOGC"); err != nil {
		t.Fatal(err)
	}
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	var pacing sync.WaitGroup
	pacing.Go(func() { Pace(ctx) })
	await := func(what string, while func(), ok func() bool) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); !ok(); while() {
			if time.Now().After(end) {
				t.Fatalf("got %d %% after five minutes, want %s", percent(), what)
			}
		}
	}
	var garbage []string
	await("more than usual while much is allocated", func() { garbage = []string{strings.Repeat("x", 4<<20)} },
		func() bool { return percent() > usual })
	if len(garbage) != 1 {
		t.Fatal(len(garbage))
	}
	await("the usual while nothing is", func() { <-time.After(50 * time.Millisecond) }, func() bool { return percent() == usual })
	cancel()
	pacing.Wait()
	if got := percent(); got != 77 {
		t.Errorf("got %d %% behind it, want what was before, 77", got)
	}
	t.Setenv("GOGC", "50")
	Pace(t.Context()) // returns at once
	if got := percent(); got != 77 {
		t.Errorf("got %d %% where the environment has GOGC, want no change", got)
	}
}
