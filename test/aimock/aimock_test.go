//go:build slow

package aimock

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/anthropic"
	"github.com/inspan/inspan/internal/llm/gemini"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/openai"
)

// version of the package; another one may speak differently.
const version = "1.43.0"

const fixtures = `{"fixtures":[
{"match":{"userMessage":"stream"},"chunkSize":7,"response":{"content":"The quick brown fox, é好, jumps twice.","reasoning":"I think about foxes."}},
{"match":{"userMessage":"use tools","hasToolResult":false},"response":{"content":"I look.","toolCalls":[
  {"name":"list","arguments":"{\"dir\":\"a\"}"},{"name":"list","arguments":"{\"dir\":\"b \\\"q\\\"\"}"}]}},
{"match":{"userMessage":"use tools","toolResultContains":"two.go"},"response":{"content":"Both are read."}},
{"match":{"userMessage":"two pictures"},"response":{"content":"A cat."}},
{"match":{"userMessage":"limit"},"response":{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"},"status":429,"retryAfter":7}},
{"match":{"userMessage":"bad key"},"response":{"error":{"message":"no such key","type":"authentication_error"},"status":401}},
{"match":{"userMessage":"down"},"response":{"error":{"message":"overloaded","type":"overloaded_error"},"status":503}},
{"match":{"userMessage":"bad request"},"response":{"error":{"message":"no","type":"invalid_request_error"},"status":400}},
{"match":{"userMessage":"cut"},"chunkSize":4,"truncateAfterChunks":3,"response":{"content":"This answer is cut in the middle and never ends."}},
{"match":{"userMessage":"gone"},"chunkSize":4,"latency":20,"disconnectAfterMs":90,"response":{"content":"This answer is cut in the middle and never ends."}},
{"match":{"userMessage":"drop"},"chaos":{"dropRate":1},"response":{"content":"x"}},
{"match":{"userMessage":"disconnect"},"chaos":{"disconnectRate":1},"response":{"content":"x"}}
]}`

type adapter struct {
	name, model string
	llm.Model
}

func TestAIMock(t *testing.T) {
	url := serve(t)
	all := adapters(t, url)
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Run("LOOP-13 text and thinking are streamed", func(t *testing.T) { streams(t, a) })
			t.Run("PLUS-7 what is refused or cut is told as what it is", func(t *testing.T) { troubles(t, a) })
			for _, b := range all {
				t.Run("PLUS-2 calls of "+a.name+" are answered to "+b.name, func(t *testing.T) { tools(t, a, b) })
			}
			t.Run("an image is taken", func(t *testing.T) {
				q := ask(a, "two pictures")
				q.Messages[0].Images = []llm.Image{{MediaType: "image/png", Data: []byte("\x89PNG")}}
				if got := llmtest.Whole(t, a, q); got.Text != "A cat." {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
	understood(t, url)
}

func adapters(t *testing.T, url string) []adapter {
	t.Helper()
	out := []adapter{{name: "anthropic", model: "claude-sonnet-4-5"}, {name: "openai chat", model: "gpt-5"},
		{name: "openai responses", model: "gpt-5"}, {name: "gemini", model: "gemini-2.5-pro"}}
	var errs [4]error
	out[0].Model, errs[0] = anthropic.New(anthropic.Config{APIKey: llmtest.Key, BaseURL: url})
	out[1].Model, errs[1] = openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: url + "/v1"})
	out[2].Model, errs[2] = openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: url + "/v1", API: openai.Responses})
	out[3].Model, errs[3] = gemini.New(gemini.Config{APIKey: llmtest.Key, BaseURL: url})
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return out
}

// ask is a question that the fixtures answer by its text.
func ask(a adapter, text string) llm.Request {
	return llm.Request{Model: a.model, System: "Be exact.", Messages: []llm.Message{{Role: llm.User, Text: text}},
		Tools: []llm.Tool{{Name: "list", Description: "lists", Input: json.RawMessage(`{"type":"object","properties":{"dir":{"type":"string"}}}`)}}}
}

