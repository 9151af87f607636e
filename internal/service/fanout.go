package service

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/runlog"
)

// fanOut overhear the events of a station as they are stored, once for all roles of a process, and pass each on: to the
// cached states, then to whoever listens besides.
type fanOut struct {
	pages *runlog.Pages
	once  sync.Once
	mu    sync.RWMutex
	more  []*listener // guarded by mu; not changed in place
}

// listener takes events. It never waits, and what it misses is not lost.
type listener struct {
	receive func(runID string, r kernel.Record)
}

// open begins with the first role of a process, for the life of ctx.
func (e *fanOut) open(ctx context.Context, republished func(func(runID string, r kernel.Record)) (stop func(),
	err error)) (err error) {
	if republished == nil {
		return nil
	}
	e.once.Do(func() {
		var stop func()
		if stop, err = republished(e.receive); err == nil {
			context.AfterFunc(ctx, stop)
		}
	})
	if err != nil {
		return fmt.Errorf("overhear events: %w", err)
	}
	return nil
}

// add lets hear listen, too, for the life of ctx.
func (e *fanOut) add(ctx context.Context, receive func(runID string, r kernel.Record)) {
	l := &listener{receive}
	e.mu.Lock()
	e.more = append(slices.Clone(e.more), l)
	e.mu.Unlock()
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.more = slices.DeleteFunc(slices.Clone(e.more), func(x *listener) bool { return x == l })
	})
}

func (e *fanOut) receive(runID string, r kernel.Record) {
	e.pages.ApplyRepublished(runID, r)
	for _, l := range e.listeners() {
		l.receive(runID, r)
	}
}

func (e *fanOut) listeners() []*listener {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.more
}
