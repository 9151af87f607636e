package openai_test

import (
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
	t.Run("chat", func(t *testing.T) {
		t.Parallel()
		llmtest.Histories(t, dialect{}, acceptedChat)
		llmtest.Logs(t, dialect{}, acceptedChat, executortest.Draw, executortest.Foreign)
	})
	t.Run("responses", func(t *testing.T) {
		t.Parallel()
		llmtest.Histories(t, responses{}, acceptedResponses)
		llmtest.Logs(t, responses{}, acceptedResponses, executortest.Draw, executortest.Foreign)
	})
}

var ruledName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// acceptedChat holds a request against the rules of Chat Completions, and against the templates of local models, which
// want the roles to alternate.
func acceptedChat(body []byte) error {
	var r struct {
		Messages []struct {
			Role       string
			Content    json.RawMessage
			Refusal    string
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID, Type string
				Function struct{ Name, Arguments *string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Messages) < 2 || r.Messages[0].Role != "system" || r.Messages[1].Role != "user" || r.Messages[len(r.Messages)-1].Role == "assistant" {
		return fmt.Errorf("want the system's message, then the user's, and none of the assistant at the end")
	}
	var open []string
	for i, m := range r.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.ToolCallID || len(m.Content) == 0 || m.Content[0] != '"' {
				return fmt.Errorf("message %d: result for %q, open calls are %q", i, m.ToolCallID, open)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d: calls %q have no results", i, open)
		}
		if i > 0 && m.Role == r.Messages[i-1].Role {
			return fmt.Errorf("message %d: %s after %s", i, m.Role, m.Role)
		}
		switch text := strings.TrimSpace(string(m.Content)); {
		case text != "" && text != "null" && text != `""` && text != "[]":
		case m.Role != "assistant" || len(m.ToolCalls) == 0 && m.Refusal == "":
			return fmt.Errorf("message %d of the %s has no content", i, m.Role)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || len(c.ID) > 40 || c.Type != "function" || c.Function.Name == nil || !ruledName.MatchString(*c.Function.Name) || c.Function.Arguments == nil {
				return fmt.Errorf("message %d: call %+v", i, c)
			}
			if slices.Contains(open, c.ID) {
				return fmt.Errorf("message %d: two calls %q", i, c.ID)
			}
			open = append(open, c.ID)
		}
	}
	return nil
}

// acceptedResponses holds a request against the rules of the Responses API without storage.
func acceptedResponses(body []byte) error {
	var r struct {
		Input []struct {
			Type, Role, Name, Arguments string
			CallID                      string           `json:"call_id"`
			Encrypted                   string           `json:"encrypted_content"`
			Output                      *json.RawMessage `json:"output"`
			Content                     json.RawMessage  `json:"content"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if len(r.Input) == 0 || r.Input[0].Role != "user" || r.Input[len(r.Input)-1].Role != "user" && r.Input[len(r.Input)-1].Output == nil {
		return fmt.Errorf("the conversation must begin with the user, and end with the user or a result")
	}
	var open []string
	used := map[string]bool{}
	reasoning := false // waits for what it led to
	for i, item := range r.Input {
		if len(open) > 0 && item.Role != "" {
			return fmt.Errorf("item %d: calls %q have no outputs", i, open)
		}
		if reasoning && (item.Role == "user" || item.Output != nil) {
			return fmt.Errorf("item %d: the reasoning before it has no following item", i)
		}
		reasoning = item.Type == "reasoning"
		switch item.Type {
		case "message":
			var parts []struct{ Type, Text, Refusal, ImageURL string }
			if err := json.Unmarshal(item.Content, &parts); err != nil || len(parts) == 0 {
				return fmt.Errorf("item %d: content %s, %w", i, item.Content, err)
			}
		case "reasoning":
			if item.Encrypted == "" {
				return fmt.Errorf("item %d: reasoning that is not encrypted is not found", i)
			}
		case "function_call":
			if item.CallID == "" || len(item.CallID) > 64 || used[item.CallID] || !ruledName.MatchString(item.Name) || item.Arguments == "" {
				return fmt.Errorf("item %d: call %+v", i, item)
			}
			used[item.CallID], open = true, append(open, item.CallID)
		case "function_call_output":
			if len(open) == 0 || open[0] != item.CallID || item.Output == nil {
				return fmt.Errorf("item %d: output for %q, open calls are %q", i, item.CallID, open)
			}
			var text string
			var parts []struct {
				Type, Text string
				ImageURL   string `json:"image_url"`
			}
			if json.Unmarshal(*item.Output, &text) != nil && (json.Unmarshal(*item.Output, &parts) != nil || len(parts) == 0) {
				return fmt.Errorf("item %d: output %s", i, *item.Output)
			}
			for _, p := range parts {
				if p.Type != "input_text" && (p.Type != "input_image" || p.ImageURL == "") {
					return fmt.Errorf("item %d: part %+v", i, p)
				}
			}
			open = open[1:]
		default:
			return fmt.Errorf("item %d: unknown type %q", i, item.Type)
		}
	}
	return nil
}
