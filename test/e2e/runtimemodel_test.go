package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/core/budget"
	"github.com/inspan/inspan/internal/runtime/runtimetest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

func TestRuntimeModel(t *testing.T) {
	t.Parallel()
	const key = "sk-the-key-of-the-provider"
	var mu sync.Mutex
	var bodies []string // guarded by mu, as is keys
	keys := map[string]bool{}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(b))
		keys[r.Header.Get("X-Api-Key")] = true
		_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":10,"output_tokens":900}}`)
	}))
	t.Cleanup(provider.Close)
	w := newWorld(t)
	secrets := filepath.Join(w.dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{runtimetest.KeyEnv: key, runtimetest.BaseEnv: provider.URL} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.tune = func(c *service.Config) { c.MCPSecrets = secrets }
	w.outside("asking", runtimetest.Asking(runtimetest.Runtime(events.DriverACP, t.TempDir()), "https://nowhere.invalid"))
	w.start()
	most := int64(3000)
	w.task(events.Task{ID: "metered", Agent: "asking", MaxTokens: &most,
		Task: "!bash env\n!model 1000\n!model 1000\n!model 1000\n!model 1000\n!say end"})
	s := w.ended("metered")
	said := ""
	if len(s.Plan.Steps) > 0 {
		said = s.Plan.Steps[0].Output
	}

	t.Run("PLUS-12e PLUS-3 a program asks its model within the budget of its run, and is refused when that is spent", func(t *testing.T) {
		w := w.on(t)
		mu.Lock()
		defer mu.Unlock()
		if s.Status != events.Completed || strings.Count(said, "model: 200") != 3 || strings.Count(said, "model: 402") != 1 ||
			!strings.Contains(said, "refused by the station: the run has 270 of its 3000 tokens left") || !strings.Contains(said, "end") {
			t.Fatalf("%s: %q\n%s", s.Status, said, w.story("metered"))
		}
		if len(bodies) != 3 || !strings.Contains(bodies[1], `"max_tokens":1000`) || strings.Contains(bodies[2], `"max_tokens":1000`) {
			t.Errorf("the provider was asked %q", bodies)
		}
		if s.Tokens.Input != 30 || s.Tokens.Output != 2700 || s.Lost.Requests != 0 || budget.Used(s).Tokens > most {
			t.Errorf("%+v, lost %+v", s.Tokens, s.Lost)
		}
		one := []string{string(events.CallReserved), string(events.CallSettled)}
		kinds := slices.DeleteFunc(w.kinds("metered"), func(k string) bool { return !slices.Contains(one, k) })
		if !slices.Equal(kinds, slices.Repeat(one, 3)) { // other calls may end in between
			t.Errorf("%v", kinds)
		}
	})
	t.Run("PLUS-12e SAFE-1 the key of the provider is in no event and in no variable of the program", func(t *testing.T) {
		w := w.on(t)
		mu.Lock()
		defer mu.Unlock()
		if len(keys) != 1 || !keys[key] {
			t.Errorf("the provider was shown %v", keys)
		}
		env := inner(s)[0].Result
		if !strings.Contains(env, runtimetest.BaseEnv+"=http://127.0.0.1:") || !strings.Contains(env, runtimetest.KeyEnv+"=") ||
			strings.Contains(env, key) || strings.Contains(env, "***") { // a masked key would have been there
			t.Errorf("the program has %q", env)
		}
		for _, r := range w.events("metered") {
			if bytes.Contains(r.Bytes, []byte(key)) {
				t.Errorf("the key is in %s", r.Kind)
			}
		}
		if r := replayed(t, programLaw(t), w.log("metered")); !r.OK() {
			t.Errorf("a replay decides otherwise: %+v", r)
		}
	})
}
