package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/llm/llmtest"
	"github.com/inspan/inspan/internal/llm/scripted"
)

func load(t *testing.T) *scripted.Model {
	t.Helper()
	text, err := os.ReadFile("testdata/fix-demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("fix-demo", text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func parse(t *testing.T, yaml string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("test", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask builds the request of one turn, with the last results of a tool where given.
func ask(step string, turn, attempt int, outputs ...string) llm.Request {
	req := llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "fix the greeting"}},
		Meta:     llm.Meta{Run: "r", Step: step, Turn: turn, Attempt: attempt, Purpose: "turn", Agent: "coder"},
	}
	if outputs == nil {
		return req
	}
	results := llm.Message{Role: llm.ToolResults}
	for _, o := range outputs {
		results.Results = append(results.Results, llm.Result{CallID: "c", Name: "bash", Output: o})
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.Assistant, Text: "x"}, results)
	return req
}

func TestScriptOfADemo(t *testing.T) {
	t.Parallel()
	m := load(t)
	if m.Name() != "fix-demo" {
		t.Errorf("got name %q, want fix-demo", m.Name())
	}

	t.Run("an error is asked for by the attempt, and text before it is streamed", func(t *testing.T) {
		t.Parallel()
		var got strings.Builder
		_, err := m.Ask(t.Context(), ask("fix", 1, 0), func(d llm.Delta) { got.WriteString(d.Text) })
		after, retry := llm.Retryable(err)
		if !retry || after != 50*time.Millisecond || got.String() != "Let me " {
			t.Errorf("got %v, after %v, streamed %q", err, after, got.String())
		}
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Status != 529 {
			t.Errorf("got %#v, want status 529", err)
		}
	})

	t.Run("OBS-9 OBS-10 text and thinking are streamed in pieces of the asked size", func(t *testing.T) {
		t.Parallel()
		var text, thinking []string
		a, err := m.Ask(t.Context(), ask("fix", 1, 2), func(d llm.Delta) {
			if d.Text != "" {
				text = append(text, d.Text)
			} else {
				thinking = append(thinking, d.Thinking)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(text, "|") != "I look a|t the fi|le first|." || strings.Join(thinking, "") != a.Thinking {
			t.Errorf("got %q and %q", text, thinking)
		}
		if a.Finish != llm.ToolUse || len(a.Calls) != 2 || a.Calls[0].ID != "call_1_1" || a.Calls[1].ID != "tests" {
			t.Errorf("got %+v", a)
		}
		if string(a.Calls[0].Input) != `{"path":"greet.go"}` {
			t.Errorf("got input %s", a.Calls[0].Input)
		}
	})

	t.Run("LOOP-13 usage is what the script says, else an estimate", func(t *testing.T) {
		t.Parallel()
		a, err := m.Ask(t.Context(), ask("fix", 1, 2), nil)
		if want := (llm.Usage{Input: 1200, Output: 80, CachedInput: 1000}); err != nil || a.Usage != want {
			t.Errorf("got %+v, %v, want %+v", a.Usage, err, want)
		}
		// 4 characters of output make one token; 16 of the task and 1 and 4 of the conversation make six.
		a, err = parse(t, "turns: [{text: abcd}]").Ask(t.Context(), ask("s", 2, 1, "PASS"), nil)
		if want := (llm.Usage{Input: 6, Output: 1, Estimated: true}); err != nil || a.Usage != want {
			t.Errorf("got %+v, %v, want %+v", a.Usage, err, want)
		}
	})

	t.Run("placeholders are filled in text and inputs", func(t *testing.T) {
		t.Parallel()
		a, err := m.Ask(t.Context(), ask("fix", 3, 1, "ok", "line\nFAIL \"x\" {{task}}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var in struct {
			Path, Content string
			Lines         []any
		}
		if err := json.Unmarshal(a.Calls[0].Input, &in); err != nil {
			t.Fatal(err)
		}
		if in.Path != "note-3.txt" || in.Content != "line\nFAIL \"x\" {{task}}" || in.Lines[0] != 1.0 || in.Lines[1] != "fix the greeting" {
			t.Errorf("got %+v", in)
		}
		a, err = m.Ask(t.Context(), ask("fix", 9, 1, "PASS"), nil)
		if err != nil || a.Text != "Done: fix the greeting" || a.Finish != llm.Done || len(a.Calls) != 0 {
			t.Errorf("got %+v, %v", a, err)
		}
	})

	t.Run("a question without an entry names script, step, turn and the last results", func(t *testing.T) {
		t.Parallel()
		_, err := m.Ask(t.Context(), ask("fix", 5, 1, strings.Repeat("FAIL ", 500)), nil)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Class != llm.Invalid || e.Hint == "" {
			t.Fatalf("got %v, want an llm.Error of class invalid with a hint", err)
		}
		for _, want := range []string{"fix-demo", "turn 5", `"fix"`, "FAIL FAIL", "..."} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want it to say %q", err, want)
			}
		}
		if len(err.Error()) > 600 {
			t.Errorf("got %d characters, want the results shortened", len(err.Error()))
		}
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	failed := ask("s", 1, 1, "boom")
	failed.Messages[2].Results[0].Failed = true
	steered := ask("s", 1, 1, "ok")
	steered.Messages = append(steered.Messages, llm.Message{Role: llm.User, Text: "please hurry"})
	plan := ask("s", 0, 1)
	plan.Meta.Purpose = "plan"
	cases := []struct {
		name, when string
		req        llm.Request
		want       bool
	}{
		{"nothing asked", `{}`, ask("s", 7, 1), true},
		{"the first of a range", `{turn: {from: 2, to: 4}}`, ask("s", 2, 1), true},
		{"the last of a range", `{turn: {from: 2, to: 4}}`, ask("s", 4, 1), true},
		{"before a range", `{turn: {from: 2, to: 4}}`, ask("s", 1, 1), false},
		{"after a range", `{turn: {from: 2, to: 4}}`, ask("s", 5, 1), false},
		{"an open end", `{turn: {from: 2}}`, ask("s", 1<<30, 1), true},
		{"an open start", `{turn: {to: 2}}`, ask("s", 1, 1), true},
		{"attempt zero is the first", `{attempt: 1}`, ask("s", 1, 0), true},
		{"a later attempt", `{attempt: {from: 2}}`, ask("s", 1, 1), false},
		{"another step", `{step: other}`, ask("s", 1, 1), false},
		{"a pattern of steps", `{step: "fix.*"}`, ask("fix.3", 1, 1), true},
		{"another agent", `{agent: reviewer}`, ask("s", 1, 1), false},
		{"a plan", `{purpose: plan}`, plan, true},
		{"not a plan", `{purpose: plan}`, ask("s", 1, 1), false},
		{"any of the results", `{results: {contains: b}}`, ask("s", 1, 1, "a", "b"), true},
		{"all conditions on one result", `{results: {contains: b, matches: "^a"}}`, ask("s", 1, 1, "a", "b"), false},
		{"no results", `{results: {contains: b}}`, ask("s", 1, 1), false},
		{"a failed result", `{results: {failed: true}}`, failed, true},
		{"not a failed result", `{results: {failed: true}}`, ask("s", 1, 1, "ok"), false},
		{"of another tool", `{results: {tool: read}}`, ask("s", 1, 1, "ok"), false},
		{"results before a user message", `{results: {contains: ok}}`, steered, true},
		{"the last user message", `{message: {contains: hurry}}`, steered, true},
		{"not the first user message", `{message: {contains: greeting}}`, steered, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, "turns:\n  - {when: "+c.when+", text: yes}\n  - {text: no}\n")
			a, err := m.Ask(t.Context(), c.req, nil)
			if err != nil || (a.Text == "yes") != c.want {
				t.Errorf("got %q, %v, want a match: %v", a.Text, err, c.want)
			}
		})
	}
}

func TestScriptsAreReadStrictly(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ yaml, want string }{
		"unknown key":            {"turns:\n  - text: a\n    tekst: b\n", "line 3"},
		"unknown key hints":      {"turns:\n  - text: a\n    tekst: b\n", "an entry has when, text"},
		"unknown condition":      {"turns:\n  - when: {trun: 1}\n    text: a\n", "trun"},
		"unknown in range":       {"turns:\n  - when: {turn: {form: 1}}\n    text: a\n", "form"},
		"times":                  {"turns:\n  - text: a\n    times: 2\n", "has no"},
		"empty file":             {"", "no entries"},
		"empty entry":            {"turns:\n  - when: {turn: 1}\n", "turns[0] (line 2): the entry is empty"},
		"empty range":            {"turns:\n  - when: {turn: {from: 3, to: 2}}\n    text: a\n", "range from 3 to 2"},
		"turn zero":              {"turns:\n  - when: {turn: 0}\n    text: a\n", "count"},
		"bad pattern":            {"turns:\n  - when: {results: {matches: '('}}\n    text: a\n", "missing closing"},
		"empty results":          {"turns:\n  - when: {results: {}}\n    text: a\n", "give contains"},
		"bad purpose":            {"turns:\n  - when: {purpose: plam}\n    text: a\n", "turn, plan or compaction"},
		"bad class":              {"turns:\n  - error: {class: odd}\n", "rate_limit"},
		"error and calls":        {"turns:\n  - error: {class: auth}\n    calls: [{name: x}]\n", "never arrives"},
		"bad finish":             {"turns:\n  - finish: done\n", "length and refusal"},
		"bad delay":              {"turns:\n  - text: a\n    delay: 5\n", "200ms"},
		"negative delay":         {"turns:\n  - text: a\n    delay: -5s\n", "duration"},
		"negative chunk":         {"turns:\n  - text: a\n    chunk: -1\n", "chunk -1"},
		"no tool name":           {"turns:\n  - calls: [{input: {a: 1}}]\n", "name"},
		"two ids":                {"turns:\n  - calls: [{id: a, name: x}, {id: a, name: x}]\n", "twice"},
		"unknown placeholder":    {"turns:\n  - text: a\n  - text: '{{taks}}'\n", "turns[1] (line 3): unknown placeholder {{taks}}"},
		"blank in input":         {"turns:\n  - calls: [{name: x, input: {a: ['{{result.0}}']}}]\n", "result.0"},
		"cached above the input": {"turns:\n  - text: a\n    usage: {input: 1, cached: 2}\n", "part of input"},
		"input that is not JSON": {"turns:\n  - calls: [{name: x, input: .nan}]\n", "NaN"},
		"too large":              {strings.Repeat("#", 1<<20+1), "larger"},
		"too many entries":       {"turns:\n" + strings.Repeat("- text: a\n", 10_001), "10001"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := scripted.Parse("odd", []byte(c.yaml))
			if !errors.Is(err, scripted.ErrScript) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an ErrScript that says %q", err, c.want)
			}
		})
	}
	t.Run("text in double braces that is no blank stays", func(t *testing.T) {
		t.Parallel()
		a, err := parse(t, "turns: [{text: 'a {{ .Name }} b'}]").Ask(t.Context(), ask("s", 1, 1), nil)
		if err != nil || a.Text != "a {{ .Name }} b" {
			t.Errorf("got %q, %v", a.Text, err)
		}
	})
	t.Run("the largest number of entries is taken", func(t *testing.T) {
		t.Parallel()
		parse(t, "turns:\n"+strings.Repeat("- text: a\n", 10_000))
	})
}

