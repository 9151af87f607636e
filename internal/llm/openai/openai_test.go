package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/openai"
)

func TestExam(t *testing.T) {
	t.Parallel()
	llmtest.Exam(t, dialect{})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for d, path := range map[llmtest.Dialect]string{dialect{}: "/chat/completions", responses{}: "/responses"} {
		for _, below := range []string{"", "/v1", "/a%2Fb/v1"} {
			llmtest.Address(t, d, "gpt-x", below, "POST "+below+path,
				"Accept: text/event-stream", "Authorization: Bearer "+llmtest.Key, "Content-Type: application/json", "User-Agent: inspan")
		}
	}
}

// dialect is Chat Completions as its documentation describes the stream, with reasoning_content as DeepSeek, vLLM and
// llama.cpp send it.
type dialect struct{}

func (dialect) Name() string { return "openai" }

func (dialect) New(baseURL, key string) (llm.Model, error) {
	m, err := openai.New(openai.Config{APIKey: key, BaseURL: baseURL})
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

func chunk(choices, more string) string {
	return fmt.Sprintf("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-x\",\"choices\":[%s]%s}\n\n", choices, more)
}

func delta(d string) string {
	return chunk(`{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":null}`, `,"usage":null`)
}

func end(reason string) []string {
	return []string{chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, reason), ""), "data: [DONE]\n\n"}
}

func (dialect) Frames(a llmtest.Completion) ([]string, int) {
	out := []string{delta(`{"role":"assistant","content":null,"refusal":null}`)}
	for _, p := range a.Thinking {
		out = append(out, delta(`{"reasoning_content":`+quote(p)+`}`))
	}
	for _, p := range a.Text {
		field := "content"
		if a.Finish == llm.Refusal {
			field = "refusal"
		}
		out = append(out, delta(`{"`+field+`":`+quote(p)+`}`))
	}
	for i, c := range a.Calls {
		out = append(out, delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, c.ID, c.Name)))
	}
	// The arguments of several calls come in turns, which only the index tells apart.
	for part := 0; ; part++ {
		more := false
		for i, c := range a.Calls {
			if part < len(c.Parts) {
				more = true
				out = append(out, delta(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(c.Parts[part]))))
			}
		}
		if !more {
			break
		}
	}
	reason := map[llm.Finish]string{llm.Done: "stop", llm.ToolUse: "tool_calls", llm.Length: "length", llm.Refusal: "stop"}[a.Finish]
	last := end(reason)
	out = append(out, last[0])
	need := len(out)
	if u := a.Usage; u != nil {
		out = append(out, chunk("", fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
			u.Input, u.Output, u.Input+u.Output, u.CachedInput)))
	}
	return append(out, last[1]), need
}

var troubleWords = map[llmtest.Fault][2]string{
	llmtest.BadRequest: {"invalid_request_error", ""}, llmtest.LongPrompt: {"invalid_request_error", "context_length_exceeded"},
	llmtest.BadKey: {"authentication_error", "invalid_api_key"}, llmtest.NoModel: {"invalid_request_error", "model_not_found"},
	llmtest.NoCredit: {"insufficient_quota", "insufficient_quota"}, llmtest.TooMany: {"requests", "rate_limit_exceeded"},
	llmtest.Overloaded: {"overloaded_error", ""}, llmtest.Internal: {"server_error", ""},
}

func (dialect) ErrorBody(t llmtest.Fault, message string) string {
	w := troubleWords[t]
	code := "null"
	if w[1] != "" {
		code = quote(w[1])
	}
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":%s}}`, quote(message), w[0], code)
}

func (d dialect) ErrorFrame(t llmtest.Fault) string {
	return "data: " + d.ErrorBody(t, "said in the stream") + "\n\n"
}

