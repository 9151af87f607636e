//go:build integration

package models

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// liveWait is how long one live run may take; make live gives all of them ten minutes.
const liveWait = 5 * time.Minute

// TestLive lets a real station work with real models. It costs money, so it runs only where HARNESS_E2E_TEST is 1 and only
// with the providers whose keys are set; LIVE_MODEL_ANTHROPIC and so on name other models.
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
			if os.Getenv("HARNESS_E2E_TEST") != "1" {
				leaveOut(t, "HARNESS_E2E_TEST is not 1")
			}
			if p.key.Empty() && p.address == "" {
				leaveOut(t, p.name+"_API_KEY is not set")
			}
			if other := os.Getenv("LIVE_MODEL_" + p.name); other != "" {
				p.model = other
			}
			end := carry(t, p.model, cfg, "Use the tool write to put exactly these words into the file letter.txt: the alpha letter. "+
				"Then use the tool read to read that file, and answer with its content and nothing else.", liveWait)
			if end.Status != events.Completed || !strings.Contains(end.Result.Output, "the alpha letter") {
				t.Fatalf("%s: %s, %+v", p.model, end.Status, end.Result)
			}
			done, input := map[string]bool{}, 0
			for i := range end.ToolCallHistory.Len() {
				if c := end.ToolCallHistory.At(i); c.Success {
					done[c.CallName] = true
				}
			}
			for _, turn := range end.Turns().All() {
				input += turn.InputTokens
			}
			if !done["write"] || !done["read"] || input == 0 {
				t.Errorf("%s: calls that worked %v, %d tokens in", p.model, done, input)
			}
		})
	}
}

// leaveOut says loudly that a test did not run.
func leaveOut(t *testing.T, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "NOT TESTED: %s: %s\n", t.Name(), why)
	t.Skip("NOT TESTED: " + why)
}
