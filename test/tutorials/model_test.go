package tutorials

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// answer is what the model says in one turn.
type answer struct {
	Text  string `yaml:"text"`
	Calls []struct {
		Name  string         `yaml:"name"`
		Input map[string]any `yaml:"input"`
	} `yaml:"calls"`
}

// model serves answers in the wire format of the Messages API, one for each turn of a conversation.
func model(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var answers []answer
	if err := yaml.Unmarshal(b, &answers); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct {
				Role string `json:"role"`
			} `json:"messages"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		turn := 0
		for _, m := range asked.Messages {
			if m.Role == "assistant" {
				turn++
			}
		}
		if turn >= len(answers) {
			http.Error(w, fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":"%s has no answer %d"}}`, file, turn+1), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		answers[turn].send(w, turn)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// send writes an answer as the stream of a message.
func (a answer) send(w io.Writer, turn int) {
	event := func(kind string, fields map[string]any) {
		fields["type"] = kind
		b, err := json.Marshal(fields)
		if err != nil {
			panic(err) // values of YAML
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	}
	index := 0
	block := func(start, delta map[string]any) {
		event("content_block_start", map[string]any{"index": index, "content_block": start})
		event("content_block_delta", map[string]any{"index": index, "delta": delta})
		event("content_block_stop", map[string]any{"index": index})
		index++
	}
	event("message_start", map[string]any{"message": map[string]any{"id": fmt.Sprint("msg_", turn), "type": "message", "role": "assistant",
		"model": "claude", "content": []any{}, "usage": map[string]any{"input_tokens": 1200, "output_tokens": 1}}})
	if a.Text != "" {
		block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": strings.TrimSpace(a.Text)})
	}
	stop := "end_turn"
	for i, c := range a.Calls {
		stop = "tool_use"
		input, err := json.Marshal(c.Input)
		if err != nil {
			panic(err) // values of YAML
		}
		block(map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", turn, i), "name": c.Name, "input": map[string]any{}},
			map[string]any{"type": "input_json_delta", "partial_json": string(input)})
	}
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop}, "usage": map[string]any{"output_tokens": 80}})
	event("message_stop", map[string]any{})
}
