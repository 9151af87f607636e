package acp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

const (
	// maxShown is the most bytes of the output of a tool that an editor is shown, maxTitle of the title of a call.
	maxShown = 16 << 10
	maxTitle = 200
)

// block is a part of a prompt.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI  string  `json:"uri"`
		Text *string `json:"text"`
	} `json:"resource"`
}

// promptOf is a prompt as text: files that the editor sends with it stand where they are named.
func promptOf(blocks []block) (string, error) {
	var b strings.Builder
	for _, p := range blocks {
		switch {
		case p.Type == "text":
			b.WriteString(p.Text)
		case p.Type == "resource_link":
			fmt.Fprintf(&b, "[%s](%s)", p.Name, p.URI)
		case p.Type == "resource" && p.Resource.Text != nil:
			fmt.Fprintf(&b, "\n<file uri=%q>\n%s\n</file>\n", p.Resource.URI, *p.Resource.Text)
		default:
			return "", &rpcError{codeParams, fmt.Sprintf("a prompt of text only: a part is %.32q", p.Type)}
		}
	}
	text := b.String()
	if strings.TrimSpace(text) == "" || len(text) > events.MaxTask {
		return "", &rpcError{codeParams, fmt.Sprintf("the prompt has %d bytes, want 1 to %d", len(text), events.MaxTask)}
	}
	return text, nil
}

func textBlock(text string) map[string]any { return map[string]any{"type": "text", "text": text} }

// contentOf is what a call came to, as far as it is shown.
func contentOf(text string) []any {
	if text == "" {
		return []any{}
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n... (cut off)"
	}
	return []any{map[string]any{"type": "content", "content": textBlock(text)}}
}

// titleOf is a call in one line.
func titleOf(tool string, input json.RawMessage) string {
	return view.Clip(strings.TrimSpace(tool+" "+string(events.Plain(input))), maxTitle)
}

// kinds of built-in tools; the others are "other".
var kinds = map[string]string{"read": "read", "list": "search", "glob": "search", "grep": "search", "write": "edit",
	"edit": "edit", "patch": "edit", "apply_patch": "edit", "bash": "execute", "shell": "execute", "fetch": "fetch",
	"web_fetch": "fetch", "web_search": "search", "delegate": "think"}

func kindOf(tool string) string {
	if k := kinds[tool]; k != "" {
		return k
	}
	return "other"
}
