package jet_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/natsserver"
)

// rand16 returns 16 random characters.
func rand16() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// untilDone does something again and again until it is done or ctx ends.
func untilDone(ctx context.Context, do func() error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
	}
}

// await receives one value or fails the test with what was waited for.
func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	return awaitFor(t, c, what, 5*time.Minute)
}

// awaitFor is await with a limit of its own, which a sound server does not come near either.
func awaitFor[T any](t *testing.T, c <-chan T, what string, most time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(most):
		t.Fatalf("waited in vain for %s", what)
	}
	panic("not reached")
}

// swap is a place for a server that is replaced by another while its clients reconnect.
type swap struct {
	mu sync.Mutex
	// s is guarded by mu.
	s *natsserver.Server
}

func (p *swap) set(s *natsserver.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s = s
}

func (p *swap) InProcessConn() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.InProcessConn()
}
