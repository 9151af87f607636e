package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// request is the body of POST /chat/completions. Raw messages and tools' schemas go out as they are.
type request struct {
	Model string `json:"model"`
	// MaxCompletionTokens is OpenAI's name of the output limit, MaxTokens that of compatible servers.
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	Temperature         *float64        `json:"temperature,omitempty"`
	Tools               []tool          `json:"tools,omitempty"`
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
	Messages            []any           `json:"messages"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type textMessage struct {
	Role       string  `json:"role"`
	Content    *string `json:"content"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
	ToolCalls  []call  `json:"tool_calls,omitempty"`
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	} `json:"function"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// failedPrefix marks the result of a failed call.
const failedPrefix = "The tool failed:\n"

func requestBody(req llm.Request, own bool) ([]byte, error) {
	r := request{Model: req.Model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true},
		Temperature: req.Temperature}
	limit := req.MaxOutputTokens
	if limit <= 0 {
		limit = llm.DefaultMaxOutputTokens
	}
	if own {
		r.MaxCompletionTokens = limit
	} else {
		r.MaxTokens = limit
	}
	for _, t := range req.Tools {
		next := tool{Type: "function"}
		next.Function.Name, next.Function.Description, next.Function.Parameters = t.Name, t.Description, t.Input
		r.Tools = append(r.Tools, next)
	}
	if len(req.Schema) > 0 {
		r.ResponseFormat = &responseFormat{Type: "json_schema"}
		r.ResponseFormat.JSONSchema.Name = "answer"
		r.ResponseFormat.JSONSchema.Schema = req.Schema
	}
	if req.System != "" {
		r.Messages = append(r.Messages, textMessage{Role: "system", Content: &req.System})
	}
	history, err := wire.Settle(req.Messages, Provider, ownMessage)
	if err != nil {
		return nil, err
	}
	for _, m := range wire.Lift(history) {
		r.Messages = append(r.Messages, messages(m)...)
	}
	return wire.Marshal(r)
}

func messages(m llm.Message) []any {
	switch m.Role {
	case llm.User:
		if len(m.Images) > 0 {
			return []any{pictureMessage(m)}
		}
		return []any{textMessage{Role: "user", Content: &m.Text}}
	case llm.ToolResults:
		var out []any
		for _, r := range m.Results {
			output := outputOf(r)
			out = append(out, textMessage{Role: "tool", Content: &output, ToolCallID: r.CallID})
		}
		return out
	case llm.Assistant:
		if m.Raw != nil {
			return []any{m.Raw}
		}
	}
	next := textMessage{Role: "assistant"}
	if m.Text != "" {
		next.Content = &m.Text
	}
	for _, c := range m.Calls {
		k := call{ID: c.ID, Type: "function"}
		k.Function.Name, k.Function.Arguments = c.Name, string(c.Input)
		next.ToolCalls = append(next.ToolCalls, k)
	}
	return []any{next}
}

func outputOf(r llm.Result) string {
	if r.Failed {
		return failedPrefix + r.Output
	}
	return r.Output
}

func pictureMessage(m llm.Message) any {
	type url struct {
		URL string `json:"url"`
	}
	type part struct {
		Type     string `json:"type"`
		Text     string `json:"text,omitempty"`
		ImageURL *url   `json:"image_url,omitempty"`
	}
	var parts []part
	for _, i := range m.Images {
		parts = append(parts, part{Type: "image_url", ImageURL: &url{URL: dataURL(i)}})
	}
	if m.Text != "" {
		parts = append(parts, part{Type: "text", Text: m.Text})
	}
	return struct {
		Role    string `json:"role"`
		Content []part `json:"content"`
	}{"user", parts}
}

func dataURL(i llm.Image) string {
	return "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
}

// ownMessage reads an assistant message that the server sent. One that says and asks nothing, as where only its
// thoughts came before the limit, is left out.
func ownMessage(raw json.RawMessage) (json.RawMessage, []llm.Call, error) {
	o, err := wire.Decode(raw)
	if err != nil || o == nil {
		return nil, nil, errors.New("raw message is not an object")
	}
	var calls []llm.Call
	list, _ := o["tool_calls"].([]any)
	for _, c := range list {
		k, _ := c.(map[string]any)
		f, _ := k["function"].(map[string]any)
		calls = append(calls, llm.Call{ID: wire.Object(k).String("id"), Name: wire.Object(f).String("name")})
	}
	text, isText := o["content"].(string)
	said := o["content"] != nil && (!isText || strings.TrimSpace(text) != "")
	if !said && len(calls) == 0 && o.String("refusal") == "" {
		return nil, nil, nil
	}
	return raw, calls, nil
}
