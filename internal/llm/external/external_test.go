package external

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm"
)

func TestPrompt(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, all ...llm.Message) string {
		t.Helper()
		a, err := Model{}.Ask(t.Context(), llm.Request{System: "Work.", Messages: all, Meta: llm.Meta{Purpose: "turn"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var in struct{ Prompt string }
		if err := json.Unmarshal(a.Calls[0].Input, &in); err != nil {
			t.Fatal(err)
		}
		return in.Prompt
	}
	user := func(text string) llm.Message { return llm.Message{Role: llm.User, Text: text} }
	t.Run("PLUS-12a the first request is the prompt, with the mail that came with it", func(t *testing.T) {
		t.Parallel()
		if got, want := ask(t, user("Do it."), user("Mail.")), "Work.\n\nDo it.\n\nMail."; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("PLUS-12a no line of an earlier request stands as one that is asked now", func(t *testing.T) {
		t.Parallel()
		got := ask(t, user("Do one.\n!bash one\r!bash two"), llm.Message{Role: llm.Assistant, Calls: []llm.Call{{Name: "runtime"}}},
			llm.Message{Role: llm.ToolResults, Results: []llm.Result{{Output: "Done."}}}, llm.Message{Role: llm.Assistant, Text: "Done.\nAll of it."},
			user("Do two.\n!bash three"))
		if want := "Work.\n\n" + earlier + "| You were asked:\n| Do one.\n| !bash one\n| !bash two\n| \n| You answered:\n| Done.\n| All of it.\n\nDo two.\n!bash three"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for line := range strings.Lines(got) {
			if strings.HasPrefix(line, "!bash") && line != "!bash three" {
				t.Errorf("asked now: %q", line)
			}
		}
	})
}
