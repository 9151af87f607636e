package mcp

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stuck is a connection to a server that reads nothing, which writes one message at a time.
type stuck struct {
	sdk.Connection
	mu      sync.Mutex
	writes  chan struct{}
	release chan struct{}
}

func (s *stuck) Write(context.Context, jsonrpc.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes <- struct{}{}
	<-s.release
	return nil
}

func TestStuckWrite(t *testing.T) {
	t.Parallel()
	t.Run("ECO-3 a call ends in time although another one is stuck on a server that reads nothing", func(t *testing.T) {
		t.Parallel()
		s := &stuck{writes: make(chan struct{}, 2), release: make(chan struct{})}
		a := &answers{Connection: s, turn: make(chan struct{}, 1), open: map[jsonrpc.ID]*exchange{}}
		first := make(chan error, 1)
		go func() { first <- a.Write(t.Context(), &jsonrpc.Response{}) }()
		<-s.writes
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		second := make(chan error, 1)
		go func() { second <- a.Write(ctx, &jsonrpc.Response{}) }()
		select {
		case err := <-second:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the second call waits for the first")
		}
		close(s.release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}
