package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/openai"
)

func TestExamOfResponses(t *testing.T) {
	t.Parallel()
	llmtest.Exam(t, responses{})
}

// responses is the Responses API as its documentation describes the stream.
type responses struct{}

func (responses) Name() string { return "openai-responses" }

func (responses) New(baseURL, key string) (llm.Model, error) {
	m, err := openai.New(openai.Config{APIKey: key, BaseURL: baseURL, API: openai.Responses})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func event(kind, fields string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":1%s}\n\n", kind, kind, fields)
}

func item(i int, whole string, deltas ...string) []string {
	out := []string{event("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":%s`, i, `{"type":"odd","status":"in_progress"}`))}
	out = append(out, deltas...)
	return append(out, event("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, i, whole)))
}

func pieces(kind string, list []string) []string {
	var out []string
	for _, p := range list {
		out = append(out, event(kind, `,"content_index":0,"delta":`+quote(p)))
	}
	return out
}

func final(kind, status, more string) string {
	return event(kind, `,"response":{"id":"resp_1","object":"response","model":"gpt-x","status":"`+status+`","output":[]`+more+`}`)
}

func (responses) Frames(a llmtest.Completion) ([]string, int) {
	out := []string{event("response.created", `,"response":{"id":"resp_1","status":"in_progress"}`)}
	n := 0
	add := func(whole string, deltas ...string) { out = append(out, item(n, whole, deltas...)...); n++ }
	if a.Thinking != nil {
		add(`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":`+quote(strings.Join(a.Thinking, ""))+`}],"encrypted_content":"gAAA+/=="}`,
			pieces("response.reasoning_summary_text.delta", a.Thinking)...)
	}
	if a.Text != nil {
		kind, part := "response.output_text.delta", `{"type":"output_text","annotations":[],"text":`
		if a.Finish == llm.Refusal {
			kind, part = "response.refusal.delta", `{"type":"refusal","refusal":`
		}
		add(`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[`+part+quote(strings.Join(a.Text, ""))+`}]}`,
			pieces(kind, a.Text)...)
	}
	for i, c := range a.Calls {
		add(fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":"completed","call_id":%q,"name":%q,"arguments":%s}`, i, c.ID, c.Name, quote(strings.Join(c.Parts, ""))),
			pieces("response.function_call_arguments.delta", c.Parts)...)
	}
	more := ""
	if u := a.Usage; u != nil {
		more = fmt.Sprintf(`,"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":%d}`,
			u.Input, u.CachedInput, u.Output, u.Input+u.Output)
	}
	if a.Finish == llm.Length {
		out = append(out, final("response.incomplete", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`+more))
	} else {
		out = append(out, final("response.completed", "completed", `,"incomplete_details":null`+more))
	}
	return out, len(out)
}

func (responses) ErrorBody(t llmtest.Fault, message string) string {
	return dialect{}.ErrorBody(t, message)
}

// ErrorFrame is an error event for some and a failed response for the others.
func (responses) ErrorFrame(t llmtest.Fault) string {
	w := troubleWords[t]
	switch t {
	case llmtest.Overloaded:
		return event("error", `,"error":{"type":"overloaded_error","message":"said in the stream"}`)
	case llmtest.LongPrompt, llmtest.TooMany:
		return event("error", `,"code":`+quote(w[1])+`,"message":"said in the stream","param":null`)
	}
	code := w[1]
	if code == "" {
		code = map[llmtest.Fault]string{llmtest.BadRequest: "invalid_prompt", llmtest.Internal: "server_error"}[t]
	}
	return event("response.failed", `,"response":{"status":"failed","error":{"code":`+quote(code)+`,"message":"said in the stream"}}`)
}

type responsesBody struct {
	Model, Instructions string
	MaxOutputTokens     int `json:"max_output_tokens"`
	Stream, Store       bool
	Include             []string
	Temperature         *float64
	Text                *struct {
		Format struct {
			Type, Name string
			Schema     json.RawMessage
			Strict     *bool
		}
	}
	Tools []struct {
		Type, Name, Description string
		Parameters              json.RawMessage
		Strict                  *bool
	}
	Input []json.RawMessage
}

type inputItem struct {
	Type, Role string
	Content    []struct{ Type, Text string }
	CallID     string `json:"call_id"`
	Name       string
	Arguments  string
	Output     json.RawMessage
}

// result reads an output: a text, or parts.
func (i inputItem) result() (llm.Result, error) {
	r := llm.Result{CallID: i.CallID}
	var text string
	if json.Unmarshal(i.Output, &text) != nil {
		var parts []struct {
			Type, Text string
			ImageURL   string `json:"image_url"`
		}
		if err := json.Unmarshal(i.Output, &parts); err != nil {
			return r, err
		}
		for _, p := range parts {
			text += p.Text
			if image, ok := llmtest.DataURL(p.ImageURL); ok && p.Type == "input_image" {
				r.Images = append(r.Images, image)
			}
		}
	}
	r.Output, r.Failed = strings.CutPrefix(text, "The tool failed:\n")
	return r, nil
}

func (responses) Received(b []byte) (llmtest.Request, error) {
	var r responsesBody
	if err := json.Unmarshal(b, &r); err != nil {
		return llmtest.Request{}, err
	}
	if r.Store || len(r.Include) != 1 || r.Include[0] != "reasoning.encrypted_content" {
		return llmtest.Request{}, fmt.Errorf("the request is not stateless: store %v, include %v", r.Store, r.Include)
	}
	h := llmtest.Request{Model: r.Model, System: r.Instructions, MaxTokens: r.MaxOutputTokens, Temperature: r.Temperature, Stream: r.Stream}
	if r.Text != nil {
		f := r.Text.Format
		h.HasSchema = f.Type == "json_schema" && f.Name != "" && json.Valid(f.Schema) && f.Strict != nil && !*f.Strict
	}
	for _, t := range r.Tools {
		if t.Type != "function" || t.Strict == nil || *t.Strict {
			return h, fmt.Errorf("tool %s is not a function that is not strict", t.Name)
		}
		h.Tools = append(h.Tools, llm.Tool{Name: t.Name, Description: t.Description, Input: t.Parameters})
	}
	var own [][]json.RawMessage // the items of each message
	for _, raw := range r.Input {
		var i inputItem
		if err := json.Unmarshal(raw, &i); err != nil {
			return h, err
		}
		role := map[string]llm.Role{"function_call_output": llm.ToolResults, "message": llm.Role(i.Role)}[i.Type]
		if role == "" {
			role = llm.Assistant
		}
		if last := len(h.Messages) - 1; last < 0 || h.Messages[last].Role != role {
			h.Messages, own = append(h.Messages, llm.Message{Role: role}), append(own, nil)
		}
		at := len(h.Messages) - 1
		m := &h.Messages[at]
		own[at] = append(own[at], raw)
		for _, c := range i.Content {
			m.Text += c.Text
		}
		switch i.Type {
		case "function_call":
			m.Calls = append(m.Calls, llm.Call{ID: i.CallID, Name: i.Name, Input: json.RawMessage(i.Arguments)})
		case "function_call_output":
			r, err := i.result()
			if err != nil {
				return h, err
			}
			m.Results = append(m.Results, r)
		}
	}
	for i := range h.Messages {
		raw, err := json.Marshal(own[i])
		if err != nil {
			return h, err
		}
		h.Messages[i].Raw = raw
	}
	return h, nil
}

// asked is what a model of the Responses API is sent.
func asked(t *testing.T, q llm.Request) string {
	t.Helper()
	s := llmtest.Serve(t, llmtest.Stream(final("response.completed", "completed", "")))
	m, err := responses{}.New(s.URL, llmtest.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Ask(t.Context(), q, nil); err != nil {
		t.Fatal(err)
	}
	return string(s.Body(0))
}

func TestItems(t *testing.T) {
	t.Parallel()
	play := func(t *testing.T, frames ...string) llm.Answer {
		t.Helper()
		m, err := responses{}.New(llmtest.Serve(t, llmtest.Stream(frames...)).URL, llmtest.Key)
		if err != nil {
			t.Fatal(err)
		}
		return llmtest.Sound(t, m, hello())
	}
	call := `{"id":"fc_1","type":"function_call","call_id":"c1","name":"f","arguments":"{}","odd":{"n":1.50}}`
	t.Run("PLUS-2 items stay as they came, in their order, also those of the future", func(t *testing.T) {
		t.Parallel()
		web := `{"id":"ws_1","type":"web_search_call","action":{"q":"<&>"}}`
		frames := append(item(1, call), item(0, web)...)
		a := play(t, append(frames, event("response.of.the.future", `,"delta":7`), final("response.completed", "completed", ""))...)
		if !llmtest.SameJSON(a.Raw, []byte("["+web+","+call+"]")) || a.Finish != llm.ToolUse {
			t.Errorf("got %s, %+v", a.Raw, a)
		}
	})
	t.Run("an item that was not done is taken from the response", func(t *testing.T) {
		t.Parallel()
		cut := `{"id":"fc_1","type":"function_call","status":"incomplete","call_id":"c1","name":"f","arguments":"{\"a"}`
		a := play(t, strings.Replace(final("response.incomplete", "incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`), `"output":[]`, `"output":[`+cut+`]`, 1))
		if a.Finish != llm.Length || len(a.Calls) != 1 || string(a.Calls[0].Input) != `"{\"a"` {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("text that came without pieces is told", func(t *testing.T) {
		t.Parallel()
		a := play(t, append(item(0, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"all at once"}]}`), final("response.completed", "completed", ""))...)
		if a.Text != "all at once" {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("a content filter is a refusal", func(t *testing.T) {
		t.Parallel()
		if a := play(t, final("response.incomplete", "incomplete", `,"incomplete_details":{"reason":"content_filter"}`)); a.Finish != llm.Refusal {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("a failed response without a reason is transient", func(t *testing.T) {
		t.Parallel()
		_, err := openai.ReadForTest(openai.Responses, event("response.failed", `,"response":{"status":"failed","error":null}`), hello())
		if _, retry := llm.Retryable(err); !retry {
			t.Errorf("got %v", err)
		}
	})
	t.Run("PLUS-2 reasoning goes back only where it is encrypted and something follows it", func(t *testing.T) {
		t.Parallel()
		q := hello()
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: "openai-responses",
			Raw: json.RawMessage(`[{"id":"rs_1","type":"reasoning","summary":[]},` + call + `,{"id":"rs_2","type":"reasoning","encrypted_content":"x"}]`)},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "c1", Output: "r"}}})
		got := asked(t, q)
		if strings.Contains(got, "rs_") || strings.Contains(got, "fc_1") || !strings.Contains(got, `"call_id":"c1","name":"f"`) || !strings.Contains(got, `"n":1.50`) {
			t.Errorf("got %s, want the call alone, without the id that asks for its reasoning", got)
		}
	})
	t.Run("PLUS-2 an answer of Chat is told in our words", func(t *testing.T) {
		t.Parallel()
		q := hello()
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: "openai", Text: "I said",
			Raw: json.RawMessage(`{"role":"assistant","content":"I said","reasoning_content":"hidden"}`)}, llm.Message{Role: llm.User, Text: "and?"})
		if got := asked(t, q); strings.Contains(got, "hidden") || !strings.Contains(got, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I said"}]}`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestReasoningIsAskedForWhereTheModelHasIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"gpt-5": true, "o4-mini": true, "gpt-6-codex": true, "gpt-4o-mini": false, "gpt-4.1": false, "gpt-5-chat-latest": false} {
		q := hello()
		q.Model = name
		if got := asked(t, q); strings.Contains(got, "encrypted_content") != want || !strings.Contains(got, `"store":false`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestWhichAPI(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base string
		api  openai.API
		want string
	}{
		"OpenAI's own":                {"", "", "https://api.openai.com/v1/responses"},
		"OpenAI's own, said":          {"https://api.openai.com/v1", "", "https://api.openai.com/v1/responses"},
		"OpenAI's own, Chat":          {"", openai.Chat, "https://api.openai.com/v1/chat/completions"},
		"a compatible server":         {"http://127.0.0.1:1/v1", "", "http://127.0.0.1:1/v1/chat/completions"},
		"a server with the new one":   {"http://127.0.0.1:1/v1", openai.Responses, "http://127.0.0.1:1/v1/responses"},
		"a host that only ends alike": {"https://api.openai.com.example/v1", "", "https://api.openai.com.example/v1/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			client := &http.Client{Transport: tripper(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return nil, http.ErrHandlerTimeout
			})}
			m, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: c.base, API: c.api, HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Ask(t.Context(), hello(), nil); err == nil || got != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
	if _, err := openai.New(openai.Config{APIKey: llmtest.Key, API: "odd"}); err == nil {
		t.Error("an unknown api is taken")
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzResponses(f *testing.F) {
	said := llmtest.Completion{Thinking: []string{"t"}, Text: []string{"x"}, Calls: []llmtest.CompletionCall{{ID: "a", Name: "b", Parts: []string{"{}"}}}, Finish: llm.ToolUse}
	all, _ := responses{}.Frames(said)
	f.Add(strings.Join(all, ""))
	f.Add(event("response.output_item.done", `,"output_index":-1,"item":7`) + final("response.completed", "completed", ""))
	f.Add(event("response.output_item.done", `,"output_index":3,"item":{"type":"function_call","arguments":7}`) + final("response.completed", "completed", ""))
	f.Add(event("response.completed", `,"response":{"output":[null]}`))
	f.Fuzz(func(t *testing.T, text string) {
		a, err := openai.ReadForTest(openai.Responses, text, hello())
		if err == nil && !json.Valid(a.Raw) {
			t.Errorf("got raw %q", a.Raw)
		}
		if _, retry := llm.Retryable(err); err != nil && !retry && !strings.Contains(text, "rror") && !strings.Contains(text, "failed") {
			t.Errorf("got %v, want a broken stream to be transient", err)
		}
	})
}
