package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/mcp/live"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// Limits of what one session takes from a server.
const (
	// maxReceived is the most bytes that a server may say in a session, of whatever kind: answers, notifications, logs.
	maxReceived = 32 << 20
	// maxMessage is the most bytes of one message.
	maxMessage = 16 << 20
	// maxPages is the most pages of a list of tools.
	maxPages = 64
	// closeWait is how long a server may take to go by itself.
	closeWait = time.Second
	// maxResult is the most bytes of a server's words in an error.
	maxResult = 2 << 10
	// Legacy is the revision that servers are asked for which do not answer to the newest.
	Legacy = "2025-11-25"
)

const codeInvalidParams = jsonrpc.CodeInvalidParams

// errFlood means that a server said more than a session takes.
var errFlood = errors.New("the server sent more than the limit")

// session is a server that was reached. It is safe for concurrent use.
type session struct {
	carrier
	session *sdk.ClientSession
	// closing is set by the first Close, which ends closed. Others wait at the channel and not at a lock: the simulation
	// knows of the former that nothing goes on meanwhile.
	closing atomic.Bool
	closed  chan struct{}
}

var _ live.Conn = (*session)(nil)

// carrier is a way to reach a server.
type carrier struct {
	transport sdk.Transport
	// cancelled watches what is sent for the notification that a call is cancelled.
	cancelled *notice
	// answers says that an answer to a call that was cancelled would be seen.
	answers bool
	// lost reports whether the carrier broke in an exchange, or with nil at all: what looks like an answer is then none
	// of the server.
	lost func(*exchange) bool
	// allow sets how many bytes the server may send from now on.
	allow func(bytes int64)
	// end ends what carries the session, by force where it does not go by itself, and waits until it is gone.
	end func()
	// explain says what is behind an error, where the carrier knows.
	explain func(*exchange, error) error
	// mask hides what the carrier sent as authorization; nil where it is masked by its name.
	mask func(string) string
}

// open reaches a server and agrees on a revision of the protocol; protocol "" asks for the newest.
func open(ctx context.Context, s events.MCPServer, secrets map[string]secret.Value, sb sandbox.Sandbox,
	protocol string) (*session, error) {
	var c carrier
	var err error
	if s.URL != "" {
		c, err = overHTTP(s, secrets)
	} else {
		c, err = overPipes(ctx, s, secrets, sb)
	}
	if err != nil {
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "inspan", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}})
	client.AddReceivingMiddleware(refuseRequests)
	ctx, x := begin(ctx)
	cs, err := client.Connect(ctx, c.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		err = c.explain(x, err) // before the end, which has an error of its own
		c.end()
		return nil, err
	}
	return &session{carrier: c, session: cs, closed: make(chan struct{})}, nil
}

// Lost implements live.Conn.
func (s *session) Lost() bool { return s.lost(nil) }

// Forgets implements live.Conn: a program may keep anything, a server over HTTP what it keeps for a session.
func (s *session) Forgets() bool { return s.answers || s.session.ID() != "" }

// Busy implements live.Conn.
func (s *session) Busy() { s.allow(maxReceived) }

// Unused implements live.Conn.
func (s *session) Unused(bytes int64) { s.allow(bytes) }

// Close implements live.Conn.
func (s *session) Close() {
	if s.closing.Swap(true) {
		<-s.closed
		return
	}
	defer close(s.closed)
	s.close()
}

// refuseRequests answers what a server asks of a client: nothing but a sign of life. Notifications are dropped.
func refuseRequests(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch {
		case method == "ping":
			return next(ctx, method, req)
		case strings.HasPrefix(method, "notifications/"):
			return nil, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client answers no requests of servers"}
	}
}

// notice watches what is sent for notifications that a call is cancelled.
type notice struct {
	mu   sync.Mutex
	seen chan struct{} // guarded by mu; closed with the next notification
}

func newNotice() *notice { return &notice{seen: make(chan struct{})} }

