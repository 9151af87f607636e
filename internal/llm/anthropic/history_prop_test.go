package anthropic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/services/executor/executortest"
)

func TestHistories(t *testing.T) {
	t.Parallel()
	llmtest.Histories(t, dialect{}, accepted)
	llmtest.Logs(t, dialect{}, accepted, executortest.Draw, executortest.Foreign)
}

type ruledBlock struct {
	Type, Text, Thinking, Signature, Data, ID, Name string
	Input                                           json.RawMessage
	ToolUseID                                       string          `json:"tool_use_id"`
	IsError                                         bool            `json:"is_error"`
	Content                                         json.RawMessage `json:"content"`
	CacheControl                                    json.RawMessage `json:"cache_control"`
	Source                                          struct {
		Type, Data string
		MediaType  string `json:"media_type"`
	}
}

var (
	ruledID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	ruledName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// accepted holds a request against the rules of the Messages API: those of its reference, and those that it states in
// its refusals.
func accepted(body []byte) error {
	var r struct {
		Messages []struct {
			Role    string
			Content []ruledBlock
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if n := bytes.Count(body, []byte(`"cache_control":`)); n > 4 {
		return fmt.Errorf("%d cache marks, at most 4 are allowed", n)
	}
	if len(r.Messages) == 0 || r.Messages[0].Role != "user" || r.Messages[len(r.Messages)-1].Role != "user" {
		return fmt.Errorf("the conversation must begin and end with the user")
	}
	ids := map[string]bool{}
	var open []string // calls of the message before
	for i, m := range r.Messages {
		if m.Role == "assistant" && r.Messages[i-1].Role == "assistant" {
			return fmt.Errorf("message %d: assistant after assistant", i)
		}
		var calls, results []string
		for j, b := range m.Content {
			if err := acceptedBlock(b, m.Role); err != nil {
				return fmt.Errorf("message %d, block %d: %w", i, j, err)
			}
			switch b.Type {
			case "tool_use":
				if ids[b.ID] {
					return fmt.Errorf("message %d: tool_use ids must be unique, %q is not", i, b.ID)
				}
				ids[b.ID], calls = true, append(calls, b.ID)
			case "tool_result":
				if len(results) != j {
					return fmt.Errorf("message %d: results must come first", i)
				}
				results = append(results, b.ToolUseID)
			}
		}
		if len(m.Content) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		if !slices.Equal(results, open) {
			return fmt.Errorf("message %d: results for %q, the calls before are %q", i, results, open)
		}
		if last := m.Content[len(m.Content)-1].Type; m.Role == "assistant" && strings.Contains(last, "thinking") {
			return fmt.Errorf("message %d: the final block cannot be %s", i, last)
		}
		open = calls
	}
	return nil
}

func acceptedBlock(b ruledBlock, role string) error {
	of := map[string]string{"tool_use": "assistant", "thinking": "assistant", "tool_result": "user", "image": "user"}[b.Type]
	if of != "" && of != role {
		return fmt.Errorf("%s of the %s", b.Type, role)
	}
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return fmt.Errorf("text must not be blank")
		}
	case "thinking":
		if b.Signature == "" || b.CacheControl != nil {
			return fmt.Errorf("thinking needs its signature and takes no cache mark")
		}
	case "tool_use":
		if !ruledID.MatchString(b.ID) || !ruledName.MatchString(b.Name) || !bytes.HasPrefix(b.Input, []byte("{")) {
			return fmt.Errorf("call %q of %q with %s", b.ID, b.Name, b.Input)
		}
	case "tool_result":
		var inside []ruledBlock
		if len(b.Content) == 0 || b.Content[0] == '"' {
			return nil
		}
		if err := json.Unmarshal(b.Content, &inside); err != nil || len(inside) == 0 {
			return fmt.Errorf("result %s: %w", b.Content, err)
		}
		for _, i := range inside {
			if i.Type != "text" && (i.Type != "image" || b.IsError) {
				return fmt.Errorf("%s in a result, is_error %v", i.Type, b.IsError)
			}
			if err := acceptedBlock(i, role); err != nil {
				return err
			}
		}
	case "image":
		if b.Source.Type != "base64" || b.Source.MediaType != "image/png" || b.Source.Data == "" {
			return fmt.Errorf("image %+v", b.Source)
		}
	}
	return nil
}
