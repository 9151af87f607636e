package meter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/runtime/meter"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

const key = "sk-the-key-of-the-provider"

// books are what a meter records, in memory.
type books struct {
	tool.Inner
	left int64 // output that may be granted
	err  error
	mu   sync.Mutex
	// Guarded by mu.
	asked   []tool.InnerRequest
	settled []tool.InnerUse
}

func (b *books) Reserve(_ context.Context, q tool.InnerRequest) (tool.InnerGrant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, q)
	if b.left <= 0 {
		return tool.InnerGrant{Refused: "the budget is spent"}, b.err
	}
	return tool.InnerGrant{Request: len(b.asked), Output: min(q.Output, b.left)}, b.err
}

func (b *books) Settle(_ context.Context, _ tool.InnerRequest, _ tool.InnerGrant, u tool.InnerUse) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = append(b.settled, u)
	return nil
}

// desk is a provider, a meter before it and a client.
type desk struct {
	*testing.T
	books *books
	meter *meter.Meter
	base  string
	token string
	// seen are the requests that came to the provider.
	seen []*http.Request
	sent [][]byte
}

// newDesk serves a meter for a form of requests; answer is what the provider says.
func newDesk(t *testing.T, api string, answer http.HandlerFunc) *desk {
	t.Helper()
	d := &desk{T: t, books: &books{left: 1 << 20}}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d.seen, d.sent = append(d.seen, r), append(d.sent, b)
		answer(w, r)
	}))
	t.Cleanup(provider.Close)
	m, err := meter.New(t.Context(), meter.Config{Model: events.RuntimeModel{API: api, BaseEnv: "BASE", KeyEnv: "KEY"}, URL: provider.URL + "/at",
		Key: secret.New(key), Inner: d.books})
	if err != nil {
		t.Fatal(err)
	}
	d.meter = m
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	t.Cleanup(m.Close)
	env := strings.Join(m.Env(s.URL), "\n")
	if strings.Contains(env, key) {
		t.Fatalf("the program has the key: %s", env)
	}
	base, token, _ := strings.Cut(env, "\n")
	d.base, d.token = strings.TrimPrefix(base, "BASE="), strings.TrimPrefix(token, "KEY=")
	return d
}

// post asks and returns the answer.
func (d *desk) post(path, body string) (status int, answer string) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.base+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		answer = "cut: "
	}
	return resp.StatusCode, answer + string(b)
}

// says answers with a text of a type.
func says(contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, text)
	}
}

