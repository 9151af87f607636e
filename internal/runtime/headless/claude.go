// Package headless drives agents that print what they do as lines of JSON: Claude Code with stream-json in both
// directions, and Codex with exec --json.
//
// Promises: Claude Code asks before each tool call, also one that it would make without a question, over its standard
// input and output, and is answered once that is decided; with a no where anything goes wrong. It is given no prompt
// before it has confirmed that. Codex asks no one.
package headless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/runtime"
)

const (
	// cancelWait bounds how long a program has to come to rest when it was interrupted.
	cancelWait = 5 * time.Second
	// maxAsked bounds the questions of the program that are open at the same time, maxTools the calls that it told of.
	maxAsked = 32
	maxTools = 1024
)

// Claude implements runtime.Driver.
type Claude struct{}

var _ runtime.Driver = Claude{}

// claude implements runtime.Conversation.
type claude struct {
	program *runtime.Program
	host    runtime.Host
	life    context.Context
	end     context.CancelCauseFunc
	working sync.WaitGroup
	asked   chan struct{}
	resumed bool
	// results are the ends of prompts; there is one at a time. ready gets the answer to the request that registers the
	// hook, of which there is one.
	results chan result
	ready   chan error

	mu    sync.Mutex
	tools map[string]runtime.Tool // guarded by mu, as are words
	words runtime.Words
}

// Start implements runtime.Driver.
func (Claude) Start(ctx context.Context, s runtime.Spec) (runtime.Conversation, error) {
	args := []string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio"}
	session := s.Session
	if s.Resume != "" {
		session = s.Resume
		args = append(args, "--resume", session)
	} else if session != "" {
		args = append(args, "--session-id", session)
	}
	if session != "" {
		if err := s.Host.Session(ctx, session); err != nil {
			return nil, err
		}
	}
	p, err := runtime.Launch(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	c := &claude{program: p, host: s.Host, results: make(chan result, 1), ready: make(chan error, 1),
		asked: make(chan struct{}, maxAsked), tools: map[string]runtime.Tool{}, resumed: s.Resume != ""}
	c.life, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	c.working.Go(c.read)
	if err := c.register(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// line is what the program prints, as far as it is read.
type line struct {
	Type    string          `json:"type"`
	ID      string          `json:"request_id"`
	Request json.RawMessage `json:"request"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Response response `json:"response"`
	result
}

// result is the end of a prompt.
type result struct {
	Subtype string   `json:"subtype"`
	Error   bool     `json:"is_error"`
	Turns   int      `json:"num_turns"`
	Text    string   `json:"result"`
	Errors  []string `json:"errors"`
	Usage   struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Cached int `json:"cache_read_input_tokens"`
	} `json:"usage"`
}

// Prompt implements runtime.Conversation.
func (c *claude) Prompt(ctx context.Context, text string) (runtime.Reply, error) {
	c.mu.Lock()
	c.words = runtime.Words{}
	c.mu.Unlock()
	// An error of it is that the program has ended, or that ctx has.
	_ = c.program.Tell(ctx, map[string]any{"type": "user", "message": map[string]any{"role": "user",
		"content": []any{map[string]string{"type": "text", "text": text}}}})
	select {
	case r := <-c.results:
		return c.replied(r)
	case <-c.life.Done():
		select {
		case r := <-c.results: // which it gave before it ended
			return c.replied(r)
		default:
			return runtime.Reply{}, context.Cause(c.life)
		}
	case <-ctx.Done():
	}
	go func() { // it ends when the program reads it or is closed
		_ = c.program.Send(map[string]any{"type": "control_request", "request_id": "interrupt",
			"request": map[string]string{"subtype": "interrupt"}})
	}()
	t := time.NewTimer(cancelWait)
	defer t.Stop()
	select {
	case <-c.results:
	case <-c.life.Done():
	case <-t.C:
	}
	return runtime.Reply{}, ctx.Err()
}

// lost returns an error where the program ends because it does not have the session that it was to go on with.
func (c *claude) lost(r result) error {
	if c.resumed && r.Error && r.Turns == 0 {
		return fmt.Errorf("%w: %s", runtime.ErrCannotResume, c.reply(r).Reason)
	}
	return nil
}

func (c *claude) replied(r result) (runtime.Reply, error) {
	if err := c.lost(r); err != nil {
		return runtime.Reply{}, err
	}
	return c.reply(r), nil
}

func (c *claude) reply(r result) runtime.Reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := runtime.Reply{Text: r.Text, Usage: runtime.Usage{Input: max(0, r.Usage.Input), Output: max(0, r.Usage.Output),
		Cached: max(0, r.Usage.Cached)}}
	if out.Text == "" {
		out.Text = c.words.String()
	}
	if r.Error || r.Subtype != "success" {
		out.Failed, out.Reason = true, fmt.Sprintf("it stopped: %.64q", r.Subtype)
		if r.Subtype == "success" { // which it also calls an error of its model, that the text explains
			out.Reason = "it stopped: its model did not answer"
		}
		if len(r.Errors) > 0 {
			out.Reason += fmt.Sprintf(": %.512q", r.Errors[0])
		}
	}
	return out
}

// Close implements runtime.Conversation.
func (c *claude) Close() {
	c.end(runtime.ErrEnded)
	c.program.Close()
	c.working.Wait()
}

func (c *claude) read() {
	for {
		b, err := c.program.Next()
		if err != nil {
			c.end(err)
			return
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			c.end(fmt.Errorf("%w: a line that is not as it should be: %.80q", runtime.ErrProtocol, b))
			return
		}
		switch l.Type {
		case "assistant", "user":
			c.content(l.Message.Content)
		case "control_request":
			c.serve(l)
		case "control_response":
			c.registered(l.Response)
		case "result":
			select {
			case c.results <- l.result:
			default: // a second end of the same prompt
			}
		}
	}
}

// block is a piece of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Of       string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"`
	Error    bool            `json:"is_error"`
}

func (c *claude) content(doc json.RawMessage) {
	var blocks []block
	if json.Unmarshal(doc, &blocks) != nil {
		return // a text of the user, which says nothing new
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			c.mu.Lock()
			c.words.Add(b.Text)
			c.mu.Unlock()
			c.host.Update(runtime.Update{Kind: runtime.Text, Text: b.Text})
		case "thinking":
			c.host.Update(runtime.Update{Kind: runtime.Thought, Text: b.Thinking})
		case "tool_use":
			t := c.note(b.ID, runtime.Tool{ID: b.ID, Name: runtime.InnerName(b.Name), Title: b.Name, Input: b.Input})
			c.host.Update(runtime.Update{Kind: runtime.ToolCall, Tool: t})
		case "tool_result":
			c.mu.Lock()
			t := c.tools[b.Of]
			c.mu.Unlock()
			t.ID, t.Ended, t.Failed, t.Output = b.Of, true, b.Error, outputOf(b.Content)
			c.host.Update(runtime.Update{Kind: runtime.ToolCall, Tool: c.note(b.Of, t)})
		}
	}
}

func (c *claude) note(id string, t runtime.Tool) runtime.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tools) >= maxTools {
		clear(c.tools)
	}
	c.tools[id] = t
	return t
}

