package gcpace

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now    int
		cycles float64
		live   uint64
		want   int
	}{
		"idle":                                   {100, 0, 20 << 20, 100},
		"seldom":                                 {100, 1.9, 20 << 20, 100},
		"busy and small":                         {100, 10, 16 << 20, 400},
		"busy, of middle size":                   {100, 10, 64 << 20, 250},
		"busy and large":                         {100, 10, 8 << 30, 101},
		"busy, nothing counted yet":              {100, 10, 0, 400},
		"still busy at the slower pace":          {400, 1, 16 << 20, 400},
		"no longer busy at the slower pace":      {400, 0.4, 16 << 20, 100},
		"as busy, and more of it is live by now": {400, 2, 192 << 20, 150},
	} {
		if got := percent(c.now, c.cycles, c.live); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
		if extra := uint64(percent(c.now, c.cycles, c.live)-standard) * c.live / standard; extra > Budget {
			t.Errorf("%s: it takes %d bytes more, want at most %d", name, extra, Budget)
		}
	}
}

// keep holds garbage long enough that it is made on the heap.
var keep []byte

func TestRun(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if value, set := os.LookupEnv(name); set {
			t.Setenv(name, value) // which puts it back
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(standard))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx)
	}()
	for pace := standard; pace == standard; { // until it is taken for busy
		for range 64 {
			keep = make([]byte, 1<<20)
			runtime.GC()
		}
		pace = debug.SetGCPercent(standard)
		debug.SetGCPercent(pace)
	}
	cancel()
	<-done
	if pace := debug.SetGCPercent(standard); pace != standard {
		t.Errorf("got a pace of %d left behind, want %d", pace, standard)
	}
	t.Setenv("GOGC", "50")
	Run(t.Context()) // it leaves the pace alone, and returns
}
