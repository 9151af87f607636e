package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/breaker"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/provider"
	"github.com/inspan/inspan/internal/secret"
)

const (
	anthropicDone = "data: {\"type\":\"message_stop\"}\n\n"
	openaiDone    = "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"
)

// pair is a list of two models, the first of a server that gives the replies.
func pair(t *testing.T, replies ...llmtest.Reply) (m llm.Model, first, second *llmtest.Server) {
	t.Helper()
	first = llmtest.Serve(t, replies...)
	second = llmtest.Serve(t, llmtest.Stream(openaiDone))
	key := secret.New(llmtest.Key)
	s := provider.New(provider.Config{AnthropicKey: key, AnthropicBaseURL: first.URL, OpenAIKey: key, OpenAIBaseURL: second.URL})
	m, name, err := s.Model("anthropic/a,openai/b")
	if err != nil || name != "a" {
		t.Fatalf("got %q, %v", name, err)
	}
	again, _, err := s.Model("anthropic/a,openai/b")
	if err != nil || again != m {
		t.Fatalf("got another list, %v, want the one that knows what is out", err)
	}
	return m, first, second
}

// attempt asks once and says who answered.
func attempt(t *testing.T, m llm.Model, number int) (string, error) {
	t.Helper()
	q := question("a")
	q.Meta.Attempt = number
	a, err := m.Ask(t.Context(), q, nil)
	return a.Provider, err
}

func TestLists(t *testing.T) {
	t.Parallel()
	down := llmtest.Refuse(503, "")
	t.Run("PLUS-7 the first model answers while it can", func(t *testing.T) {
		t.Parallel()
		m, _, second := pair(t, llmtest.Stream(anthropicDone))
		if who, err := attempt(t, m, 1); err != nil || who != "anthropic" || second.Requests() != 0 {
			t.Errorf("got %q, %v", who, err)
		}
	})
	t.Run("PLUS-7 the tries of a turn move along the list, one request each, and the last model keeps the rest", func(t *testing.T) {
		t.Parallel()
		m, first, second := pair(t, down)
		for number := 1; number <= 9; number++ {
			who, err := attempt(t, m, number)
			if number <= 2 {
				if _, again := llm.Retryable(err); !again {
					t.Fatalf("try %d: got %q, %v", number, who, err)
				}
			} else if err != nil || who != "openai" {
				t.Fatalf("try %d: got %q, %v", number, who, err)
			}
		}
		if first.Requests() != 2 || second.Requests() != 7 || !strings.Contains(string(second.Body(0)), `"model":"b"`) {
			t.Errorf("got %d and %d requests, the second for %s", first.Requests(), second.Requests(), second.Body(0))
		}
	})
	t.Run("PLUS-7 a model that rests is passed over at once", func(t *testing.T) {
		t.Parallel()
		m, first, _ := pair(t, down)
		for range breaker.Limit {
			if _, err := attempt(t, m, 1); err == nil {
				t.Fatal("a server that is down answered")
			}
		}
		if who, err := attempt(t, m, 1); err != nil || who != "openai" || first.Requests() != breaker.Limit {
			t.Errorf("got %q, %v after %d requests", who, err, first.Requests())
		}
	})
	t.Run("PLUS-7 a wait longer than another model is worth is not waited for: the next one answers at once; the last one's wait stands", func(t *testing.T) {
		t.Parallel()
		for wait, want := range map[string]bool{"3600": false, "2": true} {
			m, first, second := pair(t, llmtest.Refuse(429, "", "Retry-After", wait))
			_, err := attempt(t, m, 1)
			if after, again := llm.Retryable(err); !again || (after > 0) != want {
				t.Fatalf("Retry-After %s: told to wait %s: %v", wait, after, err)
			}
			if want {
				continue
			}
			if who, err := attempt(t, m, 2); err != nil || who != "openai" || first.Requests() != 1 || second.Requests() != 1 {
				t.Errorf("got %q, %v after %d requests", who, err, first.Requests())
			}
		}
		key := secret.New(llmtest.Key)
		busy := llmtest.Serve(t, llmtest.Refuse(429, "", "Retry-After", "3600"))
		s := provider.New(provider.Config{AnthropicKey: key, AnthropicBaseURL: busy.URL, OpenAIKey: key, OpenAIBaseURL: busy.URL})
		m, _, err := s.Model("anthropic/a,openai/b")
		if err != nil {
			t.Fatal(err)
		}
		for number := range 2 {
			_, err = attempt(t, m, number+1)
		}
		if after, again := llm.Retryable(err); !again || after < time.Hour {
			t.Errorf("all models are busy, told to wait %s: %v", after, err)
		}
	})
	t.Run("PLUS-7 a refused key or a model that is gone is tried again with the next model", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{401, 404} {
			m, first, _ := pair(t, llmtest.Refuse(status, `{"error":{"message":"no `+llmtest.Key+`"}}`))
			_, err := attempt(t, m, 1)
			if _, again := llm.Retryable(err); !again || !strings.Contains(err.Error(), "next model") {
				t.Errorf("%d: got %v", status, err)
			}
			llmtest.NoKey(t, err)
			if who, err := attempt(t, m, 1); err != nil || who != "openai" || first.Requests() != 1 {
				t.Errorf("%d: got %q, %v", status, who, err)
			}
		}
	})
	t.Run("a wrong request is wrong for all, and the last model's refusal is final", func(t *testing.T) {
		t.Parallel()
		m, _, second := pair(t, llmtest.Refuse(400, ""))
		if _, err := attempt(t, m, 1); err == nil || second.Requests() != 0 {
			t.Errorf("got %v", err)
		}
		s := provider.New(provider.Config{OpenAIBaseURL: llmtest.Serve(t, llmtest.Refuse(401, "")).URL})
		last, _, err := s.Model("openai/a,openai/b")
		if err != nil {
			t.Fatal(err)
		}
		_, first := attempt(t, last, 1)
		if _, again := llm.Retryable(first); !again {
			t.Errorf("got %v, want the next model to be tried", first)
		}
		_, second2 := attempt(t, last, 1)
		if _, again := llm.Retryable(second2); again {
			t.Errorf("got %v, want the last refusal to be final", second2)
		}
	})
	t.Run("a list with a bad, a missing or one model too many is refused", func(t *testing.T) {
		t.Parallel()
		s := provider.New(provider.Config{OpenAIKey: secret.New(llmtest.Key)})
		for _, ref := range []string{"openai/a,", ",openai/a", "openai/a,odd/b", "openai/a, openai/b", strings.Repeat("openai/a,", 8) + "openai/a"} {
			if e := failure(t, s, ref); e.Class != llm.Invalid {
				t.Errorf("%q: got %v", ref, e)
			}
		}
		if e := failure(t, s, "openai/a,anthropic/b"); e.Class != llm.Auth || !strings.Contains(e.Hint, "ANTHROPIC_API_KEY") {
			t.Errorf("got %v, want a missing key to be told before it is needed", e)
		}
	})
}
