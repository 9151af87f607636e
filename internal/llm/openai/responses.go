package openai

import (
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
	"github.com/inspan/inspan/internal/pattern"
)

// responsesRequest is the body of POST /responses.
type responsesRequest struct {
	Model           string       `json:"model"`
	Instructions    string       `json:"instructions,omitempty"`
	Input           []any        `json:"input"`
	MaxOutputTokens int          `json:"max_output_tokens"`
	Stream          bool         `json:"stream"`
	Store           bool         `json:"store"`
	Include         []string     `json:"include,omitempty"`
	Temperature     *float64     `json:"temperature,omitempty"`
	Tools           []flatTool   `json:"tools,omitempty"`
	Text            *textOptions `json:"text,omitempty"`
}

type flatTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	// Strict is said, because the API is strict where nothing is.
	Strict bool `json:"strict"`
}

type textOptions struct {
	Format struct {
		Type   string          `json:"type"`
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	} `json:"format"`
}

type inputMessage struct {
	Type    string      `json:"type"`
	Role    string      `json:"role"`
	Content []inputPart `json:"content"`
}

type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

type callItem struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type outputItem struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	// Output is a text, or parts where there are images.
	Output any `json:"output"`
}

// plain are the models that do not reason; they refuse to be asked for reasoning.
var plain = pattern.New(`^(ft:)?(gpt-3|gpt-4|chatgpt-)|-chat\b`)

func responsesBody(req llm.Request) ([]byte, error) {
	r := responsesRequest{Model: req.Model, Instructions: req.System, MaxOutputTokens: req.MaxOutputTokens, Stream: true,
		Temperature: req.Temperature, Input: []any{}}
	if r.MaxOutputTokens <= 0 {
		r.MaxOutputTokens = llm.DefaultMaxOutputTokens
	}
	if !plain.MatchString(req.Model) {
		r.Include = []string{"reasoning.encrypted_content"}
	}
	for _, t := range req.Tools {
		next := flatTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Input}
		if len(t.Input) == 0 {
			next.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		r.Tools = append(r.Tools, next)
	}
	if len(req.Schema) > 0 {
		r.Text = &textOptions{}
		r.Text.Format.Type, r.Text.Format.Name, r.Text.Format.Schema = "json_schema", "answer", req.Schema
	}
	history, err := wire.Settle(req.Messages, ProviderResponses, ownItems)
	if err != nil {
		return nil, err
	}
	for _, m := range history {
		next, err := inputOf(m)
		if err != nil {
			return nil, err
		}
		r.Input = append(r.Input, next...)
	}
	return wire.Marshal(r)
}

func inputOf(m llm.Message) ([]any, error) {
	var out []any
	switch m.Role {
	case llm.User:
		next := inputMessage{Type: "message", Role: "user", Content: pictures(m.Images)}
		if m.Text != "" {
			next.Content = append(next.Content, inputPart{Type: "input_text", Text: m.Text})
		}
		out = append(out, next)
	case llm.ToolResults:
		for _, r := range m.Results {
			item := outputItem{Type: "function_call_output", CallID: r.CallID, Output: outputOf(r)}
			if len(r.Images) > 0 {
				parts := []inputPart{}
				if text := outputOf(r); text != "" {
					parts = append(parts, inputPart{Type: "input_text", Text: text})
				}
				item.Output = append(parts, pictures(r.Images)...)
			}
			out = append(out, item)
		}
	case llm.Assistant:
		if m.Raw != nil {
			var own []json.RawMessage
			if err := json.Unmarshal(m.Raw, &own); err != nil {
				return nil, err
			}
			for _, item := range own {
				out = append(out, item)
			}
			break
		}
		if m.Text != "" {
			out = append(out, inputMessage{Type: "message", Role: "assistant",
				Content: []inputPart{{Type: "output_text", Text: m.Text}}})
		}
		for _, c := range m.Calls {
			out = append(out, callItem{Type: "function_call", CallID: c.ID, Name: c.Name, Arguments: string(c.Input)})
		}
	}
	return out, nil
}

func pictures(from []llm.Image) []inputPart {
	var out []inputPart
	for _, i := range from {
		out = append(out, inputPart{Type: "input_image", ImageURL: dataURL(i)})
	}
	return out
}

// ownItems reads the output items that the API sent. What the API refuses is left out: messages without content,
// reasoning that nothing follows, and reasoning that did not come encrypted, which only a server that stores could
// read; the items that were made with it lose their ids then, by which the API would miss it.
func ownItems(raw json.RawMessage) (json.RawMessage, []llm.Call, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, nil, fmt.Errorf("raw output is not an array: %w", err)
	}
	var kept []any
	var calls []llm.Call
	end, forgotten := 0, false
	for _, item := range items {
		o, err := wire.Decode(item)
		if err != nil || o == nil {
			return nil, nil, fmt.Errorf("raw output has an item that is not an object")
		}
		kind := o.String("type")
		if kind == "reasoning" && o.String("encrypted_content") == "" {
			forgotten = true
			continue
		}
		if kind == "message" && outputText(o) == "" {
			continue
		}
		if kind == "function_call" {
			calls = append(calls, llm.Call{ID: o.String("call_id"), Name: o.String("name")})
		}
		if forgotten && kind != "reasoning" {
			delete(o, "id")
			kept = append(kept, o)
		} else {
			kept = append(kept, item)
		}
		if kind != "reasoning" {
			end = len(kept)
		}
	}
	switch {
	case end == 0:
		return nil, nil, nil
	case end == len(items):
		return raw, calls, nil
	}
	out, err := wire.Marshal(kept[:end])
	return out, calls, err
}

// outputText is the text of a message item, with its refusals.
func outputText(item wire.Object) string {
	text := ""
	parts, _ := item["content"].([]any)
	for _, p := range parts {
		o, _ := p.(map[string]any)
		text += wire.Object(o).String("text") + wire.Object(o).String("refusal")
	}
	return text
}
