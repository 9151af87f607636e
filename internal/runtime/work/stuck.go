package work

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/runtime"
)

// pulse is when a program last did anything that is seen here, and what it waits for. The zero value has not begun.
type pulse struct {
	mu sync.Mutex
	// Guarded by mu: the last sign of life, the calls that the program says it is at, and how many questions of it are
	// not answered: for a permission, or for its model.
	last    time.Time
	at      map[string]bool
	waiting int
}

// beat notes a sign of life.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// tool notes what the program says of a call of its own.
func (p *pulse) tool(t runtime.Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	switch {
	case t.Ended:
		delete(p.at, t.ID)
	case p.at == nil:
		p.at = map[string]bool{t.ID: true}
	default:
		p.at[t.ID] = true
	}
}

// waits notes that a question of the program is asked; answered is called when it is not open any more.
func (p *pulse) waits() (answered func()) {
	count := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = time.Now()
		p.waiting += n
	}
	count(1)
	return sync.OnceFunc(func() { count(-1) })
}

// left is how much longer the program may be silent; what is at a call or waits for an answer may be for long.
func (p *pulse) left(after time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.at) > 0 || p.waiting > 0 {
		return after
	}
	return after - time.Since(p.last)
}

// watch returns a context that ends with runtime.ErrStuck where the program is silent for longer than that without a
// reason; 0 waits for ever. stop must be called.
func (p *pulse) watch(ctx context.Context, after time.Duration) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	if after <= 0 {
		return watched, func() { cancel(nil) }
	}
	p.mu.Lock()
	p.last, p.at = time.Now(), nil // those of a program before it are gone with it
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		for {
			left := p.left(after)
			if left <= 0 {
				cancel(fmt.Errorf("%w for %s", runtime.ErrStuck, after))
				return
			}
			t := time.NewTimer(left)
			select {
			case <-t.C:
			case <-watched.Done():
				t.Stop()
				return
			}
		}
	}()
	return watched, func() {
		cancel(nil)
		<-ended
	}
}
