package harness

import "sync"

// BaseHarness is embedded by every harness. It supplies everything but Execute. Its methods may be called at any time,
// also by others while Run is under way; the counter and the state are changed by Run and the Execution alone.
type BaseHarness[S, I, O any] struct {
	mu    sync.RWMutex
	state *PersistentState[S, I, O]
}

func (b *BaseHarness[S, I, O]) base() *BaseHarness[S, I, O] { return b }

func (b *BaseHarness[S, I, O]) begin(p *PersistentState[S, I, O]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = p
}

func (b *BaseHarness[S, I, O]) current() *PersistentState[S, I, O] {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.state
}

// IsComplete is false; a harness that ends before Execute does has one of its own.
func (b *BaseHarness[S, I, O]) IsComplete() bool { return false }

// CurrentStep is the number of the last step, 0 before the first one.
func (b *BaseHarness[S, I, O]) CurrentStep() int {
	if p := b.current(); p != nil {
		return p.len()
	}
	return 0
}

// StepHistory returns all steps, the oldest first.
func (b *BaseHarness[S, I, O]) StepHistory() []Step[I, O] {
	if p := b.current(); p != nil {
		return p.StepHistory()
	}
	return nil
}

// State returns a copy of the state; the zero value before Run.
func (b *BaseHarness[S, I, O]) State() S {
	if p := b.current(); p != nil {
		return p.State()
	}
	var none S
	return none
}
