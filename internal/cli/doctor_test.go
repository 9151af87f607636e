package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// modelServer speaks the API of OpenAI, or refuses every request with its key in the answer.
func modelServer(t *testing.T, refuse bool) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		if refuse {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"the key %s is wrong","type":"invalid_request_error","code":"invalid_api_key"}}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"yes"},"finish_reason":null}]}`+"\n\n"+
			`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", asked
}

func TestDoctorTries(t *testing.T) {
	t.Parallel()
	const key = "sk-a-key-that-is-never-shown"
	doctor := func(t *testing.T, env []string, args ...string) said {
		t.Helper()
		env = append([]string{"INSPAN_SANDBOX=host", "ANTHROPIC_API_KEY=", "GEMINI_API_KEY=", "MODEL="}, env...)
		return process(t, t.TempDir(), env, append([]string{"doctor"}, args...)...)
	}
	line := func(s said, what string) string {
		for l := range strings.Lines(s.out) {
			if strings.Contains(l, what) {
				return l
			}
		}
		return ""
	}
	t.Run("CLI-7 it commits in the sandbox, writes into the store, and ends with 0 where all that is needed works", func(t *testing.T) {
		t.Parallel()
		s := doctor(t, nil)
		if s.code != 0 || !strings.HasPrefix(line(s, "git commit"), "ok ") || !strings.HasPrefix(line(s, "store folder"), "ok ") || !strings.Contains(s.out, "works in sandbox host") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
	t.Run("CLI-7 SBX-13 it says where commands of sandboxes can answer the gates of their own run", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			env  string
			want []string
		}{
			{"INSPAN_SANDBOX=host", []string{"may reach the station", "tools that need host are refused", "INSPAN_ONLY_SIGNED"}},
			{"INSPAN_SANDBOX_REACHES_STATION=true", []string{"may reach the station", "INSPAN_SANDBOX_REACHES_STATION accepts it"}},
		} {
			s := doctor(t, []string{c.env}, "--no-model")
			for _, want := range c.want {
				if !strings.Contains(s.out, want) {
					t.Errorf("%s: %q is not said:\n%s", c.env, want, s.out)
				}
			}
		}
	})
	t.Run("CLI-7 it asks a model that has a key or an address, once", func(t *testing.T) {
		t.Parallel()
		url, asked := modelServer(t, false)
		s := doctor(t, []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=" + key, "MODEL=openai/m"})
		if s.code != 0 || asked.Load() != 1 || !strings.Contains(line(s, "model "), "openai/m answers") {
			t.Errorf("exit %d, asked %d times\n%s%s", s.code, asked.Load(), s.out, s.err)
		}
	})
	t.Run("CLI-7 a model that refuses is what does not work, and its key is shown nowhere", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{nil, {"--json"}} {
			url, asked := modelServer(t, true)
			s := doctor(t, []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=" + key}, args...)
			if s.code != 1 || asked.Load() == 0 || !strings.Contains(s.out, "does not answer") || strings.Contains(s.out+s.err, key) {
				t.Errorf("exit %d, asked %d times\n%s%s", s.code, asked.Load(), s.out, s.err)
			}
		}
	})
	t.Run("CLI-7 with --no-model none is asked", func(t *testing.T) {
		t.Parallel()
		url, asked := modelServer(t, true)
		if s := doctor(t, []string{"OPENAI_BASE_URL=" + url, "OPENAI_API_KEY=" + key}, "--no-model"); s.code != 0 || asked.Load() != 0 {
			t.Errorf("exit %d, asked %d times\n%s%s", s.code, asked.Load(), s.out, s.err)
		}
	})
	t.Run("CLI-7 a store that cannot be written is what does not work", func(t *testing.T) {
		t.Parallel()
		s := doctor(t, []string{"INSPAN_STORE=/proc/inspan"})
		if s.code != 1 || !strings.HasPrefix(line(s, "store folder"), "FAIL") || !strings.Contains(s.err, "store") {
			t.Errorf("exit %d\n%s%s", s.code, s.out, s.err)
		}
	})
}
