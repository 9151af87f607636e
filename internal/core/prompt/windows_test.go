package prompt_test

import (
	"testing"

	"github.com/inspan/inspan/internal/core/prompt"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	configured, err := prompt.ParseWindows([]string{"openai/local-*=8192", " scripted/tiny=1000", "anthropic/claude-big=1000000"})
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]int{"openai/local-7b": 8192, "scripted/tiny": 1000, "scripted/other": 0, "anthropic/claude-big": 1_000_000,
		"anthropic/claude-sonnet-4-20250514": 200_000, "openai/gpt-4o-mini": 128_000, "gemini/gemini-2.5-pro": 1_048_576, "openai/who-knows": 32_768} {
		t.Run("LOOP-10 the context window of "+model, func(t *testing.T) {
			t.Parallel()
			if got := configured.Of(model); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
	for _, bad := range []string{"", "openai/x", "x=5", "openai/x=-1", "openai/x=many", "openai/[=5", "openai/x=100000001"} {
		t.Run("LOOP-10 "+bad+" is no window", func(t *testing.T) {
			t.Parallel()
			if _, err := prompt.ParseWindows([]string{bad}); err == nil {
				t.Errorf("%q was taken", bad)
			}
		})
	}
}
