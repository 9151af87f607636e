package llmtest

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

// Exam runs all that an adapter must do.
func Exam(t *testing.T, d Dialect) {
	t.Run("answers", func(t *testing.T) { t.Parallel(); examAnswers(t, d) })
	t.Run("finishes", func(t *testing.T) { t.Parallel(); examFinishes(t, d) })
	t.Run("conversation", func(t *testing.T) { t.Parallel(); examConversation(t, d) })
	t.Run("replay", func(t *testing.T) { t.Parallel(); examReplay(t, d) })
	t.Run("images", func(t *testing.T) { t.Parallel(); examImages(t, d) })
	t.Run("damage", func(t *testing.T) { t.Parallel(); examDamage(t, d) })
	t.Run("refusals", func(t *testing.T) { t.Parallel(); examRefusals(t, d) })
	t.Run("elsewhere", func(t *testing.T) { t.Parallel(); examElsewhere(t, d) })
	t.Run("cuts", func(t *testing.T) { t.Parallel(); examCuts(t, d) })
	t.Run("streams", func(t *testing.T) { t.Parallel(); examStreams(t, d) })
	t.Run("contexts", func(t *testing.T) { t.Parallel(); examContexts(t, d) })
	t.Run("settings", func(t *testing.T) { t.Parallel(); examSettings(t, d) })
}

