package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/inspan/inspan/internal/sandbox"
)

// Life counts the commands of a sandbox so that Destroy can end them. The zero value is a living sandbox.
type Life struct {
	mu      sync.Mutex
	ended   bool
	next    int
	cancels map[int]context.CancelCauseFunc
	idle    chan struct{} // closed when ended and no command runs
}

// Enter starts one command. Its context ends with ctx or with the sandbox; leave must be called when the command and
// all it started are gone.
func (l *Life) Enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, sandbox.ErrDestroyed
	}
	if l.cancels == nil {
		l.cancels = make(map[int]context.CancelCauseFunc)
	}
	inner, cancel := context.WithCancelCause(ctx)
	id := l.next
	l.next++
	l.cancels[id] = cancel
	return inner, func() { l.leave(id) }, nil
}

func (l *Life) leave(id int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels[id](nil)
	delete(l.cancels, id)
	if l.ended && len(l.cancels) == 0 {
		close(l.idle)
	}
}

// End refuses further commands, ends the running ones and waits until they are gone or ctx ends. It may be called
// again: a later call only waits.
func (l *Life) End(ctx context.Context) error {
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		l.idle = make(chan struct{})
		if len(l.cancels) == 0 {
			close(l.idle)
		}
		for _, cancel := range l.cancels {
			cancel(sandbox.ErrDestroyed)
		}
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the sandbox's commands to end: %w", ctx.Err())
	}
}
