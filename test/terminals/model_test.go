//go:build slow

package terminals

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// key is the one that the provider knows.
const key = "sk-ant-the-key-of-anna"

// provider speaks Anthropic's stream: it repairs the project of these sessions. While it is away it answers 529.
type provider struct {
	*httptest.Server
	away atomic.Bool
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Content json.RawMessage }
		Tools    []json.RawMessage
	}
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &asked)
	}
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_request_error", "no request")
	case r.Header.Get("X-Api-Key") != key:
		refuse(w, http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
	case p.away.Load():
		refuse(w, 529, "overloaded_error", "Overloaded")
	case len(asked.Tools) == 0:
		answer(w, "Yes.", "", "")
	default:
		p.work(w, asked.Messages[0].Content, strings.Count(string(b), `"tool_result"`))
	}
}

// work is the next turn after so many results.
func (p *provider) work(w http.ResponseWriter, task json.RawMessage, results int) {
	switch {
	case strings.Contains(string(task), "What is this"):
		answer(w, "A price calculator in **shell**: `price.sh` adds a tax to a price, and `make test` checks it. One thing is odd: the "+
			"test expects 119, and the script subtracts the tax.", "", "")
	case results == 0:
		answer(w, "I run the test first.", "bash", `{"command":"make test"}`)
	case results == 1:
		answer(w, "The tax is subtracted where it must be added. I correct that.", "edit",
			`{"path":"price.sh","old_string":"net - net * tax / 100","new_string":"net + net * tax / 100"}`)
	case results == 2:
		answer(w, "Does it hold?", "bash", `{"command":"make test"}`)
	default:
		answer(w, "`price.sh` subtracted the tax; it adds it now. `make test` passes.", "", "")
	}
}

func refuse(w http.ResponseWriter, code int, class, text string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, class, text)
}

func answer(w http.ResponseWriter, text, tool, input string) {
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(v any) {
		b, err := json.Marshal(v)
		if err == nil {
			fmt.Fprintf(w, "data: %s\n\n", b)
		}
	}
	type m = map[string]any
	say(m{"type": "message_start", "message": m{"id": "m", "model": "claude", "usage": m{"input_tokens": 1840, "output_tokens": 1}}})
	say(m{"type": "content_block_start", "index": 0, "content_block": m{"type": "text", "text": ""}})
	say(m{"type": "content_block_delta", "index": 0, "delta": m{"type": "text_delta", "text": text}})
	say(m{"type": "content_block_stop", "index": 0})
	reason := "end_turn"
	if tool != "" {
		reason = "tool_use"
		say(m{"type": "content_block_start", "index": 1, "content_block": m{"type": "tool_use", "id": "t", "name": tool, "input": m{}}})
		say(m{"type": "content_block_delta", "index": 1, "delta": m{"type": "input_json_delta", "partial_json": input}})
		say(m{"type": "content_block_stop", "index": 1})
	}
	say(m{"type": "message_delta", "delta": m{"stop_reason": reason}, "usage": m{"output_tokens": 64}})
	say(m{"type": "message_stop"})
}
