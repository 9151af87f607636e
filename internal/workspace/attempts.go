package workspace

import (
	"strings"
	"sync"
)

// Attempts counts the attempts that are under way in this process, by run and call. The zero Attempts has none.
type Attempts struct {
	mu sync.Mutex
	n  map[string]int // guarded by mu
}

// Begin counts an attempt until end is called.
func (a *Attempts) Begin(runID, callID string) (end func()) {
	key := runID + "/" + callID
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = map[string]int{}
	}
	a.n[key]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.n[key]--; a.n[key] <= 0 {
			delete(a.n, key)
		}
	}
}

// Of returns how many attempts of a call are under way.
func (a *Attempts) Of(runID, callID string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n[runID+"/"+callID]
}

// Working reports whether an attempt of any call of a run is under way.
func (a *Attempts) Working(runID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.n {
		if strings.HasPrefix(key, runID+"/") {
			return true
		}
	}
	return false
}
