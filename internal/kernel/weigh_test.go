package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// openLarge opens a run with a task of that many bytes; end says whether it ends at once.
func openLarge(size int, end bool) runlog.Decide {
	return func(s run.State, _ time.Time) ([]events.Payload, error) {
		if s.Sequence > 0 {
			return nil, nil
		}
		created := runtest.Created()
		created.Task = strings.Repeat("x", size)
		answer := []events.Payload{created}
		if end {
			answer = append(answer, runtest.Started(), &events.RunFailedData{Result: events.Result{From: events.Running, Status: events.Failed}})
		}
		return answer, nil
	}
}

func TestCacheBytes(t *testing.T) {
	t.Parallel()
	const size = 128 << 10
	runs := 3 * kernel.DefaultCacheBytes / size
	setUp := func(t *testing.T) (*runlog.Ledger, *runlog.Pages) {
		t.Helper()
		pages := runlog.NewPages(0)
		return newLedger(t, newStation(t), events.Planner, func(c *runlog.LedgerConfig) { c.Pages = pages }), pages
	}
	write := func(t *testing.T, l *runlog.Ledger, id string, decide runlog.Decide) {
		t.Helper()
		if _, err := l.Write(t.Context(), id, decide); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	bounded := func(t *testing.T, pages *runlog.Pages) {
		t.Helper()
		n, bytes, recounted := pages.Size()
		if bytes > kernel.DefaultCacheBytes || bytes != recounted || n < 2 {
			t.Errorf("got %d pages of %d bytes, recounted %d, want at most %d", n, bytes, recounted, kernel.DefaultCacheBytes)
		}
	}
	t.Run("LIFE-16 states that take too much are dropped, those of ended runs first, and read again", func(t *testing.T) {
		t.Parallel()
		l, pages := setUp(t)
		write(t, l, "living", openLarge(size, false))
		for i := range runs {
			write(t, l, fmt.Sprintf("r%d", i), openLarge(size, true))
			bounded(t, pages)
		}
		if !pages.Known("living") {
			t.Error("the run that goes on was dropped before those that ended")
		}
		if pages.Known("r0") {
			t.Error("the run that ended first is still there")
		}
		if s, _, err := l.State(t.Context(), "r0"); err != nil || s.Status != events.Failed {
			t.Errorf("got a run that is %q, %v, want it failed", s.Status, err)
		}
	})
	t.Run("LIFE-16 runs that ended take a part of the room at most, also where there is more", func(t *testing.T) {
		t.Parallel()
		l, pages := setUp(t)
		pages.SetLimit(64 * kernel.DefaultCacheBytes)
		write(t, l, "living", openLarge(size, false))
		for i := range runs {
			write(t, l, fmt.Sprintf("r%d", i), openLarge(size, true))
			if _, bytes, _ := pages.Size(); bytes > kernel.DefaultCacheBytes/4+3*size {
				t.Fatalf("got %d bytes after %d runs that ended, want at most a quarter of %d", bytes, i+1, kernel.DefaultCacheBytes)
			}
		}
		if !pages.Known("living") || !pages.Known(fmt.Sprintf("r%d", runs-1)) || pages.Known("r0") {
			t.Error("want the run that goes on, and the last of those that ended")
		}
	})
	t.Run("LIFE-16 where runs that go on in turn are somewhat too many, most of them are not read again", func(t *testing.T) {
		t.Parallel()
		l, pages := setUp(t)
		fit := kernel.DefaultCacheBytes / size
		for i := range fit + fit/8 {
			write(t, l, fmt.Sprintf("r%d", i), openLarge(size, false))
		}
		bounded(t, pages)
		const rounds = 8
		before, looks := l.Stats().Reads, uint64(0)
		for range rounds {
			for i := range fit + fit/8 {
				if _, _, err := l.Reach(t.Context(), fmt.Sprintf("r%d", i), 1); err != nil {
					t.Fatal(err)
				}
				looks++
			}
		}
		if reads := l.Stats().Reads - before; reads > looks/2 || reads == 0 {
			t.Errorf("got %d of %d looks read from the log, want some and at most half", reads, looks)
		}
	})
	t.Run("LIFE-16 runs that go on are dropped where there are no others, but never one in use", func(t *testing.T) {
		t.Parallel()
		l, pages := setUp(t)
		write(t, l, "used", openLarge(size, false))
		defer pages.Pin("used")()
		for i := range runs {
			write(t, l, fmt.Sprintf("r%d", i), openLarge(size, false))
			bounded(t, pages)
		}
		if !pages.Known("used") || pages.Known("r0") {
			t.Errorf("got the run in use cached %t and another %t, want true and false", pages.Known("used"), pages.Known("r0"))
		}
	})
}
