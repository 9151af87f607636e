//go:build integration

package models

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// TestLive lets a real station work with real models. It costs money, so it runs only where HARNESS_E2E_TEST is 1 and
// only with the providers whose keys are set; LIVE_MODEL_ANTHROPIC and so on name other models.
func TestLive(t *testing.T) {
	cfg, err := service.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		name, model string
		key         secret.Value
		address     string
	}{
		{"ANTHROPIC", "anthropic/claude-sonnet-4-20250514", cfg.AnthropicKey, ""},
		{"OPENAI", "openai/gpt-4o-mini", cfg.OpenAIKey, cfg.OpenAIBaseURL},
		{"GEMINI", "gemini/gemini-2.5-flash", cfg.GeminiKey, ""},
	} {
		t.Run("TEST-8 a live model of "+p.name+" carries a run out", func(t *testing.T) {
			p.model = asked(t, p.name, p.model, p.key, p.address)
			ends := carry(t, p.model, cfg, liveWait, nil, "Use the tool write to put exactly these words into the file letter.txt: the alpha letter. "+
				"Then use the tool read to read that file, and answer with its content and nothing else.")
			end := ends[0]
			if end.Status != events.Completed || !strings.Contains(end.Result.Output, "the alpha letter") {
				t.Fatalf("%s: %s, %+v", p.model, end.Status, end.Result)
			}
			done, input := map[string]bool{}, 0
			for i := range end.ToolCallHistory.Len() {
				if c := end.ToolCallHistory.At(i); c.Success {
					done[c.CallName] = true
				}
			}
			for _, turn := range run.All(end.Turns()) {
				input += turn.InputTokens
			}
			if !done["write"] || !done["read"] || input == 0 {
				t.Errorf("%s: calls that worked %v, %d tokens in", p.model, done, input)
			}
		})
		t.Run("SESS-19 SESS-11 TEST-8 a live model of "+p.name+" goes on with what was said and done before", func(t *testing.T) {
			p.model = asked(t, p.name, p.model, p.key, p.address)
			ends := carry(t, p.model, cfg, liveWait, nil, "My name for this project is Bluebird. Use the tool write to create the file calc.py with a Python function add(a, b).",
				"Use the tools read and write to give that same file a second function, mul(a, b), beside the first one.",
				"Use the tool read to read the file once more. Answer with one line: the name of the project that I told you, and the names of the functions in the file.")
			if len(ends) != 3 {
				t.Fatalf("%d inputs ended", len(ends))
			}
			for i, end := range ends {
				if end.Status != events.Completed {
					t.Fatalf("input %d: %s %+v", i+1, end.Status, end.Result)
				}
			}
			for _, word := range []string{"bluebird", "add", "mul"} {
				if out := ends[2].Result.Output; !strings.Contains(strings.ToLower(out), word) {
					t.Errorf("no %s in %q", word, out)
				}
			}
		})
	}
}

// asked returns the model to ask, where the test may ask one.
func asked(t *testing.T, provider, model string, key secret.Value, address string) string {
	t.Helper()
	if os.Getenv("HARNESS_E2E_TEST") != "1" {
		leaveOut(t, "HARNESS_E2E_TEST is not 1")
	}
	if key.Empty() && address == "" {
		leaveOut(t, provider+"_API_KEY is not set")
	}
	if other := os.Getenv("LIVE_MODEL_" + provider); other != "" {
		return other
	}
	return model
}

// leaveOut says loudly that a test did not run.
func leaveOut(t *testing.T, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s\n", t.Name(), why)
	t.Skip("NOT TESTED: " + why)
}
