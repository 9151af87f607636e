package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// stream puts an answer together from its chunks.
type stream struct {
	sink    llm.Sink
	model   string
	finish  string
	usage   usage
	message wire.Object
	calls   []wire.Object
	byIndex map[int64]wire.Object
}

type chunk struct {
	// Object is "error" in the errors of some servers, which have no error field.
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Usage   *usage          `json:"usage"`
	Choices []struct {
		Index        int             `json:"index"`
		Delta        json.RawMessage `json:"delta"`
		FinishReason *string         `json:"finish_reason"`
	} `json:"choices"`
}

type usage struct {
	Prompt        int `json:"prompt_tokens"`
	Completion    int `json:"completion_tokens"`
	PromptDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	// CacheHit is DeepSeek's name of the cached tokens.
	CacheHit int `json:"prompt_cache_hit_tokens"`
}

func newStream(sink llm.Sink) *stream {
	return &stream{sink: sink, message: wire.Object{"role": "assistant"}, byIndex: map[int64]wire.Object{}}
}

// whole implements listener.
func (s *stream) whole() bool { return s.finish != "" }

// ended implements listener: the usage may come after the finish reason.
func (s *stream) ended() bool { return false }

// receive implements listener.
func (s *stream) receive(data []byte) (failed json.RawMessage, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("read a chunk: %w", err)
	}
	if c.Object == "error" || len(c.Error) > 0 && string(c.Error) != "null" {
		return data, nil
	}
	if s.model == "" {
		s.model = c.Model
	}
	if c.Usage != nil {
		s.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // only one answer was asked for
		}
		if err := s.grow(choice.Delta); err != nil {
			return nil, err
		}
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			s.finish = *choice.FinishReason
		}
	}
	return nil, nil
}

// thinkingFields are the names that compatible servers have for the text of reasoning.
var thinkingFields = []string{"reasoning_content", "reasoning"}

func (s *stream) grow(delta json.RawMessage) error {
	if len(delta) == 0 {
		return nil
	}
	d, err := wire.Decode(delta)
	if err != nil {
		return fmt.Errorf("read a delta: %w", err)
	}
	calls, _ := d["tool_calls"].([]any)
	delete(d, "tool_calls")
	for _, c := range calls {
		if o, ok := c.(map[string]any); ok {
			s.growCall(o)
		}
	}
	for _, field := range thinkingFields {
		if text := d.String(field); text != "" {
			s.emit(llm.Delta{Thinking: text})
			break // a server that sends both sends the same text twice
		}
	}
	if text := d.String("content"); text != "" {
		s.emit(llm.Delta{Text: text})
	}
	if text := d.String("refusal"); text != "" {
		s.emit(llm.Delta{Text: text})
	}
	s.message.Merge(d)
	return nil
}

// growCall finds the call that a piece belongs to: by its index; but some servers give every call the index 0 or none,
// and a new id is a new call then.
func (s *stream) growCall(piece wire.Object) {
	id := piece.String("id")
	var call wire.Object
	index, indexed := int64(0), false
	if n, ok := piece["index"].(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			index, indexed = i, true
			call = s.byIndex[i]
		}
	} else if len(s.calls) > 0 {
		call = s.calls[len(s.calls)-1]
	}
	if call != nil && id != "" && call.String("id") != "" && call.String("id") != id {
		call = nil
	}
	if call == nil {
		call = wire.Object{}
		s.calls = append(s.calls, call)
		if indexed {
			s.byIndex[index] = call
		}
	}
	delete(piece, "index")
	call.Merge(piece)
}

func (s *stream) emit(d llm.Delta) {
	if s.sink != nil {
		s.sink(d)
	}
}

// answer is the whole of it, once a finish reason came.
func (s *stream) answer(req llm.Request) (llm.Answer, error) {
	a := llm.Answer{Model: s.model, Provider: Provider, Text: s.message.String("content")}
	if a.Model == "" {
		a.Model = req.Model
	}
	for _, field := range thinkingFields {
		if a.Thinking = s.message.String(field); a.Thinking != "" {
			break
		}
	}
	refusal := s.message.String("refusal")
	a.Text += refusal
	a.Calls = s.settleCalls()
	if _, has := s.message["content"]; !has {
		s.message["content"] = nil
		if len(s.calls) == 0 && refusal == "" {
			s.message["content"] = ""
		}
	}
	if len(s.calls) > 0 {
		s.message["tool_calls"] = s.calls
	}
	a.Finish = finish(s.finish, len(a.Calls), refusal != "")
	var err error
	if a.Raw, err = wire.Marshal(s.message); err != nil {
		return llm.Answer{}, fmt.Errorf("openai: encode the answer: %w", err)
	}
	u := s.usage
	a.Usage = wire.Counted(req, a, llm.Usage{Input: u.Prompt, Output: u.Completion,
		CachedInput: max(u.PromptDetails.Cached, u.CacheHit)})
	return a, nil
}

// settleCalls gives every call what the API wants to see again: an id of its own, a type, a name and arguments.
func (s *stream) settleCalls() []llm.Call {
	var out []llm.Call
	var ids wire.IDs
	for _, c := range s.calls {
		id := ids.Own(c.String("id"), "call_")
		if id != c.String("id") {
			c["id"] = id
		}
		if c.String("type") == "" {
			c["type"] = "function"
		}
		f, ok := c["function"].(wire.Object)
		if !ok {
			f = wire.Object{}
			c["function"] = f
		}
		if f.String("name") == "" {
			f["name"] = wire.FitName("") // no tool has it, which tells the model
		}
		out = append(out, llm.Call{ID: id, Name: f.String("name"), Input: arguments(f)})
	}
	return slices.Clip(out)
}

// arguments reads the arguments of a call, which come as JSON text; a few servers send them as an object.
func arguments(f wire.Object) json.RawMessage {
	text := f.String("arguments")
	if o, ok := f["arguments"].(wire.Object); ok {
		if b, err := wire.Marshal(o); err == nil {
			text = string(b)
		}
	}
	if text == "" {
		text = "{}"
	}
	f["arguments"] = text
	return wire.AsJSON([]byte(text))
}

func finish(reason string, calls int, refused bool) llm.Finish {
	switch {
	case reason == "length":
		return llm.Length
	case reason == "content_filter", refused:
		return llm.Refusal
	case calls > 0: // also where the reason is "stop", as some servers say
		return llm.ToolUse
	}
	return llm.Done
}
