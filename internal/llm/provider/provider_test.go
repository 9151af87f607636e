package provider_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/provider"
	"github.com/inspan/inspan/internal/secret"
)

func question(name string) llm.Request {
	return llm.Request{Model: name, Messages: []llm.Message{{Role: llm.User, Text: "hello"}}, Meta: llm.Meta{Turn: 1, Step: "s", Purpose: "turn"}}
}

func failure(t *testing.T, s *provider.Set, ref string) *llm.Error {
	t.Helper()
	m, _, err := s.Model(ref)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || m != nil || e.Hint == "" {
		t.Fatalf("%q: got %v, %v, want no model and an llm.Error with a hint", ref, m, err)
	}
	llmtest.NoKey(t, err)
	return e
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	key := secret.New(llmtest.Key)

	t.Run("LOOP-16 provider/name chooses the adapter and gives the name", func(t *testing.T) {
		t.Parallel()
		anthropic := llmtest.Serve(t, llmtest.Stream("data: {\"type\":\"message_stop\"}\n\n"))
		openai := llmtest.Serve(t, llmtest.Stream("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"))
		gemini := llmtest.Serve(t, llmtest.Stream("data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"))
		s := provider.New(provider.Config{AnthropicKey: key, AnthropicBaseURL: anthropic.URL, OpenAIKey: key, OpenAIBaseURL: openai.URL + "/v1",
			GeminiKey: key, GeminiBaseURL: gemini.URL})
		for ref, want := range map[string]struct {
			name   string
			server *llmtest.Server
		}{
			"anthropic/claude-sonnet-4-20250514": {"claude-sonnet-4-20250514", anthropic},
			"openai/gpt-4o-mini":                 {"gpt-4o-mini", openai},
			"openai/meta/llama-3:8b":             {"meta/llama-3:8b", openai},
			"gemini/gemini-2.5-pro":              {"gemini-2.5-pro", gemini},
		} {
			m, name, err := s.Model(ref)
			if err != nil || name != want.name {
				t.Fatalf("%s: got %q, %v", ref, name, err)
			}
			before := want.server.Requests()
			a, err := m.Ask(t.Context(), question(name), nil)
			if err != nil || want.server.Requests() != before+1 || a.Provider+"/"+name != ref {
				t.Fatalf("%s: got %+v, %v", ref, a, err)
			}
			if want.server != gemini && !strings.Contains(string(want.server.Body(before)), `"model":"`+want.name+`"`) { // there it is in the address
				t.Errorf("%s: got %s", ref, want.server.Body(before))
			}
		}
	})

	t.Run("a missing key is an error at use, with the name of its setting", func(t *testing.T) {
		t.Parallel()
		s := provider.New(provider.Config{})
		for ref, setting := range map[string]string{"anthropic/x": "ANTHROPIC_API_KEY", "openai/x": "OPENAI_API_KEY", "gemini/x": "GEMINI_API_KEY"} {
			if e := failure(t, s, ref); e.Class != llm.Auth || !strings.Contains(e.Hint, setting) {
				t.Errorf("%s: got %v", ref, e)
			}
		}
	})

	t.Run("a local server needs no key", func(t *testing.T) {
		t.Parallel()
		s := provider.New(provider.Config{OpenAIBaseURL: "http://127.0.0.1:11434/v1"})
		if _, name, err := s.Model("openai/qwen3:4b"); err != nil || name != "qwen3:4b" {
			t.Errorf("got %q, %v", name, err)
		}
	})

	t.Run("LOOP-16 the OpenAI API that is spoken can be chosen", func(t *testing.T) {
		t.Parallel()
		server := llmtest.Serve(t, llmtest.Stream("data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"))
		m, name, err := provider.New(provider.Config{OpenAIBaseURL: server.URL, OpenAIAPI: "responses"}).Model("openai/x")
		if err != nil {
			t.Fatal(err)
		}
		if a, err := m.Ask(t.Context(), question(name), nil); err != nil || a.Provider != "openai-responses" {
			t.Errorf("got %+v, %v", a, err)
		}
		if e := failure(t, provider.New(provider.Config{OpenAIKey: key, OpenAIAPI: "odd"}), "openai/x"); e.Class != llm.Invalid {
			t.Errorf("got %v", e)
		}
	})

	t.Run("a bad address or key does not show the key", func(t *testing.T) {
		t.Parallel()
		s := provider.New(provider.Config{OpenAIKey: key, OpenAIBaseURL: "http://u:" + llmtest.Key + "@h", AnthropicKey: secret.New("a\n" + llmtest.Key)})
		if e := failure(t, s, "openai/x"); e.Class != llm.Invalid {
			t.Errorf("got %v", e)
		}
		if e := failure(t, s, "anthropic/x"); e.Class != llm.Auth {
			t.Errorf("got %v", e)
		}
	})

	t.Run("unknown providers and odd references list what there is", func(t *testing.T) {
		t.Parallel()
		s := provider.New(provider.Config{OpenAIKey: key})
		for _, ref := range []string{"", "/", "gpt-4o", "mistral/x", "openai/", "openai/ x", "openai/a\nb", "openai/" + strings.Repeat("x", 201), "Openai/x", strings.Repeat("é", 4000)} {
			e := failure(t, s, ref)
			if e.Class != llm.Invalid || !strings.Contains(e.Hint, "anthropic, openai, gemini, scripted") || len(e.Error()) > 500 {
				t.Errorf("%q: got %v", ref, e)
			}
		}
	})

	t.Run("a printed config shows no key", func(t *testing.T) {
		t.Parallel()
		cfg := provider.Config{OpenAIKey: key, AnthropicKey: key}
		if text := fmt.Sprintf("%v %+v %#v %v", cfg, &cfg, cfg, provider.New(cfg)); strings.Contains(text, llmtest.Key) {
			t.Errorf("got %s", text)
		}
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(outside, "scripts")
	if err := os.MkdirAll(filepath.Join(dir, "sub.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	const hello = "turns: [{text: hello}]"
	write(t, filepath.Join(outside, "secret.yaml"), hello)
	write(t, filepath.Join(dir, "fix-demo.yaml"), hello)
	write(t, filepath.Join(dir, "bad.yaml"), "turns: [{tekst: hello}]")
	if err := os.Symlink("../secret.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fix-demo.yaml", filepath.Join(dir, "inside.yaml")); err != nil {
		t.Fatal(err)
	}
	s := provider.New(provider.Config{ScriptsDir: dir})

	t.Run("LOOP-16 a script answers without a key", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"fix-demo", "inside"} {
			m, got, err := s.Model("scripted/" + name)
			if err != nil || got != name {
				t.Fatalf("got %q, %v", got, err)
			}
			if a := llmtest.Sound(t, m, question(name)); a.Text != "hello" {
				t.Errorf("got %+v", a)
			}
		}
	})

	t.Run("no name leads out of the folder", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"../secret", "..", ".", "/etc/passwd", "sub/x", `..\secret`, "fix-demo.yaml", "a\x00b", "link", "sub", strings.Repeat("x", 65)} {
			if e := failure(t, s, "scripted/"+name); e.Class != llm.Invalid {
				t.Errorf("%q: got %v", name, e)
			}
		}
	})

	t.Run("a script that is not there or not right says what to do", func(t *testing.T) {
		t.Parallel()
		if e := failure(t, s, "scripted/nowhere"); !strings.Contains(e.Hint, "nowhere.yaml") {
			t.Errorf("got %v", e)
		}
		if e := failure(t, s, "scripted/bad"); !strings.Contains(e.Error(), "tekst") {
			t.Errorf("got %v", e)
		}
		if e := failure(t, provider.New(provider.Config{}), "scripted/fix-demo"); e.Class != llm.Invalid {
			t.Errorf("got %v", e)
		}
	})

	t.Run("a script that was changed is read again, an unchanged one is not", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(dir, "changing.yaml")
		write(t, path, hello)
		first, _, err := s.Model("scripted/changing")
		if err != nil {
			t.Fatal(err)
		}
		if again, _, err := s.Model("scripted/changing"); err != nil || again != first {
			t.Errorf("got %p, %v, want the same model %p", again, err, first)
		}
		write(t, path, "turns: [{text: byebye}]")
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		m, _, err := s.Model("scripted/changing")
		if err != nil {
			t.Fatal(err)
		}
		if a, err := m.Ask(t.Context(), question("changing"), nil); err != nil || a.Text != "byebye" {
			t.Errorf("got %+v, %v", a, err)
		}
	})

	t.Run("many at a time", func(t *testing.T) {
		t.Parallel()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, _, err := s.Model("scripted/fix-demo"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}