func TestAskIsAFunctionOfTheRequest(t *testing.T) {
	t.Parallel()
	one, two := load(t), load(t)
	for turn := 1; turn <= 4; turn++ {
		req := ask("fix", turn, 2, "FAIL")
		a, errA := one.Ask(t.Context(), req, nil)
		again, errAgain := one.Ask(t.Context(), req, nil)
		b, errB := two.Ask(t.Context(), req, nil)
		if errA != nil || errAgain != nil || errB != nil {
			t.Fatal(errA, errAgain, errB)
		}
		if string(a.Raw) != string(b.Raw) || string(a.Raw) != string(again.Raw) {
			t.Errorf("turn %d: got three answers %s, %s, %s", turn, a.Raw, again.Raw, b.Raw)
		}
	}
}

func TestResultThatIsNotThere(t *testing.T) {
	t.Parallel()
	m := parse(t, "turns: [{text: '{{result.2}}'}]")
	_, err := m.Ask(t.Context(), ask("s", 1, 1, "one"), nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Class != llm.Invalid || !strings.Contains(err.Error(), "result 2") {
		t.Errorf("got %v, want class invalid", err)
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "turns: [{text: late, delay: 1h}]")
		start := time.Now()
		a, err := m.Ask(t.Context(), ask("s", 1, 1), nil)
		if err != nil || a.Text != "late" || time.Since(start) != time.Hour {
			t.Errorf("got %q, %v after %v, want it after an hour", a.Text, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		_, err = m.Ask(ctx, ask("s", 1, 1), nil)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want the deadline after a minute", err, time.Since(start))
		}
	})
}

