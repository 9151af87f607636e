package kernel

import (
	"context"
	"errors"
	"slices"
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
	// early are the last hints about runs without work, in a ring: work may be about to begin. Guarded by mu.
	early [earlyHints]string
	next  int
}

// earlyHints is how many hints are kept that came before the work that they are about: more than the runs that can end
// while an attempt is on its way from its call.started to here.
const earlyHints = 256

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
	hinted := slices.Contains(e.early[:], runID)
	e.mu.Unlock()
	if hinted {
		e.Hint(ctx, runID)
	}
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
	if !busy && !slices.Contains(e.early[:], runID) {
		e.early[e.next], e.next = runID, (e.next+1)%earlyHints
	}
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
