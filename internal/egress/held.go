package egress

import (
	"context"
	"sync"
	"time"
)

// held are the things that are open, until all are cut.
type held struct {
	mu     sync.Mutex
	closed bool              // guarded by mu, as are cuts and next
	cuts   map[uint64]func() // what ends each thing that is open
	next   uint64
	work   sync.WaitGroup
}

// cut ends everything and lets nothing in any more.
func (h *held) cut() {
	h.mu.Lock()
	h.closed = true
	cuts := h.cuts
	h.cuts = map[uint64]func(){}
	h.mu.Unlock()
	for _, cut := range cuts {
		cut()
	}
}

// over reports whether all was cut.
func (h *held) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// keep remembers how to end something; forget takes that back. ok is false where everything was
// cut before: then cut was called.
func (h *held) keep(cut func()) (forget func(), ok bool) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		cut()
		return func() {}, false
	}
	id := h.next
	h.next++
	h.cuts[id] = cut
	h.work.Add(1)
	h.mu.Unlock()
	return sync.OnceFunc(func() {
		h.mu.Lock()
		delete(h.cuts, id)
		h.mu.Unlock()
		h.work.Done()
	}), true
}

// within returns a context that ends with the others too.
func (h *held) within(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	forget, _ := h.keep(cancel)
	return ctx, func() { cancel(); forget() }
}
