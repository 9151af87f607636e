package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// request is the body of POST /v1/messages. Raw content and tools' schemas go out as they are.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Stream       bool          `json:"stream"`
	Temperature  *float64      `json:"temperature,omitempty"`
	System       []*textBlock  `json:"system,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	Messages     []message     `json:"messages"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type textBlock struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Cache *cache `json:"cache_control,omitempty"`
}

// spoken is text of the assistant, which is never marked.
type spoken struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type image struct {
	Type   string `json:"type"`
	Source source `json:"source"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	// Content is a text, or blocks where there are images; nil for none.
	Content any    `json:"content,omitempty"`
	IsError bool   `json:"is_error,omitempty"`
	Cache   *cache `json:"cache_control,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       *cache          `json:"cache_control,omitempty"`
}

type outputConfig struct {
	Format struct {
		Type   string `json:"type"`
		Schema any    `json:"schema"`
	} `json:"format"`
}

// cache marks the end of a prefix that the provider should keep.
type cache struct {
	Type string `json:"type"`
}

func requestBody(req llm.Request) ([]byte, error) {
	r := request{Model: req.Model, MaxTokens: req.MaxOutputTokens, Stream: true, Temperature: req.Temperature}
	if r.MaxTokens <= 0 {
		r.MaxTokens = llm.DefaultMaxOutputTokens
	}
	if req.System != "" {
		r.System = []*textBlock{{Type: "text", Text: req.System}}
	}
	for _, t := range req.Tools {
		schema := t.Input
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		r.Tools = append(r.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	var err error
	if r.Messages, err = messages(req.Messages); err != nil {
		return nil, err
	}
	if len(req.Schema) > 0 {
		if r.OutputConfig, err = outputFormat(req.Schema); err != nil {
			return nil, err
		}
	}
	r.markPrefix()
	return wire.Marshal(r)
}

// markPrefix asks the provider to cache what the next turn will send again, with the four marks that the API allows:
// the tools, the system prompt, and the last two messages of the user. The one before the last is where the answer to
// it was cached, so that it is found again even where the results since then are many: the API looks back over 20
// blocks only. A single question without tools is not asked again and costs no cache.
func (r *request) markPrefix() {
	if len(r.Messages) < 2 && len(r.Tools) == 0 {
		return
	}
	mark := &cache{Type: "ephemeral"}
	if len(r.Tools) > 0 {
		r.Tools[len(r.Tools)-1].Cache = mark
	}
	if len(r.System) > 0 {
		r.System[0].Cache = mark
	}
	left := 2
	for i := len(r.Messages) - 1; i >= 0 && left > 0; i-- {
		content := r.Messages[i].Content
		switch b := content[len(content)-1].(type) {
		case *textBlock:
			b.Cache = mark
		case *toolResult:
			b.Cache = mark
		default:
			continue
		}
		left--
	}
}

func messages(from []llm.Message) ([]message, error) {
	history, err := wire.Settle(from, Provider, own)
	if err != nil {
		return nil, err
	}
	out := make([]message, 0, len(history))
	for _, m := range history {
		next := message{Role: "user"}
		switch m.Role {
		case llm.User:
			next.Content = append(next.Content, pictures(m.Images)...)
			if m.Text != "" {
				next.Content = append(next.Content, &textBlock{Type: "text", Text: m.Text})
			}
		case llm.Assistant:
			next.Role = "assistant"
			if next.Content, err = assistantContent(m); err != nil {
				return nil, err
			}
		case llm.ToolResults:
			var after []any
			for _, r := range m.Results {
				next.Content = append(next.Content, resultOf(r))
				if r.Failed {
					after = append(after, pictures(r.Images)...)
				}
			}
			next.Content = append(next.Content, after...)
		}
		out = append(out, next)
	}
	return out, nil
}

func pictures(from []llm.Image) []any {
	out := make([]any, 0, len(from))
	for _, i := range from {
		out = append(out, image{Type: "image", Source: source{Type: "base64", MediaType: i.MediaType, Data: i.Data}})
	}
	return out
}

// resultOf is a result with its images in it. The API takes text alone in the results of failed calls; their images
// come after all results.
func resultOf(r llm.Result) *toolResult {
	out := &toolResult{Type: "tool_result", ToolUseID: r.CallID, IsError: r.Failed}
	switch {
	case len(r.Images) > 0 && !r.Failed:
		var blocks []any
		if strings.TrimSpace(r.Output) != "" {
			blocks = append(blocks, spoken{Type: "text", Text: r.Output})
		}
		out.Content = append(blocks, pictures(r.Images)...)
	case r.Output != "":
		out.Content = r.Output
	}
	return out
}

func assistantContent(m llm.Message) ([]any, error) {
	var out []any
	if m.Raw != nil {
		var blocks []json.RawMessage
		if err := json.Unmarshal(m.Raw, &blocks); err != nil {
			return nil, err
		}
		for _, b := range blocks {
			out = append(out, b)
		}
		return out, nil
	}
	if m.Text != "" {
		out = append(out, spoken{Type: "text", Text: m.Text})
	}
	for _, c := range m.Calls {
		out = append(out, toolUse{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Input})
	}
	return out, nil
}

// own reads the content blocks that the API sent. The API refuses text blocks without text, thoughts without their
// signature, and a message that ends with thoughts, as one that was cut does; they are left out.
func own(raw json.RawMessage) (json.RawMessage, []llm.Call, error) {
	var blocks []json.RawMessage
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, nil, fmt.Errorf("raw content is not an array: %w", err)
	}
	var kept []json.RawMessage
	var calls []llm.Call
	end := 0 // of what can be sent
	for _, b := range blocks {
		var k struct{ Type, Text, ID, Name, Signature string }
		if err := json.Unmarshal(b, &k); err != nil {
			return nil, nil, fmt.Errorf("raw content has an invalid block: %w", err)
		}
		if k.Type == "text" && strings.TrimSpace(k.Text) == "" || k.Type == "thinking" && k.Signature == "" {
			continue
		}
		kept = append(kept, b)
		if k.Type != "thinking" && k.Type != "redacted_thinking" {
			end = len(kept)
		}
		if k.Type == "tool_use" {
			calls = append(calls, llm.Call{ID: k.ID, Name: k.Name})
		}
	}
	switch end {
	case 0:
		return nil, nil, nil
	case len(blocks):
		return raw, calls, nil
	}
	out, err := wire.Marshal(kept[:end])
	return out, calls, err
}
