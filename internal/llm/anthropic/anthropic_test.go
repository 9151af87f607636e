package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/anthropic"
	"github.com/inspan/inspan/internal/llm/llmtest"
)

func TestExam(t *testing.T) {
	t.Parallel()
	llmtest.Exam(t, dialect{})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"", "/proxy", "/a%2Fb"} {
		llmtest.Address(t, dialect{}, "claude-x", below, "POST "+below+"/v1/messages", "Accept: text/event-stream",
			"Anthropic-Version: 2023-06-01", "Content-Type: application/json", "User-Agent: inspan", "X-Api-Key: "+llmtest.Key)
	}
}

// dialect is the Messages API as its documentation describes the stream.
type dialect struct{}

func (dialect) Name() string { return "anthropic" }

func (dialect) New(baseURL, key string) (llm.Model, error) {
	m, err := anthropic.New(anthropic.Config{APIKey: key, BaseURL: baseURL})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func frame(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fields)
}

// block is the frames of one content block.
func block(index int, start string, deltas ...string) []string {
	out := []string{frame("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, index, start))}
	for _, d := range deltas {
		out = append(out, frame("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, index, d)))
	}
	return append(out, frame("content_block_stop", fmt.Sprintf(`,"index":%d`, index)))
}

func begin(usage string) string {
	return frame("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":null`+usage+`}`)
}

func end(reason, usage string) []string {
	return []string{frame("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null}%s`, reason, usage)), frame("message_stop", "")}
}

func deltas(kind, field string, pieces []string) []string {
	var out []string
	for _, p := range pieces {
		out = append(out, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, field, quote(p)))
	}
	return out
}

func (dialect) Frames(a llmtest.Completion) ([]string, int) {
	first, last := "", ""
	if u := a.Usage; u != nil {
		// 6 tokens were written to the cache; the API counts the three kinds of input apart.
		first = fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":6,"cache_read_input_tokens":%d,"output_tokens":1}`,
			u.Input-u.CachedInput-6, u.CachedInput)
		last = fmt.Sprintf(`,"usage":{"output_tokens":%d}`, u.Output)
	}
	out := []string{begin(first), frame("ping", "")}
	n := 0
	add := func(start string, ds ...string) { out = append(out, block(n, start, ds...)...); n++ }
	if a.Thinking != nil {
		add(`{"type":"thinking","thinking":"","signature":""}`,
			append(deltas("thinking_delta", "thinking", a.Thinking), `{"type":"signature_delta","signature":"c2lnbmF0dXJl+/=="}`)...)
	}
	if a.Text != nil {
		add(`{"type":"text","text":""}`, deltas("text_delta", "text", a.Text)...)
	}
	for _, c := range a.Calls {
		add(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.ID, c.Name), deltas("input_json_delta", "partial_json", c.Parts)...)
	}
	reason := map[llm.Finish]string{llm.Done: "end_turn", llm.ToolUse: "tool_use", llm.Length: "max_tokens", llm.Refusal: "refusal"}[a.Finish]
	out = append(out, end(reason, last)...)
	return out, len(out)
}

var troubleTypes = map[llmtest.Fault]string{
	llmtest.BadRequest: "invalid_request_error", llmtest.LongPrompt: "invalid_request_error", llmtest.BadKey: "authentication_error",
	llmtest.NoModel: "not_found_error", llmtest.NoCredit: "billing_error", llmtest.TooMany: "rate_limit_error",
	llmtest.Overloaded: "overloaded_error", llmtest.Internal: "api_error",
}

func (dialect) ErrorBody(t llmtest.Fault, message string) string {
	if t == llmtest.LongPrompt {
		message = "prompt is too long: 208310 tokens > 200000 maximum"
	}
	if t == llmtest.NoCredit {
		return fmt.Sprintf(`{"type":"error","error":{"type":"rate_limit_error","code":"insufficient_quota","message":%s}}`, quote(message))
	}
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, troubleTypes[t], quote(message))
}

func (d dialect) ErrorFrame(t llmtest.Fault) string {
	if t == llmtest.NoCredit {
		return "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"pay\"}}\n\n"
	}
	return "event: error\ndata: " + d.ErrorBody(t, "said in the stream") + "\n\n"
}

type body struct {
	Model        string                        `json:"model"`
	MaxTokens    int                           `json:"max_tokens"`
	Stream       bool                          `json:"stream"`
	Temperature  *float64                      `json:"temperature"`
	System       []struct{ Type, Text string } `json:"system"`
	OutputConfig *struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	} `json:"output_config"`
	Tools []struct {
		Name, Description string
		InputSchema       json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Messages []struct {
		Role    string
		Content json.RawMessage
	} `json:"messages"`
}

