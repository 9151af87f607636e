package gemini_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/gemini"
	"github.com/inspan/inspan/internal/llm/llmtest"
)

func TestExam(t *testing.T) {
	t.Parallel()
	llmtest.Exam(t, dialect{})
}

// dialect is streamGenerateContent as its documentation describes the stream.
type dialect struct{}

func (dialect) Name() string { return "gemini" }

func (dialect) New(baseURL, key string) (llm.Model, error) {
	m, err := gemini.New(gemini.Config{APIKey: key, BaseURL: baseURL})
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

func chunk(fields string) string {
	return "data: {" + fields + `,"modelVersion":"gemini-x","responseId":"r1"}` + "\n\n"
}

func parts(p ...string) string {
	return chunk(`"candidates":[{"content":{"parts":[` + strings.Join(p, ",") + `],"role":"model"},"index":0}]`)
}

func end(reason, more string) string {
	return chunk(`"candidates":[{"finishReason":"` + reason + `","index":0}]` + more)
}

func (dialect) Frames(a llmtest.Completion) ([]string, int) {
	var out []string
	for _, p := range a.Thinking {
		out = append(out, parts(`{"text":`+quote(p)+`,"thought":true}`))
	}
	for _, p := range a.Text {
		out = append(out, parts(`{"text":`+quote(p)+`}`))
	}
	for i, c := range a.Calls {
		args := strings.Join(c.Parts, "")
		if !json.Valid([]byte(args)) {
			args = quote(args)
		}
		signature := ""
		if i == 0 {
			signature = `,"thoughtSignature":"c2lnbmF0dXJl+/=="`
		}
		out = append(out, parts(fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s}%s}`, c.ID, c.Name, args, signature)))
	}
	more := ""
	if u := a.Usage; u != nil {
		more = fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":5,"cachedContentTokenCount":%d,"totalTokenCount":%d}`,
			u.Input, u.Output-5, u.CachedInput, u.Input+u.Output)
	}
	reason := map[llm.Finish]string{llm.Done: "STOP", llm.ToolUse: "STOP", llm.Length: "MAX_TOKENS", llm.Refusal: "SAFETY"}[a.Finish]
	out = append(out, end(reason, more))
	return out, len(out)
}

var troubles = map[llmtest.Fault]struct {
	code    int
	status  string
	message string
	details string
}{
	llmtest.BadRequest: {400, "INVALID_ARGUMENT", "", ""},
	llmtest.LongPrompt: {400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ""},
	llmtest.BadKey: {400, "INVALID_ARGUMENT", "",
		`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}`},
	llmtest.NoModel:    {404, "NOT_FOUND", "", ""},
	llmtest.NoCredit:   {429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", ""},
	llmtest.TooMany:    {429, "RESOURCE_EXHAUSTED", "", `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"q"}]}`},
	llmtest.Overloaded: {503, "UNAVAILABLE", "", ""},
	llmtest.Internal:   {500, "INTERNAL", "", ""},
}

func (dialect) ErrorBody(t llmtest.Fault, message string) string {
	w := troubles[t]
	if w.message != "" {
		message = w.message
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q,"details":[%s]}}`, w.code, quote(message), w.status, w.details)
}

func (d dialect) ErrorFrame(t llmtest.Fault) string {
	return "data: " + d.ErrorBody(t, "said in the stream") + "\n\n"
}

type body struct {
	SystemInstruction *struct{ Parts []struct{ Text string } }
	Contents          []json.RawMessage
	Tools             []struct {
		FunctionDeclarations []struct {
			Name, Description    string
			ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
		}
	}
	GenerationConfig struct {
		MaxOutputTokens    int
		Temperature        *float64
		ResponseMIMEType   string `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage
		ThinkingConfig     *struct{ IncludeThoughts bool }
	}
}

type inlineData struct {
	MIMEType string
	Data     []byte
}

type content struct {
	Role  string
	Parts []struct {
		Text         string
		Thought      bool
		FunctionCall *struct {
			ID, Name string
			Args     json.RawMessage
		}
		FunctionResponse *struct {
			ID, Name string
			Response map[string]string
			Parts    []struct{ InlineData *inlineData }
		}
		InlineData       *inlineData
		ThoughtSignature string
	}
}

