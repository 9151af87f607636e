package logfeed

import (
	"context"
	"testing"

	"github.com/inspan/inspan/internal/jet"
)

// quietLog has nothing behind any position.
type quietLog struct{ Log }

func (quietLog) ReadLog(context.Context, uint64) ([]jet.Logged, bool, error) { return nil, false, nil }

func TestLook(t *testing.T) {
	t.Parallel()
	t.Run("EVT-15 what one role has read by itself and was republished to no one, the others read, too", func(t *testing.T) {
		t.Parallel()
		ahead, behind := &reader{next: 6, wake: make(chan struct{}, 1)}, &reader{next: 5, wake: make(chan struct{}, 1)}
		f := &Feed{cfg: Config{Log: quietLog{}}, readers: []*reader{ahead, behind}}
		f.look(t.Context())
		if !behind.misses() || ahead.misses() {
			t.Errorf("the reader at 4 of 5 reads on: %v; that at 5: %v", behind.misses(), ahead.misses())
		}
		select {
		case <-behind.wake:
		default:
			t.Error("the reader that is behind sleeps on")
		}
	})
}
