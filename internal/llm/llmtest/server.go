package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

// Key is what the exam's adapters send; no error may show it.
const Key = "sk-exam-0123456789-very-secret"

// Reply answers one request.
type Reply func(w http.ResponseWriter, r *http.Request)

// Stream sends frames as an event stream.
func Stream(frames ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, f := range frames {
			_, _ = io.WriteString(w, f)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// Broken sends frames and breaks the connection.
func Broken(frames ...string) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		Stream(frames...)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Stuck sends frames and then nothing until the client is gone.
func Stuck(frames ...string) Reply {
	return func(w http.ResponseWriter, r *http.Request) {
		Stream(frames...)(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// Refuse sends a status with a body and headers, given as name, value, name, value.
func Refuse(status int, body string, headers ...string) Reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Server gives the replies one after the other, the last one for ever, and keeps the requests.
type Server struct {
	URL string

	mu      sync.Mutex
	replies []Reply
	bodies  [][]byte
	headers []http.Header
}

// Serve starts a server on 127.0.0.1 that ends with the test.
func Serve(t *testing.T, replies ...Reply) *Server {
	t.Helper()
	s := &Server{replies: replies}
	h := httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	reply := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	s.bodies = append(s.bodies, body)
	s.headers = append(s.headers, r.Header.Clone())
	s.mu.Unlock()
	reply(w, r)
}

// Requests is how many came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bodies)
}

// Body is what request i, from 0, held.
func (s *Server) Body(i int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[i]
}

// Last is what the last request held.
func (s *Server) Last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1]
}

// Header is what request i, from 0, came with.
func (s *Server) Header(i int) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[i]
}

// NoKey checks that no way of printing err shows the key.
func NoKey(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; {
		for _, verb := range []string{"%v", "%+v", "%q", "%#v"} {
			if strings.Contains(fmt.Sprintf(verb, e), Key) {
				t.Errorf("the key is in the error: %v", e)
			}
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return
		}
		e = u.Unwrap()
	}
}

func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// question is the request that most of the exam asks.
func question() llm.Request {
	temperature := 0.25
	return llm.Request{
		Model:    "model-1",
		System:   "You are <careful> & exact.",
		Messages: []llm.Message{{Role: llm.User, Text: "List the files. 列出"}},
		Tools: []llm.Tool{{Name: "list", Description: "lists",
			Input: json.RawMessage(`{"type":"object","properties":{"dir":{"type":"string","maxLength":9007199254740993}}}`)}},
		MaxOutputTokens: 1234,
		Temperature:     &temperature,
		Meta:            llm.Meta{Run: "secret-run-id", Step: "secret-step", Turn: 3},
	}
}

// answer is the one that most of the exam gets.
func answer() Completion {
	return Completion{
		Thinking: []string{"Let me ", "see <&>."},
		Text:     []string{"I ", "will ", "look. é", "好"},
		Calls: []CompletionCall{
			{ID: "call_a", Name: "list", Parts: []string{`{"di`, `r":"`, `a \"b\"","n":1`, `2345678901234567890}`}},
			{ID: "call_b", Name: "list", Parts: []string{"", `{}`}},
		},
		Finish: llm.ToolUse,
		Usage:  &llm.Usage{Input: 100, Output: 20, CachedInput: 64},
	}
}
