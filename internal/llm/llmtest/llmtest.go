// Package llmtest is the exam that every adapter of a provider passes, against a server that speaks the provider's own
// wire format.
//
// Promises: Exam knows no provider. What differs is in a Dialect, which writes streams and reads requests as the
// provider does; so one test of, say, a cut stream holds for all of them. Sound and Ends are the part that also holds
// for models without a wire.
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

// Dialect is how one provider writes.
type Dialect interface {
	// Name of the adapter, as in Answer.Provider.
	Name() string
	// New makes the adapter for the server at baseURL.
	New(baseURL, key string) (llm.Model, error)
	// Frames is the stream of an answer: whole server-sent events, each with its blank line. After the first need of
	// them a proper end of the stream leaves a whole answer; before, it is cut.
	Frames(a Completion) (frames []string, need int)
	// ErrorFrame is an error event inside a stream, ErrorBody the body of a refusal.
	ErrorFrame(t Fault) string
	ErrorBody(t Fault, message string) string
	// Request reads the body of a request.
	Received(body []byte) (Request, error)
}

// Fault is what a provider can say is wrong, in our words.
type Fault string

const (
	BadRequest Fault = "bad request"
	LongPrompt Fault = "long prompt"
	BadKey     Fault = "bad key"
	NoModel    Fault = "no model"
	NoCredit   Fault = "no credit"
	TooMany    Fault = "too many"
	Overloaded Fault = "overloaded"
	Internal   Fault = "internal"
)

// Completion is an answer that a dialect turns into a stream, piece by piece.
type Completion struct {
	Thinking, Text []string
	Calls          []CompletionCall
	Finish         llm.Finish
	// Usage of nil is not reported.
	Usage *llm.Usage
}

// CompletionCall has its JSON arguments in pieces.
type CompletionCall struct {
	ID, Name string
	Parts    []string
}

// Request is a request as the server understood it.
type Request struct {
	Model, System string
	MaxTokens     int
	Temperature   *float64
	Stream        bool
	Tools         []llm.Tool
	HasSchema     bool
	Messages      []llm.Message
}

// Sound is Whole, and asks once more without a sink for the same answer.
func Sound(t *testing.T, m llm.Model, req llm.Request) llm.Answer {
	t.Helper()
	a := Whole(t, m, req)
	silent, err := m.Ask(t.Context(), req, nil)
	if err != nil || !SameJSON(silent.Raw, a.Raw) {
		t.Errorf("without a sink got %s, %v, want %s", silent.Raw, err, a.Raw)
	}
	return a
}

// Whole asks m and checks what holds for every answer of every model: the pieces make the whole, the calls have ids of
// their own and JSON inputs, the finish fits, and Raw is JSON with its provider named.
func Whole(t *testing.T, m llm.Model, req llm.Request) llm.Answer {
	t.Helper()
	var text, thinking string
	a, err := m.Ask(t.Context(), req, func(d llm.Delta) {
		if (d.Text == "") == (d.Thinking == "") {
			t.Errorf("got delta %+v, want one of text and thinking", d)
		}
		text += d.Text
		thinking += d.Thinking
	})
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	if text != a.Text || thinking != a.Thinking {
		t.Errorf("got pieces %q and %q, want %q and %q", text, thinking, a.Text, a.Thinking)
	}
	if !json.Valid(a.Raw) || a.Provider == "" || a.Model == "" {
		t.Errorf("got raw %s of provider %q, model %q", a.Raw, a.Provider, a.Model)
	}
	if a.Finish == llm.ToolUse && len(a.Calls) == 0 || a.Finish == llm.Done && len(a.Calls) > 0 {
		t.Errorf("got finish %q with %d calls", a.Finish, len(a.Calls))
	}
	if a.Usage.Input < 0 || a.Usage.Output < 0 || a.Usage.CachedInput+a.Usage.CacheWrite > a.Usage.Input {
		t.Errorf("got usage %+v", a.Usage)
	}
	ids := map[string]bool{}
	for _, c := range a.Calls {
		if c.ID == "" || ids[c.ID] || !json.Valid(c.Input) {
			t.Errorf("got call %+v with input %s", c, c.Input)
		}
		ids[c.ID] = true
	}
	return a
}

// Ends checks that a context that is over gives its own error and no answer.
func Ends(t *testing.T, m llm.Model, req llm.Request) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, err := m.Ask(ctx, req, func(llm.Delta) { t.Error("a piece came after the end") })
	if !errors.Is(err, context.Canceled) || !reflect.DeepEqual(a, llm.Answer{}) {
		t.Errorf("got %+v, %v, want no answer and context canceled", a, err)
	}
}

// SameJSON reports whether a and b are the same JSON value, numbers compared as written.
func SameJSON(a, b []byte) bool {
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