// outputOf is what a tool came to, as text.
func outputOf(doc json.RawMessage) string {
	var text string
	if json.Unmarshal(doc, &text) == nil {
		return text
	}
	var blocks []block
	if json.Unmarshal(doc, &blocks) != nil {
		return ""
	}
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// serve answers a question of the program.
func (c *claude) serve(l line) {
	var q struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		Input   json.RawMessage `json:"input"`
		Use     string          `json:"tool_use_id"`
	}
	err := json.Unmarshal(l.Request, &q)
	if err == nil && q.Subtype == "hook_callback" {
		c.answer(l.ID, askFirst)
		return
	}
	if err != nil || q.Subtype != "can_use_tool" {
		c.refuse(l.ID, errors.New("this client does not have the request"))
		return
	}
	select {
	case c.asked <- struct{}{}:
	default:
		c.refuse(l.ID, fmt.Errorf("more than %d requests are open", maxAsked))
		return
	}
	c.working.Go(func() {
		defer func() { <-c.asked }()
		id := q.Use
		if id == "" {
			id = l.ID
		}
		say, err := c.host.Permit(c.life,
			runtime.Tool{ID: id, Name: runtime.InnerName(q.Tool), Title: q.Tool, Input: q.Input})
		answer := map[string]any{"behavior": "deny", "message": "refused"}
		switch {
		case err == nil && say.Allowed:
			answer = map[string]any{"behavior": "allow", "updatedInput": q.Input}
		case say.Reason != "":
			answer["message"] = say.Reason
		}
		c.answer(l.ID, answer)
	})
}

// answer is not waited for: a program that has ended has no use for it.
func (c *claude) answer(id string, doc any) {
	_ = c.program.Send(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "success",
		"request_id": id, "response": doc}})
}

func (c *claude) refuse(id string, err error) {
	_ = c.program.Send(map[string]any{"type": "control_response", "response": map[string]any{"subtype": "error",
		"request_id": id, "error": err.Error()}})
}
