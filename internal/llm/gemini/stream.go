package gemini

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// stream puts an answer together from its chunks.
type stream struct {
	sink          llm.Sink
	model, id     string
	finish        string
	finishMessage string
	blocked       bool
	usage         usage
	parts         []wire.Object
	ids           wire.IDs
}

type chunk struct {
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		FinishReason  string `json:"finishReason"`
		FinishMessage string `json:"finishMessage"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage        *usage          `json:"usageMetadata"`
	ModelVersion string          `json:"modelVersion"`
	ResponseID   string          `json:"responseId"`
	Error        json.RawMessage `json:"error"`
}

// usage as the API reports it, in every chunk as a running total. Prompt includes what came from the cache; what tools
// of the provider read and what the model thought is counted apart.
type usage struct {
	Prompt     int `json:"promptTokenCount"`
	ToolPrompt int `json:"toolUsePromptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount"`
}

// receive takes one chunk. It reports whether the chunk is an error of the provider, and fails on a broken stream.
func (s *stream) receive(data []byte) (failed bool, err error) {
	if len(data) == 0 {
		return false, nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("read a chunk: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return true, nil
	}
	if s.model == "" {
		s.model = c.ModelVersion
	}
	if s.id == "" {
		s.id = c.ResponseID
	}
	if c.Usage != nil {
		s.usage = *c.Usage
	}
	if reason := c.PromptFeedback.BlockReason; reason != "" {
		s.finish, s.finishMessage, s.blocked = reason, c.PromptFeedback.BlockReasonMessage, true
	}
	for _, candidate := range c.Candidates {
		if candidate.Index != 0 {
			continue // only one answer was asked for
		}
		for _, part := range candidate.Content.Parts {
			if err := s.grow(part); err != nil {
				return false, err
			}
		}
		if candidate.FinishReason != "" {
			s.finish, s.finishMessage = candidate.FinishReason, candidate.FinishMessage
		}
	}
	return false, nil
}

// grow takes a part. Text goes on where the part before is text of the same kind and neither has more than that; so a
// signature stays where it was.
func (s *stream) grow(data json.RawMessage) error {
	p, err := wire.Decode(data)
	if err != nil || p == nil {
		return fmt.Errorf("read a part: not an object")
	}
	if text := p.String("text"); text != "" && s.sink != nil {
		if isThought(p) {
			s.sink(llm.Delta{Thinking: text})
		} else {
			s.sink(llm.Delta{Text: text})
		}
	}
	if last := len(s.parts) - 1; last >= 0 && isPlain(p) && isPlain(s.parts[last]) &&
		isThought(p) == isThought(s.parts[last]) {
		s.parts[last].Append("text", p.String("text"))
		return nil
	}
	s.parts = append(s.parts, p)
	return nil
}

func isThought(p wire.Object) bool { return p["thought"] == true }

// isPlain is whether a part has text and nothing else but whether it is a thought.
func isPlain(p wire.Object) bool {
	fields := 1
	if _, has := p["thought"]; has {
		fields++
	}
	switch p["text"].(type) {
	case string, *wire.Text:
		return len(p) == fields
	}
	return false
}

// answer is the whole of it, once a finish reason came.
func (s *stream) answer(errs wire.Provider, req llm.Request) (llm.Answer, error) {
	a := llm.Answer{Model: s.model, Provider: Provider}
	if a.Model == "" {
		a.Model = req.Model
	}
	for _, p := range s.parts {
		switch {
		case isThought(p):
			a.Thinking += p.String("text")
		default:
			a.Text += p.String("text")
		}
		if f, ok := p["functionCall"].(map[string]any); ok {
			a.Calls = append(a.Calls, s.settleCall(f))
		}
	}
	var err error
	if a.Finish, err = s.finished(len(a.Calls), a.Text != ""); err != nil {
		return llm.Answer{}, errs.Broken(context.Background(), err)
	}
	if a.Raw, err = wire.Marshal(content{Role: "model", Parts: asAny(s.parts)}); err != nil {
		return llm.Answer{}, fmt.Errorf("gemini: encode the answer: %w", err)
	}
	u := s.usage
	a.Usage = wire.Counted(req, a, llm.Usage{Input: max(u.Prompt, 0) + max(u.ToolPrompt, 0),
		Output: max(u.Candidates, 0) + max(u.Thoughts, 0), CachedInput: u.Cached})
	return a, nil
}

func asAny(parts []wire.Object) []any {
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return out
}

// settleCall gives a call what the API wants to see again: an id of its own, a name and an object as arguments.
func (s *stream) settleCall(f wire.Object) llm.Call {
	prefix := "call_"
	if s.id != "" {
		prefix = s.id + "_"
	}
	id := s.ids.Own(f.String("id"), prefix)
	f["id"] = id
	if f.String("name") == "" {
		f["name"] = wire.FitName("")
	}
	input, err := wire.Marshal(f["args"])
	if err != nil || f["args"] == nil {
		input = json.RawMessage("{}")
	}
	call := llm.Call{ID: id, Name: f.String("name"), Input: input}
	if text, ok := f["args"].(string); ok {
		call.Input = wire.AsJSON([]byte(text))
		input = call.Input
	}
	f["args"] = wire.AsObject(input)
	return call
}

// refusals are the finish reasons by which the model or its filter declined.
var refusals = map[string]bool{
	"SAFETY": true, "RECITATION": true, "LANGUAGE": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "SPII": true,
	"IMAGE_SAFETY": true, "IMAGE_PROHIBITED_CONTENT": true, "IMAGE_RECITATION": true,
}

// unusable are the finish reasons by which the model could not write its answer, such as a call; the same question may
// be answered well.
var unusable = map[string]bool{
	"MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true, "MALFORMED_RESPONSE": true,
	"MISSING_THOUGHT_SIGNATURE": true, "NO_IMAGE": true, "IMAGE_OTHER": true, "OTHER": true,
}

// finished says why the answer ended. A reason that we do not know is an error where nothing came with it.
func (s *stream) finished(calls int, said bool) (llm.Finish, error) {
	switch {
	case s.blocked, refusals[s.finish]:
		return llm.Refusal, nil
	case s.finish == "MAX_TOKENS":
		return llm.Length, nil
	case unusable[s.finish], s.finish != "STOP" && calls == 0 && !said:
		return "", fmt.Errorf("the answer ended with %.60q: %.200q", s.finish, s.finishMessage)
	case calls > 0:
		return llm.ToolUse, nil
	}
	return llm.Done, nil
}