func streams(t *testing.T, a adapter) {
	pieces := 0
	got, err := a.Ask(t.Context(), ask(a, "stream"), func(llm.Delta) { pieces++ })
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != "The quick brown fox, é好, jumps twice." || got.Finish != llm.Done || pieces < 4 {
		t.Errorf("got %+v in %d pieces", got, pieces)
	}
	if got.Thinking != "I think about foxes." {
		t.Errorf("got thinking %q", got.Thinking)
	}
	llmtest.Whole(t, a, ask(a, "stream"))
	t.Logf("%d pieces, raw of %d bytes", pieces, len(got.Raw))
}

// tools asks a, which calls, and gives the results to b.
func tools(t *testing.T, a, b adapter) {
	q := ask(a, "use tools")
	got := llmtest.Whole(t, a, q)
	if len(got.Calls) != 2 || got.Finish != llm.ToolUse || got.Text != "I look." ||
		!llmtest.SameJSON(got.Calls[0].Input, []byte(`{"dir":"a"}`)) || !llmtest.SameJSON(got.Calls[1].Input, []byte(`{"dir":"b \"q\""}`)) {
		t.Fatalf("got %+v", got)
	}
	q.Model = b.model
	q.Messages = append(q.Messages, llm.Message{Role: llm.Assistant, Text: got.Text, Calls: got.Calls, Raw: got.Raw, Provider: got.Provider},
		llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: got.Calls[1].ID, Output: "two.go"}}})
	if end := llmtest.Whole(t, b, q); end.Text != "Both are read." || end.Finish != llm.Done {
		t.Errorf("got %+v", end)
	}
}

func troubles(t *testing.T, a adapter) {
	for text, want := range map[string]struct {
		class  llm.Class
		status int
		wait   time.Duration
	}{
		"limit": {llm.RateLimit, 429, 7 * time.Second}, "bad key": {llm.Auth, 401, 0}, "down": {llm.Transient, 503, 0},
		"bad request": {llm.Invalid, 400, 0}, "drop": {llm.Transient, 500, 0},
		"cut": {llm.Transient, 0, 0}, "gone": {llm.Transient, 0, 0}, "disconnect": {llm.Transient, 0, 0},
	} {
		_, err := a.Ask(t.Context(), ask(a, text), nil)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Class != want.class || e.Status != want.status || e.RetryAfter != want.wait {
			t.Errorf("%s: got %v, want %+v", text, err, want)
			continue
		}
		llmtest.NoKey(t, err)
		t.Logf("%s: %v", text, err)
	}
}

// understood checks how the mock read our requests: each call with its result directly after it.
func understood(t *testing.T, url string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/__aimock/journal", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var journal []struct {
		Path string
		Body struct {
			Messages []struct {
				Role      string
				ToolCalls []struct{ ID string } `json:"tool_calls"`
				CallID    string                `json:"tool_call_id"`
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&journal); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for i, entry := range journal {
		var open []string
		for _, m := range entry.Body.Messages {
			switch {
			case m.Role == "tool" && (len(open) == 0 || m.CallID != "" && m.CallID != open[0]):
				t.Errorf("request %d to %s: a result for %q, open calls are %q", i, entry.Path, m.CallID, open)
			case m.Role == "tool":
				open = open[1:]
			case m.Role != "assistant" && len(open) > 0: // it makes a message of each call
				t.Errorf("request %d to %s: calls %q without results", i, entry.Path, open)
			}
			for _, c := range m.ToolCalls {
				open, calls = append(open, c.ID), calls+1
			}
		}
		if len(open) > 0 {
			t.Errorf("request %d to %s: calls %q without results at its end", i, entry.Path, open)
		}
	}
	if len(journal) == 0 || calls == 0 {
		t.Errorf("the journal has %d requests and %d calls", len(journal), calls)
	}
	t.Logf("aimock %s read %d requests with %d calls", version, len(journal), calls)
}

// serve installs the mock and starts it; it ends with the test.
func serve(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("NOT TESTED: %s is not on this machine: %v", program, err)
		}
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "@copilotkit/aimock@"+version)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("NOT TESTED: npm cannot install the mock: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "fixtures.json")
	if err := os.WriteFile(file, []byte(fixtures), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js"),
		"-p", "0", "-h", "127.0.0.1", "-f", file, "--strict", "--validate-on-load")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it was killed
	})
	url, err := listening(out)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// listening reads until the mock says where it listens.
func listening(out io.Reader) (string, error) {
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if url := address.FindString(lines.Text()); url != "" {
			return url, nil
		}
	}
	return "", fmt.Errorf("the mock did not start: %s", said.String())
}