// maxNotice is the most bytes of a message that is looked at; the notification is short.
const maxNotice = 4 << 10

func (n *notice) sent(message []byte) {
	if len(message) > maxNotice || !bytes.Contains(message, []byte(`"method":"notifications/cancelled"`)) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.seen)
	n.seen = make(chan struct{})
}

// next is closed with the next notification.
func (n *notice) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// leaveCall waits until the server has been informed that a call is cancelled, which the library does on the side, and
// reports whether the server may serve other calls: where it has answered the call after all, or the call has no effect
// and the server still answers. Most servers answer no call that is cancelled, so one that may have an effect could go
// on.
func (s *session) leaveCall(x *exchange, informed <-chan struct{}, harmless bool) bool {
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-informed:
	case <-t.C:
		return false
	}
	if !harmless {
		return s.answers && x.quiet(closeWait)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_, err := s.session.ListTools(ctx, nil)
	return err == nil
}

// close says goodbye and then ends what carries the session.
func (s *session) close() {
	var bye sync.WaitGroup
	done := make(chan struct{})
	bye.Go(func() {
		defer close(done)
		_ = s.session.Close() // the server is ended in any case
	})
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	s.end()
	bye.Wait()
}

// tools gives each tool of the server to see, until it returns false.
func (s *session) tools(ctx context.Context, see func(agentfile.ToolPin) bool) error {
	cursor, count := "", 0
	for range maxPages {
		page, err := s.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return fmt.Errorf("list its tools: %w", err)
		}
		for _, t := range page.Tools {
			if count++; count > agentfile.MaxServerTools {
				return tool.Fail(tool.Permanent, "an operator must use a server with fewer tools",
					fmt.Errorf("the server has more than %d tools", agentfile.MaxServerTools))
			}
			p, err := pinOf(t)
			if err != nil {
				continue // it has no schema, so it is none of the pinned ones
			}
			if !see(p) {
				return nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
	return tool.Fail(tool.Permanent, "an operator must use a server with fewer tools",
		fmt.Errorf("the server's list of tools has more than %d pages", maxPages))
}

func pinOf(t *sdk.Tool) (agentfile.ToolPin, error) {
	input, err := json.Marshal(t.InputSchema)
	if err != nil {
		return agentfile.ToolPin{}, err
	}
	p := agentfile.ToolPin{Name: t.Name, Description: t.Description, Input: input, Hint: hint(t.Annotations)}
	p.Digest = agentfile.ToolDigest(p.Name, p.Description, p.Input)
	return p, nil
}

// hint is what a server says of a tool's effect.
func hint(a *sdk.ToolAnnotations) string {
	switch {
	case a == nil:
		return ""
	case a.ReadOnlyHint:
		return "read-only"
	case a.IdempotentHint:
		return "idempotent"
	case a.DestructiveHint != nil && *a.DestructiveHint:
		return "destructive"
	}
	return ""
}

// refusal is an answer of the server that says no. The library uses the same type where it could not send: see lost.
func refusal(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok
}

// clean makes an error short and harmless that quotes a server.
func clean(err error) error {
	text := tool.Visible(err.Error())
	if len(text) <= maxResult && text == err.Error() {
		return err
	}
	if len(text) > maxResult {
		text = strings.ToValidUTF8(text[:maxResult], "") + "..."
	}
	return &result{text, err}
}

// result is an error in other words.
type result struct {
	text string
	err  error
}

func (t *result) Error() string { return t.text }
func (t *result) Unwrap() error { return t.err }

// fill replaces what stands for a secret.
func fill(value string, secrets map[string]secret.Value) (string, error) {
	name, is := strings.CutPrefix(value, "secret:")
	if !is {
		return value, nil
	}
	v := secrets[name]
	if v.Empty() {
		return "", tool.Fail(tool.Permanent, "an operator must put it into the file "+name+
			" of the folder that INSPAN_MCP_SECRETS names for the toolrunner",
			fmt.Errorf("no such secret %q", name))
	}
	return v.Reveal(), nil
}
