package gateway_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/openai"
	"github.com/inspan/inspan/services/gateway"
)

// chat asks as a program does that has OpenAI's API.
func (d *door) chat(t *testing.T, token, agent, task string, sink llm.Sink) (llm.Answer, error) {
	t.Helper()
	m, err := openai.New(openai.Config{APIKey: d.secrets[token], BaseURL: d.url + "/v1", API: openai.Chat})
	if err != nil {
		t.Fatal(err)
	}
	return m.Ask(t.Context(), llm.Request{Model: agent, System: "be nice", Messages: []llm.Message{{Role: llm.User, Text: task}}}, sink)
}

func TestChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open(t, nil)
	const ask = `{"model":"talker","messages":[{"role":"system","content":"x"},{"role":"user","content":"first"},` +
		`{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"text","text":"say "},{"type":"text","text":"so"}]}],` +
		`"temperature":0.1,"tools":[],"user":"someone","metadata":{"session_id":"chat1"}}`
	t.Run("TRIG-1 the agents are models, and one answers a stream as it writes", func(t *testing.T) {
		models := in[gateway.ChatModels](t, d.want(t, 200, "GET", "/v1/models", "reader", ""))
		if !slices.ContainsFunc(models.Data, func(m gateway.ChatModel) bool { return m.ID == "talker" && m.Object == "model" }) {
			t.Errorf("%+v", models)
		}
		for pieces := 0; pieces < 2; { // until text came while it was written
			var streamed strings.Builder
			pieces = 0
			a, err := d.chat(t, "both", "talker", "say so", func(p llm.Delta) {
				streamed.WriteString(p.Text)
				pieces++
			})
			if err != nil || a.Text != said || streamed.String() != said || a.Usage.Output == 0 || a.Finish != llm.Done {
				t.Fatalf("%+v, %v; streamed %q", a, err, streamed.String())
			}
		}
	})
	t.Run("TRIG-1 the last message of the user is the task, and the session is that of the metadata, else of the user", func(t *testing.T) {
		a := in[gateway.ChatAnswer](t, d.want(t, 200, "POST", "/v1/chat/completions", "both", ask))
		if len(a.Choices) != 1 || a.Choices[0].Message.Content != said || a.Object != "chat.completion" || *a.Choices[0].Finish != "stop" {
			t.Fatalf("%+v", a)
		}
		s, err := w.client.State(t.Context(), a.ID)
		if err != nil || s.Created.Session != "chat1" || s.Created.Task != "say so" || s.Created.By != "both" {
			t.Errorf("%+v, %v", s.Created, err)
		}
		key := []string{"Idempotency-Key", "chat key"}
		body := strings.Replace(ask, `,"metadata":{"session_id":"chat1"}`, "", 1)
		first := in[gateway.ChatAnswer](t, d.want(t, 200, "POST", "/v1/chat/completions", "both", body, key...))
		if s, err := w.client.State(t.Context(), first.ID); err != nil || s.Created.Session != "someone" {
			t.Errorf("%+v, %v", s.Created, err)
		}
		if again := in[gateway.ChatAnswer](t, d.want(t, 200, "POST", "/v1/chat/completions", "both", body, key...)); again.ID != first.ID {
			t.Errorf("run %s, want %s", again.ID, first.ID)
		}
	})
	t.Run("TRIG-1 a run that fails or waits for a person is an error, which a client does not repeat", func(t *testing.T) {
		for agent, want := range map[string]string{"broken": "the model is gone", "several": "waits for a person"} {
			body := `{"model":"` + agent + `","messages":[{"role":"user","content":"x"}]}`
			a := d.want(t, 422, "POST", "/v1/chat/completions", "both", body)
			e := in[gateway.ChatError](t, a)
			if !strings.Contains(e.Error.Message, want) || e.Error.Code == "" || a.header.Get("X-Should-Retry") != "false" ||
				!strings.HasPrefix(a.header.Get("Location"), "/api/v1/runs/") {
				t.Errorf("%s: %+v %v", agent, e, a.header)
			}
			if _, err := d.chat(t, "both", agent, "x", nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, streamed: %v", agent, err)
			}
		}
	})
	t.Run("TRIG-1 errors have OpenAI's form", func(t *testing.T) {
		for _, c := range []struct {
			status               int
			token, path, body    string
			wantType, wantCode   string
			origin, wantInHeader string
		}{
			{status: 401, path: "chat/completions", body: ask, wantType: "authentication_error", wantCode: "invalid_api_key"},
			{status: 403, token: "reader", path: "chat/completions", body: ask, wantType: "permission_error", wantCode: "scope"},
			{status: 403, token: "writer", path: "chat/completions", body: ask, wantType: "permission_error", wantCode: "scope"},
			{status: 403, token: "all", path: "chat/completions", body: ask, origin: "https://evil.example", wantType: "permission_error", wantCode: "origin"},
			{status: 404, token: "all", path: "chat/completions", body: `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`, wantType: "invalid_request_error", wantCode: "model_not_found"},
			{status: 400, token: "all", path: "chat/completions", body: `{"model":"helper","messages":[{"role":"system","content":"x"}]}`, wantType: "invalid_request_error", wantCode: "bad_request"},
			{status: 400, token: "all", path: "chat/completions", body: `{"model":"helper","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, wantType: "invalid_request_error", wantCode: "bad_request"},
			{status: 400, token: "all", path: "chat/completions", body: `{"model":"helper","n":2,"messages":[{"role":"user","content":"x"}]}`, wantType: "invalid_request_error", wantCode: "bad_request"},
			{status: 400, token: "all", path: "chat/completions", body: `{"model":`, wantType: "invalid_request_error", wantCode: "bad_request"},
			{status: 404, token: "all", path: "embeddings", body: `{}`, wantType: "invalid_request_error", wantCode: "not_found"},
		} {
			var headers []string
			if c.origin != "" {
				headers = []string{"Origin", c.origin}
			}
			e := in[gateway.ChatError](t, d.want(t, c.status, "POST", "/v1/"+c.path, c.token, c.body, headers...))
			if e.Error.Type != c.wantType || e.Error.Code != c.wantCode || e.Error.Message == "" {
				t.Errorf("%+v: %+v", c, e)
			}
		}
		_, err := d.chat(t, "all", "nobody", "x", nil)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.Invalid {
			t.Errorf("%v", err)
		}
	})
	t.Run("TRIG-1 a client that goes away leaves its run", func(t *testing.T) {
		req := d.request(t, "POST", "/v1/chat/completions", "both", strings.Replace(ask, `"user":`, `"stream":true,"user":`, 1), "Idempotency-Key", "gone")
		res, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Body.Read(make([]byte, 1)); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", res.StatusCode, err)
		}
		_ = res.Body.Close()
		run := strings.TrimPrefix(res.Header.Get("Location"), "/api/v1/runs/")
		if a := in[gateway.RunAnswer](t, d.want(t, 200, "GET", "/api/v1/runs/"+run+"?wait=2m", "reader", "")); a.Result == nil || a.Result.Output != said {
			t.Errorf("%+v", a)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) > 0 {
		t.Errorf("failures inside: %q", w.failed)
	}
}