// Heard reads a body. The model and the wish to stream are in the address, which the server of the exam does not show;
// TestAddress has them.
func (dialect) Received(b []byte) (llmtest.Request, error) {
	var r body
	if err := json.Unmarshal(b, &r); err != nil {
		return llmtest.Request{}, err
	}
	g := r.GenerationConfig
	h := llmtest.Request{Model: "model-1", Stream: true, MaxTokens: g.MaxOutputTokens, Temperature: g.Temperature,
		HasSchema: g.ResponseMIMEType == "application/json" && json.Valid(g.ResponseJSONSchema)}
	if r.SystemInstruction != nil {
		h.System = r.SystemInstruction.Parts[0].Text
	}
	for _, set := range r.Tools {
		for _, t := range set.FunctionDeclarations {
			h.Tools = append(h.Tools, llm.Tool{Name: t.Name, Description: t.Description, Input: t.ParametersJSONSchema})
		}
	}
	for _, raw := range r.Contents {
		var c content
		if err := json.Unmarshal(raw, &c); err != nil {
			return h, err
		}
		next := llm.Message{Role: llm.Role(c.Role), Raw: raw}
		for _, p := range c.Parts {
			if !p.Thought {
				next.Text += p.Text
			}
			if f := p.FunctionCall; f != nil {
				next.Calls = append(next.Calls, llm.Call{ID: f.ID, Name: f.Name, Input: f.Args})
			}
			if i := p.InlineData; i != nil {
				next.Images = append(next.Images, llm.Image{MediaType: i.MIMEType, Data: i.Data})
			}
			if f := p.FunctionResponse; f != nil {
				failed, isFailed := f.Response["error"]
				r := llm.Result{CallID: f.ID, Output: f.Response["output"] + failed, Failed: isFailed}
				for _, i := range f.Parts {
					r.Images = append(r.Images, llm.Image{MediaType: i.InlineData.MIMEType, Data: i.InlineData.Data})
				}
				next.Results = append(next.Results, r)
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
	return llm.Request{Model: "gemini-2.5-pro", Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}
}

func play(t *testing.T, frames ...string) llm.Answer {
	t.Helper()
	return llmtest.Sound(t, newModel(t, llmtest.Serve(t, llmtest.Stream(frames...))), hello())
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"gemini-x": "models/gemini-x", "models/x": "models/x", "tunedModels/my-x@1": "tunedModels/my-x@1"} {
		for _, below := range []string{"", "/proxy", "/a%2Fb"} {
			llmtest.Address(t, dialect{}, name, below, "POST "+below+"/v1beta/"+path+":streamGenerateContent?alt=sse",
				"Accept: text/event-stream", "Content-Type: application/json", "User-Agent: inspan", "X-Goog-Api-Key: "+llmtest.Key)
		}
	}
	var paths []string
	s := llmtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Goog-Api-Key"))
		llmtest.Stream(end("STOP", ""))(w, r)
	})
	if _, err := newModel(t, s).Ask(t.Context(), hello(), nil); err != nil {
		t.Fatal(err)
	}
	if want := "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse " + llmtest.Key; len(paths) != 1 || paths[0] != want {
		t.Errorf("got %q, want %q", paths, want)
	}
	for _, name := range []string{"../x", "a/b", "x?key=1", "x:y", ""} {
		q := hello()
		q.Model = name
		if _, err := newModel(t, s).Ask(t.Context(), q, nil); err == nil || len(paths) != 1 {
			t.Errorf("model %q: got %v, want a refusal before anything is sent", name, err)
		}
	}
}

