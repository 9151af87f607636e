package acp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/runtime"
)

// content is a block of content, as far as it is text.
type content struct {
	Type    string   `json:"type"`
	Text    string   `json:"text"`
	Content *content `json:"content"`
}

// report is a call as updates and requests show it; what is not there is as it was.
type report struct {
	ID        string          `json:"toolCallId"`
	Title     *string         `json:"title"`
	Kind      *string         `json:"kind"`
	Status    string          `json:"status"`
	Input     json.RawMessage `json:"rawInput"`
	Output    json.RawMessage `json:"rawOutput"`
	Content   json.RawMessage `json:"content"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
}

// update takes a notification about the session.
func (c *conversation) update(doc json.RawMessage) {
	var u struct {
		Update json.RawMessage `json:"update"`
	}
	var kind struct {
		Kind string `json:"sessionUpdate"`
	}
	if json.Unmarshal(doc, &u) != nil || json.Unmarshal(u.Update, &kind) != nil {
		return // what cannot be read decides nothing
	}
	c.mu.Lock()
	quiet := c.quiet
	c.mu.Unlock()
	switch kind.Kind {
	case "agent_message_chunk", "agent_thought_chunk":
		var chunk struct {
			Content content `json:"content"`
		}
		if json.Unmarshal(u.Update, &chunk) != nil || quiet {
			return
		}
		if kind.Kind == "agent_thought_chunk" {
			c.host.Update(runtime.Update{Kind: runtime.Thought, Text: chunk.Content.Text})
			return
		}
		c.mu.Lock()
		c.words.Add(chunk.Content.Text)
		c.mu.Unlock()
		c.host.Update(runtime.Update{Kind: runtime.Text, Text: chunk.Content.Text})
	case "tool_call", "tool_call_update":
		var t report
		if json.Unmarshal(u.Update, &t) != nil || t.ID == "" {
			return
		}
		if one := c.note(t); !quiet {
			c.host.Update(runtime.Update{Kind: runtime.ToolCall, Tool: one})
		}
	case "usage_update":
		var used struct {
			Input  int `json:"inputTokens"`
			Output int `json:"outputTokens"`
			Cached int `json:"cachedReadTokens"`
		}
		if json.Unmarshal(u.Update, &used) != nil || quiet {
			return
		}
		c.mu.Lock()
		c.usage = runtime.Usage{Input: max(0, used.Input), Output: max(0, used.Output), Cached: max(0, used.Cached)}
		of := c.usage
		c.mu.Unlock()
		c.host.Update(runtime.Update{Kind: runtime.Tokens, Usage: of})
	}
}

// note joins what is reported of a call with what was reported before.
func (c *conversation) note(t report) runtime.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.tools[t.ID]
	if !known {
		if len(c.tools) >= maxTools {
			clear(c.tools)
		}
		one = runtime.Tool{ID: t.ID, Name: runtime.InnerName("")}
	}
	if t.Title != nil {
		one.Title = *t.Title
	}
	if t.Kind != nil {
		one.Name = runtime.InnerName(*t.Kind)
	}
	if !empty(t.Input) {
		one.Input = t.Input
	}
	if len(t.Locations) > 0 {
		one.Paths = nil
		for _, l := range t.Locations {
			one.Paths = append(one.Paths, l.Path)
		}
	}
	if text := output(t); text != "" {
		one.Output = text
	}
	one.Ended, one.Failed = t.Status == "completed" || t.Status == "failed", t.Status == "failed"
	c.tools[t.ID] = one
	close(c.news)
	c.news = make(chan struct{})
	return one
}

// whole returns what is known of a call, once that is more than its kind, or after toldWait: a program may ask before
// it says what about.
func (c *conversation) whole(one runtime.Tool) runtime.Tool {
	t := time.NewTimer(toldWait)
	defer t.Stop()
	for {
		c.mu.Lock()
		if now, known := c.tools[one.ID]; known {
			one = now
		}
		news := c.news
		c.mu.Unlock()
		if len(one.Input) > 0 || len(one.Paths) > 0 {
			return one
		}
		select {
		case <-news:
		case <-t.C:
			return one
		case <-c.life.Done():
			return one
		}
	}
}

// empty reports whether arguments say nothing: a program may leave them out where it reported them before.
func empty(input json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return len(input) == 0 || json.Unmarshal(input, &fields) == nil && len(fields) == 0
}

// output is what a call came to, as text.
func output(t report) string {
	var blocks []content
	var b strings.Builder
	if json.Unmarshal(t.Content, &blocks) == nil {
		for _, one := range blocks {
			if one.Content != nil {
				b.WriteString(one.Content.Text)
			}
		}
	}
	if b.Len() == 0 && len(t.Output) > 0 && string(t.Output) != "null" {
		return string(t.Output)
	}
	return b.String()
}

// option is one of the answers that the program offers.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// serve answers a request of the program.
func (c *conversation) serve(m message) {
	if m.Method != "session/request_permission" {
		c.answer(m.ID, nil, &rpcError{codeNoMethod, "this client does not have the method"})
		return
	}
	select {
	case c.asked <- struct{}{}:
	default:
		c.answer(m.ID, nil, &rpcError{codeInternal, fmt.Sprintf("more than %d requests are open", maxAsked)})
		return
	}
	c.working.Go(func() {
		defer func() { <-c.asked }()
		c.permit(m)
	})
}

// permit asks about what the program asks to do. Only an option that allows once is ever chosen: what the program would
// be allowed for always, the gatekeeper would not see.
func (c *conversation) permit(m message) {
	var q struct {
		Tool    report   `json:"toolCall"`
		Options []option `json:"options"`
	}
	if err := json.Unmarshal(m.Params, &q); err != nil || q.Tool.ID == "" {
		c.answer(m.ID, nil, &rpcError{codeInternal, "the request cannot be read"})
		return
	}
	one := c.whole(c.note(q.Tool))
	once := slices.IndexFunc(q.Options, func(o option) bool { return o.Kind == "allow_once" })
	outcome := map[string]any{"outcome": "cancelled"}
	kind := "reject_once"
	if once >= 0 {
		if say, err := c.host.Permit(c.life, one); err == nil && say.Allowed {
			kind = "allow_once"
		}
	}
	if i := slices.IndexFunc(q.Options, func(o option) bool { return o.Kind == kind }); i >= 0 {
		outcome = map[string]any{"outcome": "selected", "optionId": q.Options[i].ID}
	}
	c.answer(m.ID, map[string]any{"outcome": outcome}, nil)
}

// answer is not waited for: a program that has ended has no use for it.
func (c *conversation) answer(id json.RawMessage, result any, e *rpcError) {
	m := message{Version: "2.0", ID: id, Error: e}
	if e == nil {
		m.Result = params(result)
	}
	_ = c.program.Send(m)
}
