package openai

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// request is the body of POST /chat/completions. It is written here and not with the SDK's parameters so that raw
// messages and tools' schemas go out as they are.
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
	r := request{Model: req.Model, Stream: true, StreamOptions: streamOptions{IncludeUsage: true}, Temperature: req.Temperature}
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
	for i, m := range req.Messages {
		next, err := messages(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		r.Messages = append(r.Messages, next...)
	}
	return wire.Marshal(r)
}

func messages(m llm.Message) ([]any, error) {
	switch m.Role {
	case llm.User:
		return []any{textMessage{Role: "user", Content: &m.Text}}, nil
	case llm.Assistant:
		next, err := assistant(m)
		return []any{next}, err
	case llm.ToolResults:
		var out []any
		for _, r := range m.Results {
			output := r.Output
			if r.Failed {
				output = failedPrefix + output
			}
			out = append(out, textMessage{Role: "tool", Content: &output, ToolCallID: r.CallID})
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown role %q", m.Role)
}

func assistant(m llm.Message) (any, error) {
	if m.Provider == Provider && len(m.Raw) > 0 {
		if o, err := wire.Decode(m.Raw); err != nil || o == nil {
			return nil, errors.New("raw message is not an object")
		}
		return m.Raw, nil
	}
	next := textMessage{Role: "assistant"}
	if m.Text != "" || len(m.Calls) == 0 {
		next.Content = &m.Text
	}
	for _, c := range m.Calls {
		k := call{ID: c.ID, Type: "function"}
		k.Function.Name, k.Function.Arguments = c.Name, string(c.Input)
		next.ToolCalls = append(next.ToolCalls, k)
	}
	return next, nil
}