func TestRawKeepsWhatWeDoNotKnow(t *testing.T) {
	t.Parallel()
	a := play(t, parts(`{"text":"hm ","thought":true}`, `{"text":"ok","thought":true}`),
		parts(`{"text":"A"}`), parts(`{"text":"B"}`), parts(`{"text":"","thoughtSignature":"s+/="}`), parts(`{"text":"C"}`),
		parts(`{"executableCode":{"language":"PYTHON","code":"1<2"},"odd":1.50}`),
		parts(`{"functionCall":{"name":"f","args":{"n":12345678901234567890}},"thoughtSignature":"Q=="}`, `{"functionCall":{"name":"f"}}`),
		parts(`{"text":""}`), end("STOP", ""))
	want := `{"role":"model","parts":[{"text":"hm ok","thought":true},{"text":"AB"},{"text":"","thoughtSignature":"s+/="},{"text":"C"},
		{"executableCode":{"language":"PYTHON","code":"1<2"},"odd":1.50},
		{"functionCall":{"id":"r1_1","name":"f","args":{"n":12345678901234567890}},"thoughtSignature":"Q=="},
		{"functionCall":{"id":"r1_2","name":"f","args":{}}},{"text":""}]}`
	t.Run("PLUS-2 signatures stay on their parts, unknown parts and large numbers stay", func(t *testing.T) {
		if !llmtest.SameJSON(a.Raw, []byte(want)) {
			t.Errorf("got %s\nwant %s", a.Raw, want)
		}
		if a.Thinking != "hm ok" || a.Text != "ABC" || len(a.Calls) != 2 || a.Finish != llm.ToolUse {
			t.Errorf("got %+v", a)
		}
	})
	t.Run("PLUS-2 they go back, without the part that holds nothing, and each call has its answer", func(t *testing.T) {
		s := llmtest.Serve(t, llmtest.Stream(end("STOP", "")))
		q := hello()
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Raw: a.Raw, Provider: a.Provider, Calls: a.Calls},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "r1_2", Output: "two"}}})
		if _, err := newModel(t, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		h, err := dialect{}.Received(s.Body(0))
		if err != nil {
			t.Fatal(err)
		}
		if back := strings.Replace(want, `,{"text":""}]`, `]`, 1); !llmtest.SameJSON(h.Messages[1].Raw, []byte(back)) {
			t.Errorf("got %s\nwant %s", h.Messages[1].Raw, back)
		}
		answers := `{"role":"user","parts":[{"functionResponse":{"id":"r1_1","name":"f","response":{"error":"interrupted: the call has no result"}}},
			{"functionResponse":{"id":"r1_2","name":"f","response":{"output":"two"}}}]}`
		if !llmtest.SameJSON(h.Messages[2].Raw, []byte(answers)) {
			t.Errorf("got %s\nwant %s", h.Messages[2].Raw, answers)
		}
	})
}