func model(t *testing.T, d Dialect, s *Server) llm.Model {
	t.Helper()
	m, err := d.New(s.URL, Key)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func frames(d Dialect, a Completion) []string {
	f, _ := d.Frames(a)
	return f
}

func examAnswers(t *testing.T, d Dialect) {
	t.Run("LOOP-13 OBS-9 OBS-10 text, thinking, calls and usage arrive piece by piece", func(t *testing.T) {
		t.Parallel()
		a := Sound(t, model(t, d, Serve(t, Stream(frames(d, answer())...))), question())
		if a.Text != "I will look. é好" || a.Thinking != "Let me see <&>." {
			t.Errorf("got text %q and thinking %q", a.Text, a.Thinking)
		}
		if a.Finish != llm.ToolUse || a.Provider != d.Name() {
			t.Errorf("got finish %q of provider %q", a.Finish, a.Provider)
		}
		got := a.Usage
		got.CacheWrite = 0 // only some providers report it, and their own tests look at it
		if got != *answer().Usage {
			t.Errorf("got usage %+v, want %+v", a.Usage, *answer().Usage)
		}
		want := []llm.Call{{ID: "call_a", Name: "list"}, {ID: "call_b", Name: "list"}}
		inputs := []string{`{"dir":"a \"b\"","n":12345678901234567890}`, `{}`}
		for i, c := range a.Calls {
			if len(a.Calls) != 2 || c.ID != want[i].ID || c.Name != want[i].Name || !SameJSON(c.Input, []byte(inputs[i])) {
				t.Fatalf("got calls %+v with input %s", a.Calls, c.Input)
			}
		}
	})

	t.Run("a piece is told before the answer is whole", func(t *testing.T) {
		t.Parallel()
		received := make(chan struct{})
		all := frames(d, answer())
		half := len(all) / 2
		s := Serve(t, func(w http.ResponseWriter, r *http.Request) {
			Stream(all[:half]...)(w, r)
			select {
			case <-received:
				Stream(all[half:]...)(w, r)
			case <-r.Context().Done():
			}
		})
		var once sync.Once
		a, err := model(t, d, s).Ask(t.Context(), question(), func(llm.Delta) { once.Do(func() { close(received) }) })
		if err != nil || a.Finish != llm.ToolUse {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

func examFinishes(t *testing.T, d Dialect) {
	finishes := map[string]struct {
		said Completion
		want llm.Finish
	}{
		"a final answer":             {Completion{Text: []string{"done"}, Finish: llm.Done}, llm.Done},
		"an answer without anything": {Completion{Finish: llm.Done}, llm.Done},
		"the output limit":           {Completion{Text: []string{"do"}, Finish: llm.Length}, llm.Length},
		"a refusal":                  {Completion{Text: []string{"no"}, Finish: llm.Refusal}, llm.Refusal},
		"the limit inside a call": {Completion{Calls: []CompletionCall{{ID: "c", Name: "list",
			Parts: []string{`{"dir": "x`}}},
			Finish: llm.Length}, llm.Length},
	}
	for name, c := range finishes {
		t.Run("finish: "+name, func(t *testing.T) {
			t.Parallel()
			a := Sound(t, model(t, d, Serve(t, Stream(frames(d, c.said)...))), question())
			if a.Finish != c.want || a.Text != strings.Join(c.said.Text, "") {
				t.Errorf("got %q with %q, want %q", a.Finish, a.Text, c.want)
			}
			if a.Usage == (llm.Usage{}) || !a.Usage.Estimated {
				t.Errorf("LOOP-13 got usage %+v, want an estimate where none was reported", a.Usage)
			}
		})
	}

	t.Run("many asks at a time do not mix", func(t *testing.T) {
		t.Parallel()
		m := model(t, d, Serve(t, Stream(frames(d, answer())...)))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				a, err := m.Ask(t.Context(), question(), nil)
				if err != nil || a.Text != "I will look. é好" || len(a.Calls) != 2 {
					t.Errorf("got %+v, %v", a, err)
				}
			})
		}
		wg.Wait()
	})
}

func examConversation(t *testing.T, d Dialect) {
	t.Run("LOOP-16 a request says what was asked and nothing of the run", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, answer())...))
		q := question()
		if _, err := model(t, d, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		h := request(t, d, s.Body(0))
		if h.Model != q.Model || h.System != q.System || h.MaxTokens != 1234 || !h.Stream || h.HasSchema {
			t.Errorf("got %+v", h)
		}
		if h.Temperature == nil || *h.Temperature != 0.25 {
			t.Errorf("got temperature %v", h.Temperature)
		}
		if len(h.Tools) != 1 || h.Tools[0].Description != "lists" || !SameJSON(h.Tools[0].Input, q.Tools[0].Input) {
			t.Errorf("got tools %+v", h.Tools)
		}
		if !strings.Contains(headerText(s.Header(0)), Key) {
			t.Error("the key was not sent")
		}
		if text := string(s.Body(0)) + headerText(s.Header(0)); strings.Contains(text, "secret-run-id") ||
			strings.Contains(text, "secret-step") {
			t.Errorf("the metadata was sent: %s", text)
		}
	})

	t.Run("the default limit, no temperature, and a schema", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, Completion{Text: []string{`{"a":1}`}, Finish: llm.Done})...))
		q := llm.Request{Model: "m", Messages: question().Messages,
			Schema: []byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`)}
		if _, err := model(t, d, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		h := request(t, d, s.Body(0))
		if h.MaxTokens != llm.DefaultMaxOutputTokens || h.Temperature != nil || !h.HasSchema || h.System != "" ||
			h.Tools != nil {
			t.Errorf("got %+v", h)
		}
	})
}

func examReplay(t *testing.T, d Dialect) {
	t.Run("PLUS-2 the answer's own bytes go back unchanged, with the results of its calls", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, answer())...))
		m := model(t, d, s)
		q := question()
		a, err := m.Ask(t.Context(), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Messages = append(q.Messages, asMessage(a), llm.Message{Role: llm.ToolResults, Results: []llm.Result{
			{CallID: "call_a", Name: "list", Output: "x.go <y>"}, {CallID: "call_b", Name: "list", Output: "no such dir",
				Failed: true},
		}}, llm.Message{Role: llm.User, Text: "go on"})
		q.Messages[1].Text = "a text that is not sent, since Raw is"
		if _, err := m.Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		h := request(t, d, s.Body(1))
		if len(h.Messages) != 4 {
			t.Fatalf("got %d messages: %s", len(h.Messages), s.Body(1))
		}
		if !SameJSON(h.Messages[1].Raw, a.Raw) {
			t.Errorf("got %s back, want %s", h.Messages[1].Raw, a.Raw)
		}
		if got, want := h.Messages[2].Results, []llm.Result{{CallID: "call_a", Output: "x.go <y>"},
			{CallID: "call_b", Output: "no such dir", Failed: true}}; !reflect.DeepEqual(got, want) {
			t.Errorf("got results %+v, want %+v", got, want)
		}
		if h.Messages[0].Text != "List the files. 列出" || h.Messages[3].Text != "go on" {
			t.Errorf("got %+v", h.Messages)
		}
	})

	t.Run("PLUS-2 another provider's message is told in our words", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, answer())...))
		q := question()
		q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Text: "I look", Provider: "other",
			Raw:   []byte(`{"odd":"bytes"}`),
			Calls: []llm.Call{{ID: "c1", Name: "list", Input: []byte(`{"dir":"d"}`)}}},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "c1", Output: "out"}}})
		if _, err := model(t, d, s).Ask(t.Context(), q, nil); err != nil {
			t.Fatal(err)
		}
		h := request(t, d, s.Body(0))
		got := h.Messages[1]
		if got.Text != "I look" || len(got.Calls) != 1 || got.Calls[0].ID != "c1" || !SameJSON(got.Calls[0].Input,
			[]byte(`{"dir":"d"}`)) ||
			strings.Contains(string(s.Body(0)), "odd") {
			t.Errorf("got %s", s.Body(0))
		}
	})
}

func examDamage(t *testing.T, d Dialect) {
	t.Run("a call whose input is no JSON is a JSON string, and can be sent back", func(t *testing.T) {
		t.Parallel()
		said := Completion{Calls: []CompletionCall{{ID: "c", Name: "list", Parts: []string{`{"dir": `, `oops`}}},
			Finish: llm.ToolUse}
		s := Serve(t, Stream(frames(d, said)...))
		m := model(t, d, s)
		q := question()
		a := Sound(t, m, q)
		if len(a.Calls) != 1 || !SameJSON(a.Calls[0].Input, []byte(`"{\"dir\": oops"`)) {
			t.Fatalf("got %+v", a.Calls)
		}
		q.Messages = append(q.Messages, asMessage(a), llm.Message{Role: llm.ToolResults,
			Results: []llm.Result{{CallID: "c", Output: "not JSON", Failed: true}}})
		Sound(t, m, q)
		if h := request(t, d, s.Body(2)); !SameJSON(h.Messages[1].Raw, a.Raw) {
			t.Errorf("got %s back, want %s", h.Messages[1].Raw, a.Raw)
		}
	})

	t.Run("a damaged conversation is invalid and not sent", func(t *testing.T) {
		t.Parallel()
		s := Serve(t, Stream(frames(d, answer())...))
		for _, raw := range []string{`"text"`, `{`, `7`} {
			q := question()
			q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Provider: d.Name(), Raw: []byte(raw)})
			if e := refused(t, model(t, d, s), q); e.Class != llm.Invalid {
				t.Errorf("raw %s: got %v", raw, e)
			}
		}
		q := question()
		q.Messages[0].Role = "odd"
		if e := refused(t, model(t, d, s), q); e.Class != llm.Invalid || s.Requests() != 0 {
			t.Errorf("got %v after %d requests", e, s.Requests())
		}
	})
}

// asMessage is a as the log keeps it for the next request.
func asMessage(a llm.Answer) llm.Message {
	return llm.Message{Role: llm.Assistant, Text: a.Text, Calls: a.Calls, Raw: a.Raw, Provider: a.Provider}
}

func request(t *testing.T, d Dialect, body []byte) Request {
	t.Helper()
	h, err := d.Received(body)
	if err != nil {
		t.Fatalf("the request is not what the provider reads: %v: %s", err, body)
	}
	return h
}

func headerText(h http.Header) string {
	var b strings.Builder
	_ = h.Write(&b)
	return b.String()
}

// refused asks m and wants an *llm.Error without the key in it.
func refused(t *testing.T, m llm.Model, q llm.Request) *llm.Error {
	t.Helper()
	a, err := m.Ask(t.Context(), q, nil)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || !reflect.DeepEqual(a, llm.Answer{}) {
		t.Fatalf("got %+v, %v, want no answer and an llm.Error", a, err)
	}
	NoKey(t, err)
	if errors.Is(err, context.Canceled) {
		t.Errorf("got %v, the context had not ended", err)
	}
	return e
}
