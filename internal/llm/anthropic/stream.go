package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/wire"
)

// stream puts an answer together from its events.
type stream struct {
	sink    llm.Sink
	model   string
	stop    string
	usage   usage
	blocks  []*block
	byIndex map[int64]*block
	stopped bool
}

// block is one content block that grows. Its input comes as pieces of JSON text beside it.
type block struct {
	wire.Object
	input []byte
}

type event struct {
	Type    string `json:"type"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Index        int64           `json:"index"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        json.RawMessage `json:"delta"`
	Usage        usage           `json:"usage"`
}

// usage as the API reports it: the parts of the input add up. Nil is not reported.
type usage struct {
	Input         *int `json:"input_tokens"`
	CacheCreation *int `json:"cache_creation_input_tokens"`
	CacheRead     *int `json:"cache_read_input_tokens"`
	Output        *int `json:"output_tokens"`
}

// update takes what a later event reported; its counts are totals, not differences.
func (u *usage) update(later usage) {
	for _, f := range []struct{ to, from **int }{
		{&u.Input, &later.Input}, {&u.CacheCreation, &later.CacheCreation},
		{&u.CacheRead, &later.CacheRead}, {&u.Output, &later.Output},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
}

func count(n *int) int {
	if n == nil {
		return 0
	}
	return max(*n, 0)
}

func newStream(sink llm.Sink) *stream {
	return &stream{sink: sink, byIndex: map[int64]*block{}}
}

// receive takes one event. It reports whether the event is an error of the provider, and fails on a broken stream.
// Events of kinds that we do not know change nothing, as the API's versioning asks of clients.
func (s *stream) receive(data []byte) (failed bool, err error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return false, nil
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("read an event: %w", err)
	}
	switch e.Type {
	case "error":
		return true, nil
	case "message_start":
		s.model = e.Message.Model
		s.usage.update(e.Message.Usage)
	case "content_block_start":
		return false, s.startBlock(e)
	case "content_block_delta":
		return false, s.growBlock(e)
	case "message_delta":
		s.usage.update(e.Usage)
		return false, s.endReason(e.Delta)
	case "message_stop":
		s.stopped = true
	}
	return false, nil
}

func (s *stream) startBlock(e event) error {
	o, err := wire.Decode(e.ContentBlock)
	if err != nil || o == nil {
		return fmt.Errorf("read a content block: not an object")
	}
	if s.byIndex[e.Index] != nil {
		return fmt.Errorf("content block %d began twice", e.Index)
	}
	b := &block{Object: o}
	s.byIndex[e.Index] = b
	s.blocks = append(s.blocks, b)
	switch b.String("type") {
	case "text":
		s.emit(llm.Delta{Text: b.String("text")})
	case "thinking":
		s.emit(llm.Delta{Thinking: b.String("thinking")})
	}
	return nil
}

func (s *stream) growBlock(e event) error {
	b := s.byIndex[e.Index]
	if b == nil {
		return fmt.Errorf("a delta of content block %d, which never began", e.Index)
	}
	d, err := wire.Decode(e.Delta)
	if err != nil {
		return fmt.Errorf("read a delta: %w", err)
	}
	switch d.String("type") {
	case "input_json_delta":
		b.input = append(b.input, d.String("partial_json")...)
		return nil
	case "citations_delta":
		b.Merge(wire.Object{"citations": []any{d["citation"]}})
		return nil
	case "text_delta":
		s.emit(llm.Delta{Text: d.String("text")})
	case "thinking_delta":
		s.emit(llm.Delta{Thinking: d.String("thinking")})
	}
	delete(d, "type")
	b.Merge(d)
	return nil
}

func (s *stream) endReason(delta json.RawMessage) error {
	var d struct {
		StopReason *string `json:"stop_reason"`
	}
	if len(delta) == 0 {
		return nil
	}
	if err := json.Unmarshal(delta, &d); err != nil {
		return fmt.Errorf("read the stop reason: %w", err)
	}
	if d.StopReason != nil {
		s.stop = *d.StopReason
	}
	return nil
}

func (s *stream) emit(d llm.Delta) {
	if s.sink != nil && d != (llm.Delta{}) {
		s.sink(d)
	}
}

// answer is the whole of it, once message_stop came.
func (s *stream) answer(req llm.Request) (llm.Answer, error) {
	a := llm.Answer{Model: s.model, Provider: Provider}
	if a.Model == "" {
		a.Model = req.Model
	}
	var ids wire.IDs
	content := make([]wire.Object, 0, len(s.blocks))
	for _, b := range s.blocks {
		input := b.settleInput()
		switch b.String("type") {
		case "text":
			a.Text += b.String("text")
		case "thinking":
			a.Thinking += b.String("thinking")
		case "tool_use":
			id := ids.Own(b.String("id"), "call_")
			if id != b.String("id") {
				b.Object["id"] = id
			}
			a.Calls = append(a.Calls, llm.Call{ID: id, Name: b.String("name"), Input: input})
		}
		content = append(content, b.Object)
	}
	a.Finish = finish(s.stop, len(a.Calls))
	var err error
	if a.Raw, err = wire.Marshal(content); err != nil {
		return llm.Answer{}, fmt.Errorf("anthropic: encode the answer: %w", err)
	}
	u := s.usage
	a.Usage = wire.Counted(req, a, llm.Usage{Input: count(u.Input) + count(u.CacheCreation) + count(u.CacheRead),
		Output: count(u.Output), CachedInput: count(u.CacheRead),
		CacheWrite: count(u.CacheCreation)})
	return a, nil
}

// settleInput puts the streamed input into the block and returns it as a call's input. The API takes only objects
// back, so that anything else is wrapped in one there, in the way that Anthropic's documentation of fine-grained tool
// streaming names.
func (b *block) settleInput() json.RawMessage {
	text := bytes.TrimSpace(b.input)
	if len(text) == 0 {
		if _, has := b.Object["input"]; !has && b.String("type") == "tool_use" {
			b.Object["input"] = wire.Object{}
		}
		input, err := wire.Marshal(b.Object["input"])
		if err != nil {
			return json.RawMessage("{}")
		}
		return input
	}
	input := wire.AsJSON(text)
	b.Object["input"] = wire.AsObject(input)
	return input
}

func finish(stop string, calls int) llm.Finish {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return llm.Length
	case "refusal":
		return llm.Refusal
	}
	if calls > 0 {
		return llm.ToolUse
	}
	return llm.Done
}