func TestForeignCallsAndImages(t *testing.T) {
	t.Parallel()
	s := llmtest.Serve(t, llmtest.Stream(end("STOP", "")))
	q := hello()
	q.Messages[0].Images = []llm.Image{{MediaType: "image/png", Data: []byte("\x89PNG")}}
	q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: "anthropic", Raw: []byte(`[{"type":"thinking","thinking":"secret thought"}]`),
		Calls: []llm.Call{{ID: "a", Name: "f"}, {ID: "b", Name: "f", Input: []byte(`[1]`)}}})
	if _, err := newModel(t, s).Ask(t.Context(), q, nil); err != nil {
		t.Fatal(err)
	}
	got := string(s.Body(0))
	t.Run("PLUS-2 the first foreign call carries the mark of calls without a signature, and no foreign thought is sent", func(t *testing.T) {
		want := `{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},` +
			`{"functionCall":{"id":"b","name":"f","args":{"INVALID_JSON":[1]}}}]}`
		if !strings.Contains(got, want) || strings.Contains(got, "secret thought") {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("an image is inline data before the text", func(t *testing.T) {
		if want := `{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw=="}},{"text":"hello"}]}`; !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]llm.Finish{"STOP": llm.Done, "MAX_TOKENS": llm.Length, "SAFETY": llm.Refusal,
		"RECITATION": llm.Refusal, "PROHIBITED_CONTENT": llm.Refusal, "BLOCKLIST": llm.Refusal, "SPII": llm.Refusal, "LANGUAGE": llm.Refusal} {
		if a := play(t, parts(`{"text":"x"}`), end(reason, "")); a.Finish != want {
			t.Errorf("%s: got %q, want %q", reason, a.Finish, want)
		}
	}
	if a := play(t, chunk(`"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}`)); a.Finish != llm.Refusal || a.Usage.Input != 7 {
		t.Errorf("got %+v, want a blocked prompt to be a refusal", a)
	}
	if a := play(t, parts(`{"functionCall":{"name":"f"}}`), end("FUNCTION_CALL", "")); a.Finish != llm.ToolUse {
		t.Errorf("got %+v, want a reason of another server to be read by what came with it", a)
	}
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER", "OF_THE_FUTURE"} {
		m := newModel(t, llmtest.Serve(t, llmtest.Stream(chunk(`"candidates":[{"finishReason":"`+reason+`","finishMessage":"call: print(`+llmtest.Key+`)","index":0}]`))))
		_, err := m.Ask(t.Context(), hello(), nil)
		if _, retry := llm.Retryable(err); !retry || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want an error that is tried again", reason, err)
		}
		llmtest.NoKey(t, err)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	info := `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`
	for name, reply := range map[string]llmtest.Reply{
		"as a refusal": llmtest.Refuse(429, info), "in an array": llmtest.Refuse(429, "["+info+"]"),
		"in the stream": llmtest.Stream(parts(`{"text":"x"}`), "data: "+info+"\n\n"),
	} {
		t.Run("PLUS-7 the wait of a RetryInfo is honoured "+name, func(t *testing.T) {
			t.Parallel()
			_, err := newModel(t, llmtest.Serve(t, reply)).Ask(t.Context(), hello(), nil)
			if after, retry := llm.Retryable(err); !retry || after != 34500*time.Millisecond {
				t.Errorf("got %v after %v", err, after)
			}
		})
	}
}

func TestThoughtsAreAskedForWhereTheModelHasThem(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"gemini-2.5-pro": true, "models/gemini-3-pro-preview": true, "gemini-2.0-flash": false,
		"gemma-3-27b-it": false, "gemini-2.5-flash-image": false} {
		s := llmtest.Serve(t, llmtest.Stream(end("STOP", "")))
		q := hello()
		q.Model = name
		if _, err := newModel(t, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(s.Body(0)), `"thinkingConfig":{"includeThoughts":true}`); got != want {
			t.Errorf("%s: got %s", name, s.Body(0))
		}
	}
}

func TestNothingIsReadFromTheEnvironment(t *testing.T) {
	for _, name := range []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	s := llmtest.Serve(t, llmtest.Stream(end("STOP", "")))
	m, err := gemini.New(gemini.Config{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	llmtest.Sound(t, m, hello())
	for name, values := range s.Header(0) {
		if strings.Contains(strings.Join(values, ","), "from-the-environment") || name == "X-Goog-Api-Key" {
			t.Errorf("got header %s %v", name, values)
		}
	}
}

func FuzzStream(f *testing.F) {
	said := llmtest.Completion{Thinking: []string{"t"}, Text: []string{"x"}, Calls: []llmtest.CompletionCall{{ID: "a", Name: "b", Parts: []string{"{}"}}}, Finish: llm.ToolUse}
	all, _ := dialect{}.Frames(said)
	f.Add(strings.Join(all, ""))
	f.Add(parts(`{"text":7}`, `{"functionCall":7}`, `{"functionCall":{"id":[],"args":[1]}}`) + end("STOP", ""))
	f.Add("data: null\n\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := gemini.ReadForTest(text, hello())
		if err == nil && !json.Valid(a.Raw) {
			t.Errorf("got raw %q", a.Raw)
		}
		if _, retry := llm.Retryable(err); err != nil && !retry && !strings.Contains(text, "rror") {
			t.Errorf("got %v, want a broken stream to be transient", err)
		}
	})
}

func TestImagesOfResults(t *testing.T) {
	t.Parallel()
	asked := func(t *testing.T, name, media string) string {
		t.Helper()
		s := llmtest.Serve(t, llmtest.Stream(end("STOP", "")))
		q := hello()
		q.Model = name
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: "other", Calls: []llm.Call{{ID: "a", Name: "read"}}},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "a", Output: "seen", Images: []llm.Image{{MediaType: media, Data: []byte("GIF89a")}}}}})
		if _, err := newModel(t, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		return string(s.Body(0))
	}
	for name, c := range map[string]struct{ model, media, want string }{
		"inside of the response where the model takes it": {"gemini-3-pro", "image/png",
			`"response":{"output":"seen"},"parts":[{"inlineData":{"mimeType":"image/png","data":"R0lGODlh"}}]}}`},
		"in a content of its own where it does not": {"gemini-2.5-pro", "image/png",
			`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"R0lGODlh"}},{"text":"The images of the results above, in this order: read (a)."}]}`},
		"and told in words where the API takes none of its kind": {"gemini-3-pro", "image/gif",
			`"response":{"output":"seen\n(This model takes no gif: the image is not shown.)"}}}`},
	} {
		t.Run("PLUS-2 an image of a result is "+name, func(t *testing.T) {
			t.Parallel()
			if got := asked(t, c.model, c.media); !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
}