func FuzzParse(f *testing.F) {
	demo, err := os.ReadFile("testdata/fix-demo.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(demo)
	f.Add([]byte("turns: [{text: '{{result.1}}'}]"))
	f.Add([]byte("turns: [{calls: [{name: x, input: {a: [1, '{{task}}']}}]}]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := scripted.Parse("fuzz", b)
		if err != nil {
			if m != nil {
				t.Error("got a model and an error")
			}
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		a, err := m.Ask(ctx, ask("fix", 1, 1, "out"), nil)
		if err == nil && !json.Valid(a.Raw) {
			t.Errorf("got raw %q, want JSON", a.Raw)
		}
	})
}

func TestExam(t *testing.T) {
	t.Parallel()
	m := load(t)
	for _, req := range []llm.Request{ask("fix", 1, 2), ask("fix", 3, 1, "FAIL"), ask("fix", 9, 1, "PASS")} {
		if a := llmtest.Sound(t, m, req); a.Provider != scripted.Provider {
			t.Errorf("got provider %q", a.Provider)
		}
		llmtest.Ends(t, m, req)
	}
	t.Run("a context that ends in the middle of a stream", func(t *testing.T) {
		t.Parallel()
		for _, field := range []string{"text", "thinking"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := parse(t, "turns: [{"+field+": abcdef, chunk: 2}]")
			pieces := 0
			a, err := m.Ask(ctx, ask("s", 1, 1), func(llm.Delta) { pieces++; cancel() })
			if !errors.Is(err, context.Canceled) || a.Raw != nil || pieces != 1 {
				t.Errorf("%s: got %+v, %v after %d pieces", field, a, err, pieces)
			}
		}
	})
}