type body struct {
	Model               string
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
	Stream              bool
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature    *float64
	ResponseFormat *struct {
		Type       string
		JSONSchema struct {
			Name   string
			Schema json.RawMessage
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	Messages []json.RawMessage
}

type message struct {
	Role       string
	Content    any
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (dialect) Received(b []byte) (llmtest.Request, error) {
	var r body
	if err := json.Unmarshal(b, &r); err != nil {
		return llmtest.Request{}, err
	}
	h := llmtest.Request{Model: r.Model, MaxTokens: r.MaxTokens, Temperature: r.Temperature, Stream: r.Stream && r.StreamOptions.IncludeUsage}
	if f := r.ResponseFormat; f != nil {
		h.HasSchema = f.Type == "json_schema" && f.JSONSchema.Name != "" && json.Valid(f.JSONSchema.Schema)
	}
	for _, t := range r.Tools {
		h.Tools = append(h.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Input: t.Function.Parameters})
	}
	for _, raw := range r.Messages {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return h, err
		}
		text, _ := m.Content.(string) // with images it is a list
		switch m.Role {
		case "system":
			h.System = text
			continue
		case "tool":
			text, failed := strings.CutPrefix(text, "The tool failed:\n")
			result := llm.Result{CallID: m.ToolCallID, Output: text, Failed: failed}
			if last := len(h.Messages) - 1; h.Messages[last].Role == "tool" {
				h.Messages[last].Results = append(h.Messages[last].Results, result)
			} else {
				h.Messages = append(h.Messages, llm.Message{Role: "tool", Results: []llm.Result{result}})
			}
			continue
		}
		next := llm.Message{Role: llm.Role(m.Role), Text: text, Raw: raw}
		parts, _ := m.Content.([]any)
		for _, p := range parts {
			o, _ := p.(map[string]any)
			url, _ := o["image_url"].(map[string]any)
			if i, ok := llmtest.DataURL(fmt.Sprint(url["url"])); ok {
				next.Images = append(next.Images, i)
			}
		}
		for _, c := range m.ToolCalls {
			next.Calls = append(next.Calls, llm.Call{ID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)})
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
	return llm.Request{Model: "gpt-x", Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
}

// play is what the frames, with an end, make.
func play(t *testing.T, reason string, frames ...string) llm.Answer {
	t.Helper()
	return llmtest.Sound(t, newModel(t, llmtest.Serve(t, llmtest.Stream(append(frames, end(reason)...)...))), hello())
}

func TestRawKeepsWhatWeDoNotKnow(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-2 reasoning and unknown fields stay in Raw", func(t *testing.T) {
		t.Parallel()
		a := play(t, "tool_calls",
			delta(`{"role":"assistant","content":"","reasoning_content":"hm "}`), delta(`{"role":"assistant","reasoning_content":"<ok>"}`),
			delta(`{"content":"A"}`), delta(`{"content":"B","odd":{"n":1.50,"s":"x"},"notes":[{"a":1}]}`), delta(`{"odd":{"s":"y"},"notes":[{"a":2}]}`),
			delta(`{"reasoning_details":[{"index":0,"type":"t","text":"p"}]}`), delta(`{"reasoning_details":[{"index":0,"type":"t","text":"q","signature":"s+/="}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\""},"extra_content":{"google":{"thought_signature":"Q=="}}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`))
		want := `{"role":"assistant","content":"AB","reasoning_content":"hm <ok>","odd":{"n":1.50,"s":"xy"},"notes":[{"a":1},{"a":2}],
			"reasoning_details":[{"index":0,"type":"t","text":"pq","signature":"s+/="}],
			"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"Q=="}}}]}`
		if !llmtest.SameJSON(a.Raw, []byte(want)) {
			t.Errorf("got %s\nwant %s", a.Raw, want)
		}
		if a.Thinking != "hm <ok>" || a.Text != "AB" {
			t.Errorf("got %+v", a)
		}
	})
}

func TestServersThatAreNotOpenAI(t *testing.T) {
	t.Parallel()
	call := func(index, id, arguments string) string {
		return delta(`{"tool_calls":[{` + index + `"id":"` + id + `","type":"function","function":{"name":"f","arguments":` + arguments + `}}]}`)
	}
	cases := map[string]struct {
		frames []string
		inputs []string
	}{
		"every call at index 0":     {[]string{call(`"index":0,`, "a", `"{\"n\":1}"`), call(`"index":0,`, "b", `"{\"n\":2}"`)}, []string{`{"n":1}`, `{"n":2}`}},
		"calls without an index":    {[]string{call("", "a", `"{\"n\":1}"`), call("", "b", `"{\"n\":2}"`)}, []string{`{"n":1}`, `{"n":2}`}},
		"pieces without an index":   {[]string{call("", "a", `"{\"n\""`), delta(`{"tool_calls":[{"function":{"arguments":":3}"}}]}`)}, []string{`{"n":3}`}},
		"calls without an id":       {[]string{call(`"index":0,`, "", `"{}"`), call(`"index":1,`, "", `""`)}, []string{`{}`, `{}`}},
		"an id like one we make":    {[]string{call(`"index":0,`, "call_2", `"{}"`), call(`"index":1,`, "", `"{}"`), call(`"index":2,`, "", `"{}"`)}, []string{`{}`, `{}`, `{}`}},
		"the id in every piece":     {[]string{call(`"index":0,`, "a", `"{\"n\""`), call(`"index":0,`, "a", `":4}"`)}, []string{`{"n":4}`}},
		"arguments as an object":    {[]string{call(`"index":0,`, "a", `{"n":5}`)}, []string{`{"n":5}`}},
		"an index that is too high": {[]string{call(`"index":1e99,`, "a", `"{}"`), call(`"index":-3,`, "b", `"{}"`)}, []string{`{}`, `{}`}},
		"no function at all":        {[]string{delta(`{"tool_calls":[{"index":0},7,null]}`)}, []string{`{}`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := play(t, "stop", c.frames...)
			if len(a.Calls) != len(c.inputs) || a.Finish != llm.ToolUse {
				t.Fatalf("got %+v, want %d calls, also where the reason is stop", a, len(c.inputs))
			}
			for i, in := range c.inputs {
				if !llmtest.SameJSON(a.Calls[i].Input, []byte(in)) || !strings.Contains(string(a.Raw), `"id":"`+a.Calls[i].ID+`"`) {
					t.Errorf("got input %s, raw %s, want %s", a.Calls[i].Input, a.Raw, in)
				}
			}
		})
	}

	t.Run("usage in every chunk is a running total", func(t *testing.T) {
		t.Parallel()
		with := func(n int) string {
			return chunk(`{"index":0,"delta":{"content":"x"}}`, fmt.Sprintf(`,"usage":{"prompt_tokens":5,"completion_tokens":%d}`, n))
		}
		if a := play(t, "stop", with(1), with(2)); a.Usage != (llm.Usage{Input: 5, Output: 2}) {
			t.Errorf("got %+v", a.Usage)
		}
	})

	t.Run("OBS-10 cached tokens under DeepSeek's name", func(t *testing.T) {
		t.Parallel()
		a := play(t, "stop", chunk("", `,"usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_cache_hit_tokens":40,"prompt_cache_miss_tokens":10}`))
		if a.Usage != (llm.Usage{Input: 50, Output: 2, CachedInput: 40}) {
			t.Errorf("got %+v", a.Usage)
		}
	})

	t.Run("reasoning under another name, and told once where both names come", func(t *testing.T) {
		t.Parallel()
		if a := play(t, "stop", delta(`{"reasoning":"a"}`), delta(`{"reasoning":"b"}`)); a.Thinking != "ab" {
			t.Errorf("got %q", a.Thinking)
		}
		if a := play(t, "stop", delta(`{"reasoning":"a","reasoning_content":"a"}`)); a.Thinking != "a" {
			t.Errorf("got %q", a.Thinking)
		}
	})

	t.Run("a content filter is a refusal, other choices are not ours", func(t *testing.T) {
		t.Parallel()
		if a := play(t, "content_filter", delta(`{"content":"par"}`), chunk(`{"index":1,"delta":{"content":"other"},"finish_reason":"length"}`, "")); a.Finish != llm.Refusal || a.Text != "par" {
			t.Errorf("got %+v", a)
		}
	})

	for name, frame := range map[string]string{
		"an error that is only text":      `{"error":"model runner has stopped"}`,
		"an error without an error field": `{"object":"error","message":"engine died","type":"InternalServerError","code":500}`,
		"a number as its code":            `{"error":{"message":"busy","code":503}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, llmtest.Serve(t, llmtest.Stream(delta(`{"content":"a"}`), "data: "+frame+"\n\n")))
			_, err := m.Ask(t.Context(), hello(), nil)
			if _, retry := llm.Retryable(err); !retry || strings.Contains(err.Error(), "before the answer was complete") {
				t.Errorf("got %v, want the server's reason, and transient", err)
			}
		})
	}
}

func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	s := llmtest.Serve(t, llmtest.Stream(end("stop")...))
	m, err := openai.New(openai.Config{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	llmtest.Sound(t, m, hello())
	for name, values := range s.Header(0) {
		if strings.Contains(strings.Join(values, ","), "from-the-environment") {
			t.Errorf("got header %s %v", name, values)
		}
	}
}

func TestOutputLimitHasAnotherNameAtOpenAI(t *testing.T) {
	t.Parallel()
	for own, want := range map[bool]string{true: `"max_completion_tokens":8192`, false: `"max_tokens":8192`} {
		b, err := openai.BodyForTest(hello(), own)
		if err != nil || !strings.Contains(string(b), want) || strings.Count(string(b), "8192") != 1 {
			t.Errorf("got %s, %v, want %s alone", b, err, want)
		}
	}
}

func FuzzStream(f *testing.F) {
	said := llmtest.Completion{Thinking: []string{"t"}, Text: []string{"x"}, Calls: []llmtest.CompletionCall{{ID: "a", Name: "b", Parts: []string{"{}"}}}, Finish: llm.ToolUse}
	all, _ := dialect{}.Frames(said)
	f.Add(strings.Join(all, ""))
	f.Add(delta(`{"tool_calls":[{"index":0,"function":7},{"function":{"arguments":[1]}}],"content":[{"a":1}],"role":{"x":1}}`) + strings.Join(end("stop"), ""))
	f.Add(delta(`{"a":{"b":"c"}}`) + delta(`{"a":"x"}`) + delta(`{"a":[{"index":0}]}`) + delta(`{"a":[{"index":0,"index":1}]}`) + strings.Join(end("stop"), ""))
	f.Add("data: null\n\ndata: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := openai.ReadForTest(openai.Chat, text, hello())
		if err == nil && !json.Valid(a.Raw) {
			t.Errorf("got raw %q", a.Raw)
		}
		if _, retry := llm.Retryable(err); err != nil && !retry && !strings.Contains(text, "rror") {
			t.Errorf("got %v, want a broken stream to be transient", err)
		}
	})
}