type contentBlock struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
	Content              json.RawMessage
	IsError              bool `json:"is_error"`
	Source               struct {
		MediaType string `json:"media_type"`
		Data      []byte
	}
}

// result reads the content of a tool_result: a text, or blocks.
func (c contentBlock) result() (llm.Result, error) {
	r := llm.Result{CallID: c.ToolUseID, Failed: c.IsError}
	if len(c.Content) == 0 || json.Unmarshal(c.Content, &r.Output) == nil {
		return r, nil
	}
	var blocks []contentBlock
	if err := json.Unmarshal(c.Content, &blocks); err != nil {
		return r, err
	}
	for _, b := range blocks {
		if r.Output += b.Text; b.Type == "image" {
			r.Images = append(r.Images, llm.Image{MediaType: b.Source.MediaType, Data: b.Source.Data})
		}
	}
	return r, nil
}

func (dialect) Received(b []byte) (llmtest.Request, error) {
	var r body
	if err := json.Unmarshal(b, &r); err != nil {
		return llmtest.Request{}, err
	}
	h := llmtest.Request{Model: r.Model, MaxTokens: r.MaxTokens, Temperature: r.Temperature, Stream: r.Stream}
	for _, s := range r.System {
		h.System += s.Text
	}
	for _, t := range r.Tools {
		h.Tools = append(h.Tools, llm.Tool{Name: t.Name, Description: t.Description, Input: t.InputSchema})
	}
	if r.OutputConfig != nil {
		h.HasSchema = r.OutputConfig.Format.Type == "json_schema" && strings.Contains(string(r.OutputConfig.Format.Schema), `"additionalProperties":false`)
	}
	for _, m := range r.Messages {
		next := llm.Message{Role: llm.Role(m.Role), Raw: m.Content}
		var blocks []contentBlock
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
			return h, err
		}
		for _, c := range blocks {
			switch c.Type {
			case "text":
				next.Text += c.Text
			case "tool_use":
				next.Calls = append(next.Calls, llm.Call{ID: c.ID, Name: c.Name, Input: c.Input})
			case "tool_result":
				r, err := c.result()
				if err != nil {
					return h, err
				}
				next.Results = append(next.Results, r)
			case "image":
				next.Images = append(next.Images, llm.Image{MediaType: c.Source.MediaType, Data: c.Source.Data})
			}
		}
		h.Messages = append(h.Messages, next)
	}
	return h, nil
}

