package pool

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
)

// probed are the unprobed backends whose probe has passed since. Each probe starts programs, and few stations ever need
// another mode than their own.
type probed struct {
	mu     sync.Mutex
	passed []sandbox.Mode // guarded by mu
}

// works makes the probe of a backend until it has passed.
func (o *Opener) works(ctx context.Context, b sandbox.Backend) error {
	mode := b.Mode()
	if !slices.Contains(o.cfg.Unprobed, mode) {
		return nil
	}
	o.found.mu.Lock()
	defer o.found.mu.Unlock()
	if slices.Contains(o.found.passed, mode) {
		return nil
	}
	if err := b.Probe(ctx); err != nil {
		return fmt.Errorf("sandbox mode %s: %w", mode, err)
	}
	o.found.passed = append(o.found.passed, mode)
	return nil
}
