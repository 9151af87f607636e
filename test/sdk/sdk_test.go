package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

const key = "sk-oracle-0123456789"

// answer is what an SDK and an adapter both read of a stream.
type answer struct {
	Text, Thinking string
	Calls          []call
	Finish         llm.Finish
	Usage          llm.Usage
	Model          string
}

type call struct {
	ID, Name string
	Input    any
}

// oracle is the SDK of one API beside our adapter of it.
type oracle interface {
	// adapter is ours for the server at url.
	adapter(url string) (llm.Model, error)
	// ask sends q with the SDK. It fails where the SDK does, or where its stream ends before the answer is whole.
	ask(ctx context.Context, url string, q llm.Request) (answer, error)
	// status is the HTTP status in an error of the SDK, 0 where it has none.
	status(err error) int
	// streams are answers as the provider sends them, each event with its blank line.
	streams() map[string][]string
	// same brings a body to the form that both are compared in; it may change it.
	same(body map[string]any)
	// refusal is the body of a refusal with an HTTP status.
	refusal(status int) string
}

var oracles = map[string]oracle{"anthropic": claude{}, "openai chat": chat{}, "openai responses": responses{}, "gemini": gemini{}}

// each runs a test for all of them.
func each(t *testing.T, test func(t *testing.T, o oracle)) {
	t.Helper()
	t.Parallel()
	for name, o := range oracles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
}

// server answers every request alike and keeps the last one.
type server struct {
	url string

	mu   sync.Mutex
	line string
	head http.Header
	body []byte
}

func serve(t *testing.T, status int, kind, text string) *server {
	t.Helper()
	s := &server{}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.line, s.head, s.body = r.Method+" "+r.URL.RequestURI(), r.Header.Clone(), body
		s.mu.Unlock()
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func serveStream(t *testing.T, frames []string) *server {
	t.Helper()
	return serve(t, http.StatusOK, "text/event-stream; charset=utf-8", strings.Join(frames, ""))
}

// sent is the last request, with its body in the form of o.
func (s *server) sent(t *testing.T, o oracle) (line string, head http.Header, body map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := json.NewDecoder(bytes.NewReader(s.body))
	d.UseNumber()
	if err := d.Decode(&body); err != nil {
		t.Fatalf("%v: %s", err, s.body)
	}
	dropNulls(body)
	o.same(body)
	return s.line, s.head, body
}

// dropNulls takes out fields that are null, which say as much as none.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if field == nil {
				delete(v, name)
				continue
			}
			dropNulls(field)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}

// ours asks our adapter.
func ours(ctx context.Context, o oracle, url string, q llm.Request) (answer, error) {
	m, err := o.adapter(url)
	if err != nil {
		return answer{}, err
	}
	a, err := m.Ask(ctx, q, nil)
	if err != nil {
		return answer{}, err
	}
	got := answer{Text: a.Text, Thinking: a.Thinking, Finish: a.Finish, Usage: a.Usage, Model: a.Model}
	for _, c := range a.Calls {
		var input any
		if err := json.Unmarshal(c.Input, &input); err != nil {
			return answer{}, err
		}
		got.Calls = append(got.Calls, call{c.ID, c.Name, input})
	}
	return got, nil
}

// decoded is JSON text as a value.
func decoded(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Sprintf("not JSON: %q", text)
	}
	return v
}

const schema = `{"type":"object","properties":{"dir":{"type":"string"}},"required":["dir"]}`

// questions use every part of a request.
func questions(model string) map[string]llm.Request {
	temperature := 0.25
	hello := llm.Message{Role: llm.User, Text: "List the <files> & \"folders\". 列出"}
	png := llm.Image{MediaType: "image/png", Data: []byte("\x89PNG+/=")}
	tools := []llm.Tool{{Name: "list", Description: "lists <x>", Input: json.RawMessage(schema)}, {Name: "read", Input: json.RawMessage(schema)}}
	return map[string]llm.Request{
		"a single question": {Model: model, Messages: []llm.Message{hello}},
		"settings":          {Model: model, System: "Be <exact> & brief.", Messages: []llm.Message{hello}, MaxOutputTokens: 1234, Temperature: &temperature},
		"tools":             {Model: model, System: "s", Messages: []llm.Message{hello}, Tools: tools},
		"an image":          {Model: model, Messages: []llm.Message{{Role: llm.User, Text: "what?", Images: []llm.Image{png, png}}}},
		"a schema":          {Model: model, Messages: []llm.Message{hello}, Schema: json.RawMessage(schema)},
		"calls and results": {Model: model, Tools: tools, Messages: []llm.Message{hello,
			{Role: llm.Assistant, Text: "I look.", Provider: "other", Calls: []llm.Call{
				{ID: "c1", Name: "list", Input: json.RawMessage(`{"dir":"a <b>"}`)}, {ID: "c2", Name: "read", Input: json.RawMessage(`{"dir":"c"}`)}}},
			{Role: llm.ToolResults, Results: []llm.Result{{CallID: "c1", Name: "list", Output: "x.go <y>"}, {CallID: "c2", Name: "read", Output: "no such dir", Failed: true}}},
			{Role: llm.Assistant, Text: "Two.", Provider: "other"},
			{Role: llm.User, Text: "go on"}}},
	}
}

