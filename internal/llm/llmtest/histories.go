package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/llm"
)

// foreignThought is in the thoughts of other providers; no request may hold it.
const foreignThought = "FOREIGN-THOUGHT"

// Histories asks an adapter with histories as they can stand in a log after crashes, refusals, cut answers and changes
// of the provider: open calls, results out of order, twice or of no call, blank texts, images, ids and names that fit
// nowhere. Each request must hold what was said, answer every call once and in its place, be the same bytes for the
// same history, and be one that valid accepts, which knows the provider's rules.
func Histories(t *testing.T, d Dialect, valid func(body []byte) error) {
	t.Run("PLUS-2 whatever the history, the request is one that the provider accepts", func(t *testing.T) {
		t.Parallel()
		var next Reply
		var body []byte
		s := Serve(t, func(w http.ResponseWriter, r *http.Request) { next(w, r) })
		m := model(t, d, s)
		ask := func(rt *rapid.T, q llm.Request, said Completion) llm.Answer {
			next = Stream(frames(d, said)...)
			a, err := m.Ask(t.Context(), q, nil)
			if err != nil {
				rt.Fatalf("ask: %v", err)
			}
			body = s.Last()
			return a
		}
		rapid.Check(t, func(rt *rapid.T) {
			g := &histories{T: rt, own: func(said Completion) llm.Answer { return ask(rt, question(), said) }}
			q := question()
			q.Messages = g.draw()
			ask(rt, q, Completion{Text: []string{"ok"}, Finish: llm.Done})
			first := bytes.Clone(body)
			if err := valid(first); err != nil {
				rt.Fatalf("the provider would refuse it: %v\nhistory %s\nrequest %s", err, show(q.Messages), first)
			}
			if err := g.told(d, first); err != nil {
				rt.Fatalf("%v\nhistory %s\nrequest %s", err, show(q.Messages), first)
			}
			if ask(rt, q, Completion{Text: []string{"ok"}, Finish: llm.Done}); !bytes.Equal(body, first) {
				rt.Fatalf("the same history gave another request:\n%s\n%s", first, body)
			}
		})
	})
}

func show(messages []llm.Message) string {
	b, err := json.Marshal(messages)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// histories draws one history.
type histories struct {
	*rapid.T
	own   func(Completion) llm.Answer
	out   []llm.Message
	words []string // that the request must hold
	n     int
}

func (g *histories) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(g.T, label)
}

// word is one that occurs once.
func (g *histories) word(what string) string {
	g.n++
	return what + "-" + strconv.Itoa(g.n) + "-end"
}

// must is a word that the request must hold.
func (g *histories) must(what string) string {
	w := g.word(what)
	g.words = append(g.words, w)
	return w
}

func (g *histories) draw() []llm.Message {
	for range rapid.IntRange(0, 8).Draw(g.T, "messages") {
		switch g.pick("kind", "user", "own", "own", "foreign", "orphans") {
		case "user":
			g.out = append(g.out, g.user())
		case "own":
			g.assistant(g.ownAnswer())
		case "foreign":
			g.assistant(g.foreign())
		case "orphans":
			g.out = append(g.out, llm.Message{Role: llm.ToolResults, Results: []llm.Result{{CallID: "nobody",
				Output: g.word("orphan")}}})
		}
	}
	return g.out
}

func (g *histories) user() llm.Message {
	m := llm.Message{Role: llm.User}
	if text := g.pick("text", "", " \n", "said", "said"); text == "said" {
		m.Text = g.must("user")
	} else {
		m.Text = text
	}
	m.Images = g.images()
	return m
}

func (g *histories) images() (out []llm.Image) {
	for range rapid.IntRange(0, 2).Draw(g.T, "images") {
		out = append(out, llm.Image{MediaType: "image/png", Data: []byte(g.word("png"))})
	}
	return out
}

// ownAnswer is one that came over the wire.
func (g *histories) ownAnswer() llm.Message {
	said := Completion{Finish: rapid.SampledFrom([]llm.Finish{llm.Done, llm.Length, llm.Refusal}).Draw(g.T, "finish")}
	if rapid.Bool().Draw(g.T, "thinks") {
		said.Thinking = []string{g.word("thought")}
	}
	switch g.pick("text", "none", "empty", "blank", "said") {
	case "empty":
		said.Text = []string{""}
	case "blank":
		said.Text = []string{" ", "\n"}
	case "said":
		said.Text = []string{g.must("own"), " more"}
	}
	for range rapid.IntRange(0, 3).Draw(g.T, "calls") {
		g.n++
		said.Calls = append(said.Calls, CompletionCall{ID: "own_" + strconv.Itoa(g.n), Name: "list",
			Parts: []string{g.pick("input", `{}`, `{"dir":"x"}`, `{"dir": "cu`, ``)}})
		if said.Finish == llm.Done {
			said.Finish = llm.ToolUse
		}
	}
	return asMessage(g.own(said))
}

