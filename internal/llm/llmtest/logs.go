package llmtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/llm"
)

// Draws makes a request from a random log, in which the answers of provider stand as raw made them.
type Draws func(t *rapid.T, provider string, raw func(text string, calls []llm.Call) json.RawMessage) llm.Request

// Logs asks an adapter with the requests that executors make from random logs. Each must be one that valid accepts,
// hold nothing that another provider thought, and be the same bytes when it is asked again.
func Logs(t *testing.T, d Dialect, valid func(body []byte) error, draw Draws, foreign string) {
	t.Run("PLUS-2 PRMT-8 PROP-26 from any log the request is one that the provider accepts, and the same bytes again",
		func(t *testing.T) {
			t.Parallel()
			var next Reply
			s := Serve(t, func(w http.ResponseWriter, r *http.Request) { next(w, r) })
			m := model(t, d, s)
			ask := func(rt *rapid.T, q llm.Request, said Completion) llm.Answer {
				next = Stream(frames(d, said)...)
				a, err := m.Ask(t.Context(), q, nil)
				if err != nil {
					rt.Fatalf("ask: %v", err)
				}
				return a
			}
			rapid.Check(t, func(rt *rapid.T) {
				q := draw(rt, d.Name(), func(text string, calls []llm.Call) json.RawMessage {
					said := Completion{Text: []string{text}, Finish: llm.Done}
					for _, c := range calls {
						said.Finish = llm.ToolUse
						said.Calls = append(said.Calls, CompletionCall{ID: c.ID, Name: c.Name, Parts: []string{string(c.Input)}})
					}
					return ask(rt, question(), said).Raw
				})
				q.Model = "model-1"
				ask(rt, q, Completion{Text: []string{"ok"}, Finish: llm.Done})
				first := bytes.Clone(s.Last())
				if err := valid(first); err != nil {
					rt.Fatalf("the provider would refuse it: %v\nhistory %s\nrequest %s", err, show(q.Messages), first)
				}
				if bytes.Contains(first, []byte(foreign)) {
					rt.Fatalf("another provider's thought is sent: %s", first)
				}
				if ask(rt, q, Completion{Text: []string{"ok"}, Finish: llm.Done}); !bytes.Equal(s.Last(), first) {
					rt.Fatalf("the same log gave another request:\n%s\n%s", first, s.Last())
				}
			})
		})
}
