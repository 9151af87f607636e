package jet

import (
	"context"
	"testing"

	"github.com/inspan/inspan/internal/kernel"
)

func TestEndsFirst(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-13 a listener that was told to end begins nothing that waits for a worker", func(t *testing.T) {
		t.Parallel()
		begun := make(chan struct{}, 1)
		l := &listener{workers: 1, done: make(chan struct{}, 1), waiting: make([]waitingMessage, 1),
			receive: func(context.Context, kernel.Message) { begun <- struct{}{} }}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.run(ctx)
		if l.busy > 0 {
			<-begun
			t.Error("a message was begun after the end")
		}
		if len(l.waiting) != 1 {
			t.Errorf("%d messages wait to be handed back, want 1", len(l.waiting))
		}
	})
}