func newModel(t *testing.T, s *llmtest.Server) llm.Model {
	t.Helper()
	m, err := dialect{}.New(s.URL, llmtest.Key)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hello() llm.Request {
	return llm.Request{Model: "claude-x", Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

func TestRawKeepsWhatWeDoNotKnow(t *testing.T) {
	t.Parallel()
	frames := join([]string{begin(`,"usage":{"input_tokens":3,"output_tokens":1}`)},
		block(0, `{"type":"thinking","thinking":"","signature":""}`,
			`{"type":"thinking_delta","thinking":"hm"}`, `{"type":"signature_delta","signature":"EqQB/+a="}`),
		block(1, `{"type":"redacted_thinking","data":"b64<>&=="}`),
		block(2, `{"type":"text","text":"A","citations":null,"new_field":{"n":1.50,"big":12345678901234567890}}`,
			`{"type":"text_delta","text":"B"}`, `{"type":"citations_delta","citation":{"type":"char_location","start_char_index":0}}`,
			`{"type":"citations_delta","citation":{"type":"odd"}}`),
		block(3, `{"type":"server_tool_use","id":"srv_1","name":"web","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"q\":1e2}"}`),
		block(4, `{"type":"from_the_future","state":{"a":[1,null,"x"]}}`, `{"type":"future_delta","words":"one "}`, `{"type":"future_delta","words":"two"}`),
		[]string{frame("an_event_of_the_future", `,"index":99,"delta":{}`)},
		block(5, `{"type":"tool_use","id":"t1","name":"list","input":{},"caller":{"type":"direct"}}`),
		block(6, `{"type":"text","text":""}`),
		end("tool_use", `,"usage":{"output_tokens":9}`))
	want := `[
		{"type":"thinking","thinking":"hm","signature":"EqQB/+a="},
		{"type":"redacted_thinking","data":"b64<>&=="},
		{"type":"text","text":"AB","citations":[{"type":"char_location","start_char_index":0},{"type":"odd"}],"new_field":{"n":1.50,"big":12345678901234567890}},
		{"type":"server_tool_use","id":"srv_1","name":"web","input":{"q":1e2}},
		{"type":"from_the_future","state":{"a":[1,null,"x"]},"words":"one two"},
		{"type":"tool_use","id":"t1","name":"list","input":{},"caller":{"type":"direct"}},
		{"type":"text","text":""}]`
	s := llmtest.Serve(t, llmtest.Stream(frames...))
	m := newModel(t, s)
	req := hello()
	a := llmtest.Sound(t, m, req)

	t.Run("PLUS-2 signatures, unknown blocks and unknown fields stay in Raw", func(t *testing.T) {
		if !llmtest.SameJSON(a.Raw, []byte(want)) {
			t.Errorf("got %s\nwant %s", a.Raw, want)
		}
		if a.Text != "AB" || a.Thinking != "hm" || len(a.Calls) != 1 || a.Calls[0].ID != "t1" || string(a.Calls[0].Input) != "{}" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("PLUS-2 they go back, without the empty text that the API refuses", func(t *testing.T) {
		req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Raw: a.Raw, Provider: a.Provider},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "t1"}}})
		if _, err := m.Ask(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		h, err := dialect{}.Received(s.Body(2))
		if err != nil {
			t.Fatal(err)
		}
		without := strings.Replace(want, `,
		{"type":"text","text":""}`, "", 1)
		if !llmtest.SameJSON(h.Messages[1].Raw, []byte(without)) {
			t.Errorf("got %s", h.Messages[1].Raw)
		}
		if got := string(h.Messages[2].Raw); got != `[{"type":"tool_result","tool_use_id":"t1","cache_control":{"type":"ephemeral"}}]` {
			t.Errorf("got %s, want no empty content and the mark of the prefix", got)
		}
	})
}

func TestMessagesThatTheAPIWouldRefuse(t *testing.T) {
	t.Parallel()
	s := llmtest.Serve(t, llmtest.Stream(join([]string{begin("")}, end("end_turn", ""))...))
	m := newModel(t, s)
	req := hello()
	req.Messages = append(req.Messages,
		llm.Message{Role: llm.Assistant, Raw: json.RawMessage(`[{"type":"text","text":" "}]`), Provider: "anthropic"},
		llm.Message{Role: llm.Assistant, Text: " \n", Provider: "openai"},
		llm.Message{Role: llm.Assistant, Provider: "openai", Calls: []llm.Call{{ID: "call:1.a", Name: "x", Input: json.RawMessage(`"no object"`)}, {ID: "b", Name: "y"}}},
		llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "call:1.a", Output: "r"}, {CallID: "b", Output: "r"}}})
	if _, err := m.Ask(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	h, err := dialect{}.Received(s.Body(0))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Messages) != 3 {
		t.Fatalf("got %s, want no messages without content", s.Body(0))
	}
	calls := h.Messages[1].Calls
	if calls[0].ID != "call_1_a" || h.Messages[2].Results[0].CallID != "call_1_a" {
		t.Errorf("got %s, want an id in the API's alphabet on both sides", s.Body(0))
	}
	if string(calls[0].Input) != `{"INVALID_JSON":"no object"}` || string(calls[1].Input) != `{}` {
		t.Errorf("got inputs %s and %s, want objects", calls[0].Input, calls[1].Input)
	}
}

