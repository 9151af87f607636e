package mem

import (
	"sync"
	"time"
)

// Clock tells the time and calls back.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, d from now, on a goroutine of the clock's choice, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// wallClock is the clock of the machine, or of a testing/synctest bubble.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) AfterFunc(d time.Duration, f func()) func() {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// Hand is a clock that moves only when told to. It is safe for concurrent use.
type Hand struct {
	mu sync.Mutex
	// Everything below is guarded by mu.
	now  time.Time
	next uint64
	due  map[uint64]alarm
}

type alarm struct {
	at time.Time
	f  func()
}

// NewHand returns a clock that stands at start.
func NewHand(start time.Time) *Hand { return &Hand{now: start, due: map[uint64]alarm{}} }

// Now returns where the clock stands.
func (h *Hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// AfterFunc has f called by the Advance that reaches its time.
func (h *Hand) AfterFunc(d time.Duration, f func()) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := h.next
	h.next++
	h.due[id] = alarm{at: h.now.Add(d), f: f}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.due, id)
	}
}

// Advance moves the clock and makes the calls that fall due, in the order of their times, the earlier asked for first;
// each sees the clock at its own time. It returns when all have returned.
func (h *Hand) Advance(d time.Duration) {
	h.mu.Lock()
	end := h.now.Add(d)
	for {
		id, a, ok := h.earliest(end)
		if !ok {
			break
		}
		delete(h.due, id)
		if a.at.After(h.now) {
			h.now = a.at
		}
		h.mu.Unlock()
		a.f()
		h.mu.Lock()
	}
	h.now = end
	h.mu.Unlock()
}

// Next returns the time of the earliest call that is due, if there is one.
func (h *Hand) Next() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var first time.Time
	for _, a := range h.due {
		if first.IsZero() || a.at.Before(first) {
			first = a.at
		}
	}
	return first, !first.IsZero()
}

func (h *Hand) earliest(end time.Time) (id uint64, first alarm, ok bool) {
	for i, a := range h.due {
		if a.at.After(end) {
			continue
		}
		if !ok || a.at.Before(first.at) || a.at.Equal(first.at) && i < id {
			id, first, ok = i, a, true
		}
	}
	return id, first, ok
}
