package kernel

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrEnded is the cause of a context that ended because its aggregate did.
var ErrEnded = errors.New("it ended")

// Ends cancels the work of aggregates that ended. A hint that one ended proves nothing, so the log is asked before
// anything is cancelled. A nil *Ends cancels nothing.
type Ends[S any] struct {
	ledger *Ledger[S]
	mu     sync.Mutex
	// work under way by aggregate, guarded by mu.
	work map[string]map[*ending]struct{}
	// maxEarlyHints are the last hints about aggregates without work, in a ring: work may be about to begin. Guarded by
	// mu.
	earlyHints [maxEarlyHints]string
	next       int
}

// maxEarlyHints is how many hints are kept that came before the work that they are about: more than can end
// while an attempt is on its way from its call.started to here.
const maxEarlyHints = 256

type ending struct{ cancel context.CancelCauseFunc }

// NewEnds makes an Ends that asks a ledger, whose aggregates have an end.
func NewEnds[S any](l *Ledger[S]) *Ends[S] {
	return &Ends[S]{ledger: l, work: make(map[string]map[*ending]struct{})}
}

// Context returns a context that ends with ctx or, with cause ErrEnded, when the aggregate does. done must be called.
func (e *Ends[S]) Context(ctx context.Context, id string) (work context.Context, done func()) {
	work, cancel := context.WithCancelCause(ctx)
	if e == nil {
		return work, func() { cancel(nil) }
	}
	w := &ending{cancel: cancel}
	e.mu.Lock()
	if e.work[id] == nil {
		e.work[id] = make(map[*ending]struct{})
	}
	e.work[id][w] = struct{}{}
	hinted := slices.Contains(e.earlyHints[:], id)
	e.mu.Unlock()
	if hinted {
		e.Hint(ctx, id)
	}
	return work, func() {
		cancel(nil)
		e.mu.Lock()
		delete(e.work[id], w)
		if len(e.work[id]) == 0 {
			delete(e.work, id)
		}
		e.mu.Unlock()
	}
}

// Hint looks whether an aggregate with work under way has ended, and cancels that work if so.
func (e *Ends[S]) Hint(ctx context.Context, id string) {
	e.mu.Lock()
	busy := len(e.work[id]) > 0
	if !busy && !slices.Contains(e.earlyHints[:], id) {
		e.earlyHints[e.next], e.next = id, (e.next+1)%maxEarlyHints
	}
	e.mu.Unlock()
	if !busy {
		return
	}
	s, err := e.ledger.Fresh(ctx, id)
	if ended := e.ledger.typed.Ended; err != nil || ended == nil || !ended(&s) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for w := range e.work[id] {
		w.cancel(ErrEnded)
	}
}
