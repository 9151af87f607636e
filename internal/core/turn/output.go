package turn

import (
	"strings"

	"github.com/inspan/inspan/pkg/run"
)

// Document is the JSON document of an answer: the text without the space around it, and without the fence that models
// like to put around JSON.
func Document(text string) string {
	text = strings.TrimSpace(text)
	body, fenced := strings.CutPrefix(text, "```")
	if body, ended := strings.CutSuffix(body, "```"); fenced && ended {
		if kind, rest, ok := strings.Cut(body, "\n"); ok && len(kind) < 16 {
			return strings.TrimSpace(rest)
		}
	}
	return text
}

// Mending reports whether the turn that a step is owed is the one in which the model fixes its last answer. No other
// service says anything before it, so the delivery that made the answer owed goes on with it.
func Mending(s run.State, step string) bool {
	st := s.Step(step)
	if st == nil || st.Owed == 0 || st.Owed == st.AllowedAt || !st.Mended {
		return false // the first turn of a fork is owed since its step was allowed, and is that event's
	}
	for _, t := range s.Turns().Backward() {
		if t.Step == step {
			return t.Fault != "" && len(t.Calls) == 0
		}
	}
	return false
}