func TestThoughtsThatTheAPIWouldRefuse(t *testing.T) {
	t.Parallel()
	s := llmtest.Serve(t, llmtest.Stream(join([]string{begin("")}, end("end_turn", ""))...))
	req := hello()
	req.Messages = append(req.Messages,
		llm.Message{Role: llm.Assistant, Provider: "anthropic", Raw: json.RawMessage(`[{"type":"thinking","thinking":"unsigned","signature":""},{"type":"text","text":"said"},{"type":"redacted_thinking","data":"trailing"}]`)},
		llm.Message{Role: llm.User, Text: "and?"},
		llm.Message{Role: llm.Assistant, Provider: "anthropic", Raw: json.RawMessage(`[{"type":"thinking","thinking":"cut","signature":"s"}]`)})
	if _, err := newModel(t, s).Ask(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("PLUS-2 unsigned thoughts, thoughts at the end and messages of thoughts alone are left out", func(t *testing.T) {
		got := string(s.Body(0))
		for _, gone := range []string{"unsigned", "trailing", "cut"} {
			if strings.Contains(got, gone) {
				t.Errorf("got %s, want no thought that is %s", got, gone)
			}
		}
		if !strings.Contains(got, `{"role":"assistant","content":[{"type":"text","text":"said"}]}`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestCacheMarks(t *testing.T) {
	t.Parallel()
	s := llmtest.Serve(t, llmtest.Stream(join([]string{begin("")}, end("end_turn", ""))...))
	m := newModel(t, s)
	req := hello()
	if _, err := m.Ask(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	if got := string(s.Body(0)); strings.Contains(got, "cache_control") {
		t.Errorf("got %s, want a single question not to be kept", got)
	}
	req.System, req.Tools = "sys", []llm.Tool{{Name: "a"}, {Name: "b"}}
	for i := range 3 {
		id := fmt.Sprint("t", i)
		req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Provider: "anthropic", Raw: json.RawMessage(`[{"type":"tool_use","id":"` + id + `","name":"a","input":{}}]`)},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: id, Output: "r" + id}}})
	}
	if _, err := m.Ask(t.Context(), req, nil); err != nil {
		t.Fatal(err)
	}
	const mark = `"cache_control":{"type":"ephemeral"}`
	got := string(s.Body(1))
	for _, want := range []string{`"name":"b","input_schema":{"type":"object"},` + mark, `"text":"sys",` + mark, `"content":"rt1",` + mark, `"content":"rt2",` + mark} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if n := strings.Count(got, mark); n != 4 {
		t.Errorf("got %d marks, want the 4 that the API allows", n)
	}
}

func TestCallsWithoutIDsOfTheirOwn(t *testing.T) {
	t.Parallel()
	a := llmtest.Sound(t, newModel(t, llmtest.Serve(t, llmtest.Stream(join([]string{begin("")},
		block(0, `{"type":"tool_use","id":"same","name":"a","input":{"x":1}}`), block(1, `{"type":"tool_use","id":"same","name":"b"}`),
		block(2, `{"type":"tool_use","name":"c"}`), block(3, `{"type":"tool_use","id":"call_1","name":"d"}`), end("end_turn", ""))...))), hello())
	if len(a.Calls) != 4 || a.Finish != llm.ToolUse || string(a.Calls[0].Input) != `{"x":1}` || string(a.Calls[1].Input) != `{}` {
		t.Fatalf("got %+v", a)
	}
	for _, c := range a.Calls {
		if !strings.Contains(string(a.Raw), `"id":"`+c.ID+`"`) {
			t.Errorf("raw %s does not have the id %s", a.Raw, c.ID)
		}
	}
}

func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_API_KEY", "sk-from-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-from-the-environment")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Odd: from-the-environment")
	s := llmtest.Serve(t, llmtest.Stream(join([]string{begin("")}, end("end_turn", ""))...))
	llmtest.Sound(t, newModel(t, s), hello())
	for name, values := range s.Header(0) {
		if strings.Contains(strings.Join(values, ","), "from-the-environment") {
			t.Errorf("got header %s %v", name, values)
		}
	}
}

func FuzzStream(f *testing.F) {
	said := llmtest.Completion{Thinking: []string{"t"}, Text: []string{"x"}, Calls: []llmtest.CompletionCall{{ID: "a", Name: "b", Parts: []string{"{}"}}}, Finish: llm.ToolUse}
	all, _ := dialect{}.Frames(said)
	f.Add(strings.Join(all, ""))
	f.Add(strings.Join(join(all[:1], block(0, `{"type":"x","input":[1]}`, `{"type":"y","input":{"a":1}}`, `null`), end("z", "")), ""))
	f.Add("data: null\n\ndata: {\"type\":\"content_block_start\",\"content_block\":null}\n\n")
	f.Add("data: {\"type\":\"message_stop\"}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := anthropic.ReadForTest(text, hello())
		if err == nil && !json.Valid(a.Raw) {
			t.Errorf("got raw %q", a.Raw)
		}
		if _, retry := llm.Retryable(err); err != nil && !retry && !strings.Contains(text, "error") {
			t.Errorf("got %v, want a broken stream to be transient", err)
		}
	})
}

func TestCacheWrites(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 what the provider put into its cache is a part of the input", func(t *testing.T) {
		t.Parallel()
		usage := `,"usage":{"input_tokens":10,"cache_creation_input_tokens":6,"cache_read_input_tokens":4,"output_tokens":1}`
		a := llmtest.Sound(t, newModel(t, llmtest.Serve(t, llmtest.Stream(join([]string{begin(usage)}, block(0, `{"type":"text","text":"yes"}`),
			end("end_turn", ""))...))), hello())
		if a.Usage.Input != 20 || a.Usage.CachedInput != 4 || a.Usage.CacheWrite != 6 {
			t.Errorf("got %+v", a.Usage)
		}
	})
}
