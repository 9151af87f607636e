package sdk

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	claudestream "github.com/anthropics/anthropic-sdk-go/packages/ssestream"
	openaistream "github.com/openai/openai-go/v3/packages/ssestream"
	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/llm/wire"
)

// TestEvents compares wire.Events with the readers of two SDKs, on streams that end after an event: they know LF and
// CRLF, no byte order mark, and leave the line feed of the last data line in.
func TestEvents(t *testing.T) {
	t.Parallel()
	lines := []string{"", "", "data: a", "data:b", "data:  c: d", "data", "data: {\"x\":1}", "event: x", "event:y", "id: 7", ": comment", ":", "retry: 5", "odd: z", "dat"}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 30).Draw(rt, "lines") {
			b.WriteString(rapid.SampledFrom(lines).Draw(rt, "line") + rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(rt, "end"))
		}
		text := b.String() + "\n"
		var got []string
		for e, err := range wire.Events(strings.NewReader(text)) {
			if err != nil {
				rt.Fatalf("%q: %v", text, err)
			}
			got = append(got, e.Type+"|"+string(e.Data))
		}
		response := func() *http.Response {
			return &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(text))}
		}
		var theirs [2][]string
		for d := claudestream.NewDecoder(response()); d.Next(); {
			if len(d.Event().Data) == 0 {
				continue // it tells of a type without data
			}
			theirs[0] = append(theirs[0], d.Event().Type+"|"+strings.TrimSuffix(string(d.Event().Data), "\n"))
		}
		for d := openaistream.NewDecoder(response()); d.Next(); {
			theirs[1] = append(theirs[1], d.Event().Type+"|"+strings.TrimSuffix(string(d.Event().Data), "\n"))
		}
		for i, want := range theirs {
			if !slices.Equal(got, want) {
				rt.Fatalf("%q: got %q, SDK %d reads %q", text, got, i, want)
			}
		}
	})
}
