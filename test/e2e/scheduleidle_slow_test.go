//go:build slow

package e2e

import (
	"testing"
	"time"
)

// TestManySchedulesIdle compares what a station costs while nothing happens, without schedules and with 10,000 that wait.
func TestManySchedulesIdle(t *testing.T) {
	const many, lasts = 10_000, 10 * time.Second
	w := newIdling(t) // not beside others: it counts what this process does
	w.window("w0", lasts)
	none, idle, few := w.window("w1", lasts)
	began := time.Now()
	w.with(many)
	made := time.Since(began)
	w.window("w2", lasts) // what making them left behind is done by then
	all, busy, more := w.window("w3", lasts)
	t.Run("TRIG-5 ten thousand schedules that wait cost no message, no goroutine and no processor time", func(t *testing.T) {
		t.Logf("made %d in %s; in %s without and with them: messages %d and %d, goroutines %d and %d, processor time %s and %s (%.2f times)",
			many, made.Round(time.Millisecond), lasts, none, all, few, more, idle, busy, float64(busy)/float64(max(idle, 1)))
		if all-none > 200 {
			t.Errorf("%d messages without schedules, %d with %d in the same time", none, all, many)
		}
		if more-few > 50 {
			t.Errorf("%d goroutines without schedules, %d with %d", few, more, many)
		}
		if busy > 3*idle+time.Second { // a look at each of them, once a second, would cost more
			t.Errorf("processor time %s without schedules, %s with %d", idle, busy, many)
		}
	})
}
