// Package acp drives agents that speak the Agent Client Protocol, version 1, over their standard input and output.
//
// Promises: the client offers neither files nor terminals, so the program works with its own in its sandbox. A request
// for permission is answered once whoever started the program has decided, and with a no where anything goes wrong.
package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/runtime"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const (
	// protocolVersion is that of the protocol spoken here.
	protocolVersion = 1
	// startWait bounds the answers to requests that begin a session, cancelWait that to a prompt that was cancelled.
	startWait  = 3 * time.Minute
	cancelWait = 5 * time.Second
	// toldWait bounds how long a question without arguments waits for the update that has them.
	toldWait = 2 * time.Second
	// maxAsked bounds the requests of the program that are open at the same time, maxTools the calls that it reported.
	maxAsked = 32
	maxTools = 1024
)

// Driver implements runtime.Driver.
type Driver struct{}

var _ runtime.Driver = Driver{}

// message is any message of JSON-RPC.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("error %d: %.512s", e.Code, tool.Visible(e.Message))
}

// Codes of JSON-RPC.
const (
	codeNoMethod = -32601
	codeInternal = -32603
)

// conversation implements runtime.Conversation.
type conversation struct {
	program *runtime.Program
	host    runtime.Host
	session string
	// life ends with the conversation.
	life    context.Context
	end     context.CancelCauseFunc
	working sync.WaitGroup
	asked   chan struct{}

	mu sync.Mutex
	// Guarded by mu: the number of the last request, those that wait for their answer, what was reported of calls,
	// whether a session is loaded, whose old updates are not of this prompt, and what was said.
	last    int
	waiting map[string]chan message
	tools   map[string]runtime.Tool
	quiet   bool
	words   runtime.Words
	usage   runtime.Usage
	// news is closed, and another one made, when something was reported of a call; guarded by mu.
	news chan struct{}
}

// Start implements runtime.Driver.
func (Driver) Start(ctx context.Context, s runtime.Spec) (runtime.Conversation, error) {
	p, err := runtime.Launch(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &conversation{program: p, host: s.Host, waiting: map[string]chan message{}, tools: map[string]runtime.Tool{},
		asked: make(chan struct{}, maxAsked), news: make(chan struct{})}
	c.life, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	c.working.Go(c.read)
	begin, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := c.begin(begin, s); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *conversation) begin(ctx context.Context, s runtime.Spec) error {
	var is struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load bool `json:"loadSession"`
		} `json:"agentCapabilities"`
	}
	err := c.call(ctx, "initialize", map[string]any{"protocolVersion": protocolVersion,
		"clientCapabilities": map[string]any{"fs": map[string]bool{"readTextFile": false, "writeTextFile": false},
			"terminal": false}}, &is)
	if err != nil {
		return err
	}
	if is.Version != protocolVersion {
		return fmt.Errorf("%w: it speaks version %d of ACP, not %d", runtime.ErrProtocol, is.Version, protocolVersion)
	}
	at := map[string]any{"cwd": sandbox.Seen(s.Sandbox), "mcpServers": []any{}}
	if s.Resume != "" {
		if !is.Capabilities.Load {
			return fmt.Errorf("%w: it loads no sessions", runtime.ErrCannotResume)
		}
		c.setQuiet(true)
		at["sessionId"] = s.Resume
		var none json.RawMessage
		if err := c.call(ctx, "session/load", at, &none); err != nil {
			if refused, ok := errors.AsType[*rpcError](err); ok {
				return fmt.Errorf("%w: %w", runtime.ErrCannotResume, refused)
			}
			return err
		}
		c.setQuiet(false)
		c.session = s.Resume
		return c.host.Session(ctx, c.session)
	}
	var made struct {
		Session string `json:"sessionId"`
	}
	if err := c.call(ctx, "session/new", at, &made); err != nil {
		return err
	}
	if made.Session == "" {
		return fmt.Errorf("%w: a session without a name", runtime.ErrProtocol)
	}
	c.session = made.Session
	return c.host.Session(ctx, c.session)
}

func (c *conversation) setQuiet(quiet bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = quiet
}

// Prompt implements runtime.Conversation.
func (c *conversation) Prompt(ctx context.Context, text string) (runtime.Reply, error) {
	c.mu.Lock()
	c.words = runtime.Words{}
	c.mu.Unlock()
	var done struct {
		Reason string `json:"stopReason"`
	}
	stop := context.AfterFunc(ctx, func() {
		_ = c.program.Send(message{Version: "2.0", Method: "session/cancel",
			Params: params(map[string]any{"sessionId": c.session})})
	})
	defer stop()
	// A prompt that was cancelled is answered, too: so the program has come to rest.
	answered, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(cancelWait, cancel) })
	defer late()
	err := c.call(answered, "session/prompt", map[string]any{"sessionId": c.session,
		"prompt": []any{map[string]string{"type": "text", "text": text}}}, &done)
	if ctx.Err() != nil {
		return runtime.Reply{}, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := runtime.Reply{Text: c.words.String(), Usage: c.usage}
	if refused, ok := errors.AsType[*rpcError](err); ok {
		r.Failed, r.Reason = true, refused.Error()
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if done.Reason != "end_turn" {
		r.Failed, r.Reason = true, "it stopped: "+clip(done.Reason)
	}
	return r, nil
}

func clip(s string) string { return fmt.Sprintf("%.64q", s) }

// Close implements runtime.Conversation.
func (c *conversation) Close() {
	c.end(runtime.ErrEnded)
	c.program.Close()
	c.working.Wait()
}

func params(doc any) json.RawMessage {
	b, err := json.Marshal(doc)
	if err != nil {
		return json.RawMessage(`{}`) // it consists of texts
	}
	return b
}

// call makes a request and waits for its answer.
func (c *conversation) call(ctx context.Context, method string, doc, into any) error {
	answer := make(chan message, 1) // whoever answers does not wait
	c.mu.Lock()
	c.last++
	id := fmt.Sprint(c.last)
	c.waiting[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.program.Tell(ctx, message{Version: "2.0", ID: json.RawMessage(id), Method: method,
		Params: params(doc)}); err != nil {
		select {
		case <-c.life.Done(): // which says why
			return fmt.Errorf("%s: %w", method, context.Cause(c.life))
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", method, ctx.Err())
		}
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %w", method, m.Error)
		}
		if err := json.Unmarshal(m.Result, into); err != nil {
			return fmt.Errorf("%w: the answer to %s: %w", runtime.ErrProtocol, method, err)
		}
		return nil
	case <-c.life.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(c.life))
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// read takes what the program prints until it ends or breaks the protocol.
func (c *conversation) read() {
	for {
		line, err := c.program.Next()
		if err != nil {
			c.end(err)
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			c.end(fmt.Errorf("%w: a line that is no JSON: %.80q", runtime.ErrProtocol, line))
			return
		}
		switch {
		case m.Method == "" && len(m.ID) > 0:
			c.mu.Lock()
			answer := c.waiting[string(m.ID)]
			delete(c.waiting, string(m.ID))
			c.mu.Unlock()
			if answer != nil {
				answer <- m
			}
		case m.Method == "session/update":
			c.update(m.Params)
		case len(m.ID) > 0:
			c.serve(m)
		}
	}
}
