package acceptance

import "strings"

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
