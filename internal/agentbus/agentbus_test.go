package agentbus_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentbus"
)

func TestRead(t *testing.T) {
	t.Parallel()
	t.Run("ECO-5 a prompt is text or an envelope, and what is neither is refused with what to send", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"list files": "list files", " x\n": "x", `{"prompt":"look","later":1}`: "look",
			`{"prompt":"a","session_id":"s","attachments":[]}`: "a"} {
			if e, err := agentbus.Read([]byte(in)); err != nil || e.Prompt != want {
				t.Errorf("%q: %+v, %v", in, e, err)
			}
		}
		for in, want := range map[string]string{"": "missing or empty", "  ": "missing or empty", "{}": "missing or empty",
			`{"prompt":1}`: "no envelope", `{"prompt":"x"`: "no envelope", "\xff": "no text",
			`{"prompt":"x","attachments":[{"filename":"a","content":""}]}`: "attachments",
			strings.Repeat("x", agentbus.MaxPrompt+1):                      "more than"} {
			if e, err := agentbus.Read([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: %+v, %v, want %q", in, e, err, want)
			}
		}
		if _, err := agentbus.Read([]byte(strings.Repeat("x", agentbus.MaxPrompt))); err != nil {
			t.Error(err)
		}
	})
	t.Run("ECO-5 GATE-6 the answer to a question is its first word, with the reason behind it", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"approve": "approve|", "Reject: too much": "reject|too much",
			`{"prompt":"APPROVE"}`: "approve|", "maybe later": "maybe|later"} {
			word, rest, err := agentbus.Decision([]byte(in))
			if err != nil || word+"|"+rest != want {
				t.Errorf("%q: %q %q %v", in, word, rest, err)
			}
		}
	})
}