func sse(events ...string) http.HandlerFunc {
	return says("text/event-stream", "data: "+strings.Join(events, "\n\ndata: ")+"\n\n")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		api, path, body string
		answer          http.HandlerFunc
		want            tool.InnerUse
		limit           string
	}{
		"messages": {events.FormAnthropic, "/v1/messages", `{"model":"m","max_tokens":900}`, says("application/json",
			`{"type":"message","usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":7}}`),
			tool.InnerUse{Input: 28, Output: 7, Cached: 20, Written: 3}, `"max_tokens":900`},
		"streamed messages": {events.FormAnthropic, "/v1/messages", `{"model":"m","max_tokens":900,"stream":true}`,
			sse(`{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":20,"output_tokens":1}}}`,
				`{"type":"content_block_delta","delta":{"text":"hi"}}`, `{"type":"message_delta","usage":{"output_tokens":7}}`, `{"type":"message_stop"}`),
			tool.InnerUse{Input: 25, Output: 7, Cached: 20}, `"max_tokens":900`},
		"chat": {events.FormOpenAI, "/chat/completions", `{"model":"m","max_tokens":900}`, says("application/json",
			`{"usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}`),
			tool.InnerUse{Input: 5, Output: 7, Cached: 2}, `"max_tokens":900`},
		"streamed chat": {events.FormOpenAI, "/chat/completions", `{"model":"m","stream":true,"n":2}`,
			sse(`{"choices":[{}],"usage":null}`, `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, `[DONE]`),
			tool.InnerUse{Input: 5, Output: 7}, `"include_usage":true`},
		"responses": {events.FormOpenAI, "/responses", `{"model":"m"}`, says("application/json",
			`{"usage":{"input_tokens":5,"output_tokens":7,"input_tokens_details":{"cached_tokens":1}}}`),
			tool.InnerUse{Input: 5, Output: 7, Cached: 1}, `"max_output_tokens":8192`},
		"streamed responses": {events.FormOpenAI, "/responses", `{"model":"m","stream":true}`,
			sse(`{"type":"response.created","response":{"usage":null}}`, `{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":7}}}`),
			tool.InnerUse{Input: 5, Output: 7}, `"max_output_tokens":8192`},
		"gemini": {events.FormGemini, "/v1beta/models/m:generateContent", `{"contents":[]}`, says("application/json",
			`{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`),
			tool.InnerUse{Input: 5, Output: 7}, `"maxOutputTokens":8192`},
		"streamed gemini": {events.FormGemini, "/v1beta/models/m:streamGenerateContent?alt=sse", `{"generationConfig":{"maxOutputTokens":900}}`,
			sse(`{"usageMetadata":{"promptTokenCount":5}}`, `{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7}}`),
			tool.InnerUse{Input: 5, Output: 7}, `"maxOutputTokens":900`},
		"no usage": {events.FormAnthropic, "/v1/messages", `{"model":"m"}`, says("application/json", `{"type":"message"}`),
			tool.InnerUse{Unknown: true}, `"max_tokens":8192`},
		"a stream without its end": {events.FormAnthropic, "/v1/messages", `{"model":"m","stream":true}`,
			sse(`{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`),
			tool.InnerUse{Input: 5, Output: 1, Unknown: true}, `"max_tokens":8192`},
		"an error of the provider": {events.FormAnthropic, "/v1/messages", `{"model":"m"}`, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
		}, tool.InnerUse{}, `"max_tokens":8192`},
	} {
		t.Run("PLUS-12e what "+name+" used is settled, and its output limited", func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.api, c.answer)
			d.post(c.path, c.body)
			if len(d.books.asked) != 1 || d.books.asked[0].Model != "m" || d.books.asked[0].Output < 900 || len(d.books.settled) != 1 || d.books.settled[0] != c.want {
				t.Errorf("asked %+v, settled %+v", d.books.asked, d.books.settled)
			}
			if len(d.sent) != 1 || !strings.Contains(string(d.sent[0]), c.limit) || !strings.HasPrefix(d.seen[0].URL.Path, "/at/") {
				t.Fatalf("sent %s", d.sent)
			}
			if got := fmt.Sprint(d.seen[0].Header); !strings.Contains(got, key) || strings.Contains(got, d.token) {
				t.Errorf("the provider is sent %s", got)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	ok := says("application/json", `{"type":"message","usage":{"input_tokens":1,"output_tokens":1},"key":"`+key+`"}`)
	t.Run("PLUS-12e a request that the budget does not have is refused in the form of the provider, and not passed on", func(t *testing.T) {
		t.Parallel()
		for api, want := range map[string]string{events.FormAnthropic: `{"error":{"message":"refused by the station: the budget is spent","type":"billing_error"},"type":"error"}`,
			events.FormOpenAI: `"code":"insufficient_quota"`, events.FormGemini: `"status":"RESOURCE_EXHAUSTED"`} {
			d := newDesk(t, api, ok)
			d.books.left = 0
			path := map[string]string{events.FormAnthropic: "/v1/messages", events.FormOpenAI: "/responses", events.FormGemini: "/v1beta/models/m:generateContent"}[api]
			status, answer := d.post(path, `{"model":"m"}`)
			if status != http.StatusPaymentRequired || !strings.Contains(answer, want) || len(d.sent) != 0 || len(d.books.settled) != 0 {
				t.Errorf("%s: %d %s, %d passed on", api, status, answer, len(d.sent))
			}
		}
	})
	t.Run("PLUS-12e what is left limits the output", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, events.FormAnthropic, ok)
		d.books.left = 300
		d.post("/v1/messages", `{"model":"m","max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":1024},"x":[1]}`)
		var sent map[string]any
		if err := json.Unmarshal(d.sent[0], &sent); err != nil || sent["max_tokens"] != 300.0 || sent["thinking"] != nil || sent["x"] == nil {
			t.Errorf("%v, %v", sent, err)
		}
	})
	t.Run("PLUS-12e SAFE-1 nothing is passed on that could not be recorded, is not known, or has not the token", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, events.FormAnthropic, ok)
		d.books.err = errors.New("the log is away")
		if status, _ := d.post("/v1/messages", `{"model":"m"}`); status != http.StatusServiceUnavailable {
			t.Errorf("not recorded: %d", status)
		}
		d.books.err = nil
		for _, path := range []string{"/v1/messages/batches", "/v1/files", "/", "/v1/../v1/messages", "/v1/messages%2Fbatches", "/v1/complete"} {
			if status, _ := d.post(path, `{"model":"m"}`); status != http.StatusNotFound && status != http.StatusMovedPermanently {
				t.Errorf("%s: %d", path, status)
			}
		}
		for _, body := range []string{"", "[]", "null", `{"model":5}`, `{"model":"m","background":true}`, `{"model":"m","n":1000}`} {
			if status, _ := d.post("/v1/messages", body); status != http.StatusBadRequest {
				t.Errorf("%s: %d", body, status)
			}
		}
		if status, _ := d.post("/v1/messages", `{"x":"`+strings.Repeat("x", meter.MaxRequest)+`"}`); status != http.StatusRequestEntityTooLarge {
			t.Errorf("too large: %d", status)
		}
		token := d.token
		d.token = "guessed"
		if status, _ := d.post("/v1/messages", `{"model":"m"}`); status != http.StatusUnauthorized {
			t.Errorf("with no token: %d", status)
		}
		d.token = token
		d.meter.Close()
		if status, _ := d.post("/v1/messages", `{"model":"m"}`); status != http.StatusServiceUnavailable {
			t.Errorf("after the call: %d", status)
		}
		if len(d.sent) != 0 || len(d.books.settled) != 0 {
			t.Errorf("%d were passed on", len(d.sent))
		}
	})
	t.Run("PLUS-12e SAFE-1 the key does not come back, and an answer that is cut counts as what was set aside", func(t *testing.T) {
		t.Parallel()
		d := newDesk(t, events.FormAnthropic, ok)
		if status, answer := d.post("/v1/messages", `{"model":"m"}`); status != http.StatusOK || strings.Contains(answer, key) || !strings.Contains(answer, "****") {
			t.Errorf("%d %s", status, answer)
		}
		cut := newDesk(t, events.FormAnthropic, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(bytes.Repeat([]byte(" "), 10))
		})
		cut.post("/v1/messages", `{"model":"m"}`)
		if len(cut.books.settled) != 1 || !cut.books.settled[0].Unknown {
			t.Errorf("%+v", cut.books.settled)
		}
	})
	t.Run("PLUS-12e SAFE-1 an address that is none is refused without being repeated", func(t *testing.T) {
		t.Parallel()
		for _, url := range []string{"", "ftp://x", "https://user:pass@x", "https://", "://" + key} {
			_, err := meter.New(t.Context(), meter.Config{Model: events.RuntimeModel{API: events.FormOpenAI}, URL: url, Key: secret.New(key)})
			if err == nil || strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "pass") {
				t.Errorf("%s: %v", url, err)
			}
		}
	})
}
