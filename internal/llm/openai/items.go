package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// items puts an answer of the Responses API together. The items are taken whole, as the API sends each of them once
// more when it is done; the pieces before are for the sink.
type items struct {
	sink           llm.Sink
	text, thinking strings.Builder // that was told
	done           map[int]json.RawMessage
	last           *finalResponse
	ids            wire.IDs
}

type responsesEvent struct {
	Type        string          `json:"type"`
	OutputIndex int             `json:"output_index"`
	Item        json.RawMessage `json:"item"`
	Delta       json.RawMessage `json:"delta"`
	Response    json.RawMessage `json:"response"`
}

type finalResponse struct {
	Model      string            `json:"model"`
	Status     string            `json:"status"`
	Error      json.RawMessage   `json:"error"`
	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage struct {
		Input        int `json:"input_tokens"`
		Output       int `json:"output_tokens"`
		InputDetails struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

// maxItems is how many output items an answer may have.
const maxItems = 10_000

// whole implements listener.
func (s *items) whole() bool { return s.last != nil }

// ended implements listener.
func (s *items) ended() bool { return s.last != nil }

// receive implements listener. Events of kinds that we do not know change nothing.
func (s *items) receive(data []byte) (failed json.RawMessage, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("read an event: %w", err)
	}
	switch e.Type {
	case "error":
		return data, nil
	case "response.output_text.delta", "response.refusal.delta":
		return nil, s.emit(e.Delta, false)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return nil, s.emit(e.Delta, true)
	case "response.output_item.done":
		if e.OutputIndex < 0 || e.OutputIndex >= maxItems {
			return nil, errors.New("an output item with an invalid index")
		}
		if s.done == nil {
			s.done = map[int]json.RawMessage{}
		}
		s.done[e.OutputIndex] = e.Item
	case "response.completed", "response.incomplete", "response.failed":
		var r finalResponse
		if err := json.Unmarshal(e.Response, &r); err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		if e.Type == "response.failed" || r.Status == "failed" {
			return failure(r.Error), nil
		}
		if len(r.Output) > maxItems {
			return nil, errors.New("too many output items")
		}
		s.last = &r
	}
	return nil, nil
}

// failure is the error of a failed response in the form of an error event.
func failure(inner json.RawMessage) json.RawMessage {
	if len(inner) == 0 || string(inner) == "null" {
		inner = json.RawMessage(`{"code":"server_error","message":"the response failed"}`)
	}
	return slices.Concat(json.RawMessage(`{"error":`), inner, json.RawMessage(`}`))
}

func (s *items) emit(delta json.RawMessage, thought bool) error {
	var piece string
	if err := json.Unmarshal(delta, &piece); err != nil {
		return fmt.Errorf("read a delta: %w", err)
	}
	s.emitted(piece, thought)
	return nil
}

func (s *items) emitted(piece string, thought bool) {
	d := llm.Delta{Text: piece}
	if thought {
		d = llm.Delta{Thinking: piece}
		s.thinking.WriteString(piece)
	} else {
		s.text.WriteString(piece)
	}
	if s.sink != nil && piece != "" {
		s.sink(d)
	}
}

// answer implements listener.
func (s *items) answer(req llm.Request) (llm.Answer, error) {
	a := llm.Answer{Model: s.last.Model, Provider: ProviderResponses}
	if a.Model == "" {
		a.Model = req.Model
	}
	output := []any{}
	refused, thinking := false, ""
	for _, item := range s.whatCame() {
		o, err := wire.Decode(item)
		if err != nil || o == nil {
			return llm.Answer{}, &llm.Error{Class: llm.Transient, Err: errors.New("openai: an output item is not an object")}
		}
		switch o.String("type") {
		case "message":
			a.Text += outputText(o)
			refused = refused || hasRefusal(o)
		case "reasoning":
			thinking += thoughts(o)
		case "function_call":
			if s.settleItem(o) {
				if item, err = wire.Marshal(o); err != nil {
					return llm.Answer{}, fmt.Errorf("openai: encode the answer: %w", err)
				}
			}
			a.Calls = append(a.Calls, llm.Call{ID: o.String("call_id"), Name: o.String("name"),
				Input: wire.AsJSON([]byte(o.String("arguments")))})
		}
		output = append(output, item)
	}
	if rest, ok := strings.CutPrefix(a.Text, s.text.String()); ok && rest != "" {
		s.emitted(rest, false)
	}
	if rest, ok := strings.CutPrefix(thinking, s.thinking.String()); ok && rest != "" {
		s.emitted(rest, true)
	}
	a.Text, a.Thinking = s.text.String(), s.thinking.String()
	a.Finish = s.finished(len(a.Calls), refused)
	var err error
	if a.Raw, err = wire.Marshal(output); err != nil {
		return llm.Answer{}, fmt.Errorf("openai: encode the answer: %w", err)
	}
	u := s.last.Usage
	a.Usage = wire.Counted(req, a, llm.Usage{Input: u.Input, Output: u.Output, CachedInput: u.InputDetails.Cached})
	return a, nil
}

// whatCame are the items that are done, and of those that were cut the ones that the response has.
func (s *items) whatCame() []json.RawMessage {
	last := len(s.last.Output)
	for i := range s.done {
		last = max(last, i+1)
	}
	var out []json.RawMessage
	for i := range last {
		if item, ok := s.done[i]; ok {
			out = append(out, item)
		} else if i < len(s.last.Output) {
			out = append(out, s.last.Output[i])
		}
	}
	return out
}

func hasRefusal(item wire.Object) bool {
	parts, _ := item["content"].([]any)
	return slices.ContainsFunc(parts, func(p any) bool {
		o, _ := p.(map[string]any)
		return o["type"] == "refusal"
	})
}

func thoughts(item wire.Object) string {
	text := ""
	for _, field := range []string{"summary", "content"} {
		parts, _ := item[field].([]any)
		for _, p := range parts {
			o, _ := p.(map[string]any)
			text += wire.Object(o).String("text")
		}
	}
	return text
}

// settleItem gives a call an id of its own, a name and arguments where it has none. It reports whether it had to.
func (s *items) settleItem(o wire.Object) bool {
	changed := false
	if id := s.ids.Own(o.String("call_id"), "call_"); id != o.String("call_id") {
		o["call_id"], changed = id, true
	}
	for field, value := range map[string]string{"name": wire.FitName(""), "arguments": "{}"} {
		if o.String(field) == "" {
			o[field], changed = value, true
		}
	}
	return changed
}

func (s *items) finished(calls int, refused bool) llm.Finish {
	switch {
	case s.last.Incomplete.Reason == "content_filter", refused:
		return llm.Refusal
	case s.last.Status == "incomplete", s.last.Incomplete.Reason != "":
		return llm.Length
	case calls > 0:
		return llm.ToolUse
	}
	return llm.Done
}