// foreign is an answer of another provider, with ids and names as others have them.
func (g *histories) foreign() llm.Message {
	m := llm.Message{Role: llm.Assistant, Provider: g.pick("provider", "other", "scripted", "")}
	if m.Provider != "" {
		m.Raw = json.RawMessage(`[{"type":"thinking","thinking":"` + foreignThought + `","signature":"c2ln"}]`)
	}
	if text := g.pick("text", "", "\t", "said"); text == "said" {
		m.Text = g.must("foreign")
	}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"call_1", "call:1.a", "call_1_2", "é", "own_2", "",
		strings.Repeat("x", 90), strings.Repeat("x", 91)}),
		0, 3, rapid.ID).Draw(g.T, "ids")
	for _, id := range ids {
		m.Calls = append(m.Calls, llm.Call{ID: id, Name: g.pick("name", "list", "", "od d.näme", strings.Repeat("n", 200)),
			Input: json.RawMessage(g.pick("input", `{}`, `{"a":1}`, `[1]`, `"text"`, `null`, ``))})
	}
	return m
}

// assistant adds m and what became of its calls.
func (g *histories) assistant(m llm.Message) {
	g.out = append(g.out, m)
	var results []llm.Result
	for _, c := range m.Calls {
		switch g.pick("result", "given", "given", "failed", "open", "twice", "stranger") {
		case "given":
			results = append(results, llm.Result{CallID: c.ID, Name: c.Name, Output: g.must("result"), Images: g.images()})
		case "failed":
			results = append(results, llm.Result{CallID: c.ID, Output: g.must("failure"), Failed: true, Images: g.images()})
		case "twice":
			results = append(results, llm.Result{CallID: c.ID, Output: g.must("first")},
				llm.Result{CallID: c.ID, Output: g.word("second")})
		case "stranger":
			results = append(results, llm.Result{CallID: "stranger", Output: g.word("stranger")}, llm.Result{CallID: c.ID})
		}
	}
	if len(results) == 0 {
		return
	}
	if ids := distinct(results); ids && rapid.Bool().Draw(g.T, "shuffle") {
		results = rapid.Permutation(results).Draw(g.T, "results")
	}
	cut := rapid.IntRange(0, len(results)).Draw(g.T, "cut")
	if cut > 0 {
		g.out = append(g.out, llm.Message{Role: llm.ToolResults, Results: results[:cut]})
	}
	if rapid.Bool().Draw(g.T, "between") {
		g.out = append(g.out, g.user())
	}
	if cut < len(results) {
		g.out = append(g.out, llm.Message{Role: llm.ToolResults, Results: results[cut:]})
	}
}

// distinct is whether no call has two results, so that their order says nothing.
func distinct(results []llm.Result) bool {
	seen := map[string]bool{}
	for _, r := range results {
		if seen[r.CallID] {
			return false
		}
		seen[r.CallID] = true
	}
	return true
}

// told checks what holds for all providers.
func (g *histories) told(d Dialect, body []byte) error {
	for _, w := range g.words {
		if n := bytes.Count(body, []byte(w)); n != 1 {
			return fmt.Errorf("%s is told %d times, want once", w, n)
		}
	}
	if bytes.Contains(body, []byte(foreignThought)) {
		return fmt.Errorf("another provider's thought is sent")
	}
	for _, w := range []string{"orphan-", "second-", "stranger-"} {
		if bytes.Contains(body, []byte(w)) {
			return fmt.Errorf("a result of no call is sent: %s", w)
		}
	}
	h, err := d.Received(body)
	if err != nil {
		return err
	}
	for i, m := range h.Messages {
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 == len(h.Messages) || len(h.Messages[i+1].Results) != len(m.Calls) {
			return fmt.Errorf("the calls of message %d are not answered directly after it", i)
		}
		for j, r := range h.Messages[i+1].Results {
			if r.CallID != m.Calls[j].ID {
				return fmt.Errorf("result %d after message %d is for %q, want %q", j, i, r.CallID, m.Calls[j].ID)
			}
		}
	}
	return nil
}
