package acceptance

import (
	"encoding/json"
	"strings"
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

// ExprNames are the names that an expression over the output of a step may use: output is its text, and doc the JSON
// document that it is, or None.
func ExprNames() []string { return []string{"output", "doc"} }

// ExprValues are the values of these names for an output.
func ExprValues(text string) map[string]any {
	var doc any
	if err := json.Unmarshal([]byte(Document(text)), &doc); err != nil {
		doc = nil
	}
	return map[string]any{"output": text, "doc": doc}
}
