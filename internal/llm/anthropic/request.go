package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// request is the body of POST /v1/messages. It is written here and not with the SDK's parameters so that raw content
// and tools' schemas go out as they are.
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

type toolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content,omitempty"`
	IsError   bool   `json:"is_error,omitempty"`
	Cache     *cache `json:"cache_control,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
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

// markPrefix asks the provider to cache what the next turn will send again: the system prompt with the tools before
// it, and the conversation so far. A single question without tools is not asked again and costs no cache.
func (r *request) markPrefix() {
	if len(r.Messages) < 2 && len(r.Tools) == 0 {
		return
	}
	mark := &cache{Type: "ephemeral"}
	if len(r.System) > 0 {
		r.System[0].Cache = mark
	}
	if len(r.Messages) == 0 {
		return
	}
	content := r.Messages[len(r.Messages)-1].Content
	switch b := content[len(content)-1].(type) {
	case *textBlock:
		b.Cache = mark
	case *toolResult:
		b.Cache = mark
	}
}

func messages(from []llm.Message) ([]message, error) {
	var out []message
	foreign := false // the last assistant message came from another provider
	for i, m := range from {
		next := message{Role: "user"}
		switch m.Role {
		case llm.User:
			next.Content = []any{&textBlock{Type: "text", Text: m.Text}}
		case llm.Assistant:
			next.Role = "assistant"
			foreign = m.Provider != Provider || len(m.Raw) == 0
			content, err := assistantContent(m, foreign)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			next.Content = content
		case llm.ToolResults:
			for _, r := range m.Results {
				next.Content = append(next.Content, &toolResult{Type: "tool_result", ToolUseID: wireID(r.CallID, foreign),
					Content: r.Output, IsError: r.Failed})
			}
		default:
			return nil, fmt.Errorf("message %d: unknown role %q", i, m.Role)
		}
		if len(next.Content) > 0 { // the API refuses a message without content
			out = append(out, next)
		}
	}
	return out, nil
}

func assistantContent(m llm.Message, foreign bool) ([]any, error) {
	var out []any
	if !foreign {
		var blocks []json.RawMessage
		if err := json.Unmarshal(m.Raw, &blocks); err != nil {
			return nil, fmt.Errorf("raw content is not an array: %w", err)
		}
		for _, b := range blocks {
			if !isEmptyText(b) {
				out = append(out, b)
			}
		}
		return out, nil
	}
	if strings.TrimSpace(m.Text) != "" {
		out = append(out, &textBlock{Type: "text", Text: m.Text})
	}
	for _, c := range m.Calls {
		out = append(out, toolUse{Type: "tool_use", ID: wireID(c.ID, true), Name: c.Name, Input: asObject(c.Input)})
	}
	return out, nil
}

func isEmptyText(b json.RawMessage) bool {
	var t textBlock
	return json.Unmarshal(b, &t) == nil && t.Type == "text" && strings.TrimSpace(t.Text) == ""
}

// wireID makes another provider's call id fit the API's alphabet.
func wireID(id string, foreign bool) string {
	if !foreign {
		return id
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '_'
	}, id)
}

// outputFormat asks for a document of schema, reduced to the part of JSON Schema that the API enforces.
func outputFormat(schema json.RawMessage) (*outputConfig, error) {
	var s map[string]any
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema is not an object: %w", err)
	}
	c := &outputConfig{}
	c.Format.Type = "json_schema"
	c.Format.Schema = sdk.BetaJSONSchemaOutputFormat(s).Schema
	return c, nil
}
