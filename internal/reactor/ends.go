package reactor

import (
	"context"
	"errors"
	"sync"
)

// ErrRunEnded is the cause of a context that ended because its run did.
var ErrRunEnded = errors.New("the run ended")

// Ends cancels the work of runs that ended. A hint that a run ended proves nothing, so the log is asked before
// anything is cancelled. A nil *Ends cancels nothing.
type Ends struct {
	ledger *Ledger
	mu     sync.Mutex
	// work under way by run, guarded by mu.
	work map[string]map[*ending]struct{}
}

type ending struct{ cancel context.CancelCauseFunc }

// NewEnds makes an Ends that asks a ledger.
func NewEnds(l *Ledger) *Ends {
	return &Ends{ledger: l, work: make(map[string]map[*ending]struct{})}
}

// Context returns a context that ends with ctx or, with cause ErrRunEnded, when the run does. done must be called.
func (e *Ends) Context(ctx context.Context, runID string) (work context.Context, done func()) {
	work, cancel := context.WithCancelCause(ctx)
	if e == nil {
		return work, func() { cancel(nil) }
	}
	w := &ending{cancel: cancel}
	e.mu.Lock()
	if e.work[runID] == nil {
		e.work[runID] = make(map[*ending]struct{})
	}
	e.work[runID][w] = struct{}{}
	e.mu.Unlock()
	return work, func() {
		cancel(nil)
		e.mu.Lock()
		delete(e.work[runID], w)
		if len(e.work[runID]) == 0 {
			delete(e.work, runID)
		}
		e.mu.Unlock()
	}
}

// Hint looks whether a run with work under way has ended, and cancels that work if so.
func (e *Ends) Hint(ctx context.Context, runID string) {
	e.mu.Lock()
	busy := len(e.work[runID]) > 0
	e.mu.Unlock()
	if !busy {
		return
	}
	s, err := e.ledger.Fresh(ctx, runID)
	if err != nil || !s.Status.Ended() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.work[runID] {
		w.cancel(ErrRunEnded)
	}
}
