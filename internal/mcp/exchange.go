package mcp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// exchange is what is known of the requests of one call. It comes to the transports by the context of the requests: the
// library has no other way to distinguish the requests of a session.
type exchange struct {
	// status of the last HTTP answer that was none of the protocol, and when it asks to be tried again.
	status, after atomic.Int64
	// broken says that a connection broke.
	broken atomic.Bool
	// scope is what a grant lacks, as the server names it; nil where it does not.
	scope atomic.Pointer[string]

	mu sync.Mutex
	// Guarded by mu: how many requests have no answer, and what is closed when all have one; nil where none waits.
	open  int
	ended chan struct{}
}

type exchangeKey struct{}

// begin returns a context whose requests are those of an exchange.
func begin(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// exchangeOf is the exchange of a request, never nil.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{}
}

func (x *exchange) requested() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open++
}

func (x *exchange) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open--; x.open == 0 && x.ended != nil {
		close(x.ended)
		x.ended = nil
	}
}

// quiet waits until all requests have an answer, and reports whether they do.
func (x *exchange) quiet(patience time.Duration) bool {
	x.mu.Lock()
	if x.open == 0 {
		x.mu.Unlock()
		return true
	}
	if x.ended == nil {
		x.ended = make(chan struct{})
	}
	ended := x.ended
	x.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
		return false
	}
}

// answering is a transport that notes which requests were answered, also after their call was given up.
type answering struct{ sdk.Transport }

// Connect implements sdk.Transport.
func (a answering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answers{Connection: c, turn: make(chan struct{}, 1), open: map[jsonrpc.ID]*exchange{}}, nil
}

// answers is a connection of such a transport.
type answers struct {
	sdk.Connection
	// turn is held while a message is written: where a server reads no more, the other callers wait no longer than their
	// contexts allow.
	turn chan struct{}
	mu   sync.Mutex
	// open requests, guarded by mu.
	open map[jsonrpc.ID]*exchange
}

// Write implements sdk.Connection.
func (a *answers) Write(ctx context.Context, message jsonrpc.Message) error {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() {
		x := exchangeOf(ctx)
		x.requested()
		a.mu.Lock()
		a.open[r.ID] = x
		a.mu.Unlock()
	}
	return a.Connection.Write(ctx, message)
}

// Read implements sdk.Connection.
func (a *answers) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := a.Connection.Read(ctx)
	if r, ok := message.(*jsonrpc.Response); ok && err == nil {
		a.mu.Lock()
		x := a.open[r.ID]
		delete(a.open, r.ID)
		a.mu.Unlock()
		if x != nil {
			x.answered()
		}
	}
	return message, err
}