// describing are headers that say what the SDK is, or that net/http sets.
var describing = map[string]bool{"User-Agent": true, "X-Goog-Api-Client": true, "Accept": true, "Accept-Encoding": true, "Content-Length": true}

func TestRequests(t *testing.T) {
	each(t, func(t *testing.T, o oracle) {
		s := serve(t, http.StatusBadRequest, "application/json", o.refusal(http.StatusBadRequest))
		for name, q := range questions("model-1") {
			if _, err := o.ask(t.Context(), s.url, q); err == nil {
				t.Fatal("the SDK took a refusal for an answer")
			}
			wantLine, wantHead, wantBody := s.sent(t, o)
			if _, err := ours(t.Context(), o, s.url, q); err == nil {
				t.Fatal("the adapter took a refusal for an answer")
			}
			line, head, body := s.sent(t, o)
			if line != wantLine {
				t.Errorf("%s: got %s, the SDK sends %s", name, line, wantLine)
			}
			for h := range wantHead {
				if got, want := head.Get(h), wantHead.Get(h); got != want && !describing[h] && !strings.HasPrefix(h, "X-Stainless-") {
					t.Errorf("%s: got %s %q, the SDK sends %q", name, h, got, want)
				}
			}
			for h := range head {
				if !describing[h] && wantHead.Get(h) == "" {
					t.Errorf("%s: got %s %q, the SDK sends none", name, h, head.Get(h))
				}
			}
			if !reflect.DeepEqual(body, wantBody) {
				got, _ := json.MarshalIndent(body, "", " ")
				want, _ := json.MarshalIndent(wantBody, "", " ")
				t.Errorf("%s: got\n%s\nthe SDK sends\n%s", name, got, want)
			}
		}
	})
}

func TestAnswers(t *testing.T) {
	each(t, func(t *testing.T, o oracle) {
		q := questions("model-1")["a single question"]
		for name, frames := range o.streams() {
			for ends, text := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
				between := ": keep-alive\n\n"
				if _, ok := o.(gemini); ok {
					between = "" // its SDK knows no comments
				}
				s := serveStream(t, []string{strings.ReplaceAll(strings.Join(frames, between), "\n", text)})
				want, err := o.ask(t.Context(), s.url, q)
				if err != nil {
					t.Fatalf("%s: the SDK: %v", name, err)
				}
				got, err := ours(t.Context(), o, s.url, q)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s: got %+v, %v\nthe SDK reads %+v", name, ends, got, err, want)
				}
			}
		}
	})
}

// TestCuts ends each stream after each byte.
func TestCuts(t *testing.T) {
	each(t, func(t *testing.T, o oracle) {
		q := questions("model-1")["a single question"]
		for name, frames := range o.streams() {
			text := strings.Join(frames, "")
			whole, refused := 0, 0
			for n := range len(text) {
				s := serveStream(t, []string{text[:n]})
				got, err := ours(t.Context(), o, s.url, q)
				if err != nil {
					if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.Transient {
						t.Fatalf("%s, %d bytes: got %v, want a transient error", name, n, err)
					}
					refused++
					continue
				}
				whole++
				want, err := o.ask(t.Context(), s.url, q)
				if got.Usage.Estimated { // the provider's own had not come
					got.Usage = want.Usage
				}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %d bytes: got %+v\nthe SDK reads %+v, %v", name, n, got, want, err)
				}
			}
			t.Logf("%s: of %d ends %d cut the answer, %d do not", name, len(text), refused, whole)
			if refused < len(text)/2 {
				t.Errorf("%s: got only %d cut streams", name, refused)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	classes := map[int]llm.Class{400: llm.Invalid, 401: llm.Auth, 403: llm.Auth, 404: llm.Invalid, 408: llm.Transient, 409: llm.Transient,
		413: llm.TooLong, 422: llm.Invalid, 429: llm.RateLimit, 500: llm.Transient, 502: llm.Transient, 503: llm.Transient, 529: llm.Transient}
	each(t, func(t *testing.T, o oracle) {
		q := questions("model-1")["a single question"]
		for status, class := range classes {
			s := serve(t, status, "application/json", o.refusal(status))
			_, theirs := o.ask(t.Context(), s.url, q)
			_, err := ours(t.Context(), o, s.url, q)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.Status != o.status(theirs) || e.Status != status || e.Class != class {
				t.Errorf("%d: got %v of class %s, the SDK says %d: %v", status, err, class, o.status(theirs), theirs)
			}
		}
	})
}
