package agentfile_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("LOOP-2 PLUS-3 budgets and the doom loop of a file are in force", func(t *testing.T) {
		t.Parallel()
		a, warnings, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nharness:\n  doom_loop: {threshold: 5, cycle: 2, action: fail}\n  budget: {tokens: 2000000, usd: 5.00, tool_calls: 7, wall_time: 10m}\n---\n"))
		if err != nil || len(warnings) != 1 {
			t.Fatalf("%v %v", err, warnings)
		}
		if a.MaxTokens != 2_000_000 || a.MaxCost != 5_000_000 || a.MaxToolCalls != 7 || a.TimeoutMS != 600_000 || a.DoomLoop != (events.DoomLoop{Threshold: 5, Cycle: 2, Action: "fail"}) {
			t.Errorf("%+v", a)
		}
		var task events.Task
		if o, err := task.Resolve(a); err != nil || o.MaxTokens != a.MaxTokens || o.MaxCost != a.MaxCost {
			t.Errorf("%v %+v", err, o)
		}
	})
	t.Run("PLUS-3f a budget of zero, below it or that cannot be read is an error that names the line", func(t *testing.T) {
		t.Parallel()
		for value, path := range map[string]string{"{usd: 0}": "usd", "{usd: -1}": "usd", "{usd: five}": "usd", "{usd: 0.0000001}": "usd", "{usd: .nan}": "usd",
			"{tokens: 0}": "tokens", "{tokens: 1.5}": "tokens", "{tokens: many}": "tokens", "{tool_calls: 0}": "tool_calls"} {
			_, _, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nharness:\n  budget: "+value+"\n---\n"))
			e, ok := errors.AsType[*agentfile.Error](err)
			if !ok || e.Line != 4 || e.Path != "harness.budget."+path {
				t.Errorf("%s: %v", value, err)
			}
		}
	})
}

func TestPrices(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-3 prices are dollars per million tokens, exact to a millionth", func(t *testing.T) {
		t.Parallel()
		table, err := agentfile.ParsePrices("p.yaml", []byte("# dear\nanthropic/claude*: {input: 3, output: 15.5, cached: 0.30}\nopenai/gpt-5: {input: 1.25, output: 10}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := table.Find("anthropic/claude-x"); !ok || p != (events.Price{Input: 3_000_000, Output: 15_500_000, Cached: 300_000}) {
			t.Errorf("%+v", p)
		}
		if p := table["openai/gpt-5"]; p.Cached != p.Input {
			t.Errorf("%+v", p)
		}
	})
	t.Run("PLUS-3 a price that cannot be read is an error with its line", func(t *testing.T) {
		t.Parallel()
		for text, line := range map[string]int{"a/b: {input: 1, output: -1}": 1, "\na/b: {input: x, output: 1}": 2, "a/b: {input: 1}": 1, "nothing: {input: 1, output: 1}": 1,
			"a/b: {input: 1, output: 1, cache: 1}": 1, "a/b: 5": 1} {
			_, err := agentfile.ParsePrices("p.yaml", []byte(text))
			if e, ok := errors.AsType[*agentfile.Error](err); !ok || e.Line != line || e.File != "p.yaml" {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

func TestOutputSchema(t *testing.T) {
	t.Parallel()
	parse := func(output string) (events.Agent, error) {
		a, _, err := agentfile.Parse("x", []byte("---\nmodel: a/b\nharness: agentic\noutput: "+output+"\n---\n"))
		return a, err
	}
	t.Run("DLV-9 Picoschema and JSON Schema both say what fits", func(t *testing.T) {
		t.Parallel()
		for output, docs := range map[string]map[string]bool{
			`{format: json, schema: {verdict: "string, good or bad", "notes(array, why)": string, "n?": integer}}`: {
				`{"verdict":"x","notes":["a"]}`: true, `{"verdict":"x","notes":[],"n":null}`: true, `{"verdict":"x","notes":[1]}`: false,
				`{"verdict":"x"}`: false, `{"verdict":"x","notes":[],"more":1}`: false, `[]`: false},
			`{schema: {"kind(enum)": [a, b], "in(object)": {deep: boolean}, "(*)": number}}`: {
				`{"kind":"a","in":{"deep":true},"x":1}`: true, `{"kind":"c","in":{"deep":true}}`: false, `{"kind":"a","in":{}}`: false, `{"kind":"a","in":{"deep":true},"x":"1"}`: false},
			`{schema: {type: array, items: {type: string}}}`:                            {`["a"]`: true, `[1]`: false},
			`{schema: {type: object, properties: {a: {type: integer}}, required: [a]}}`: {`{"a":1}`: true, `{}`: false},
			`{schema: {type: string, name: string}}`:                                    {`{"type":"t","name":"n"}`: true, `"t"`: false},
			`{format: json}`:                                                            {`[1]`: true, `no`: false},
		} {
			a, err := parse(output)
			if err != nil {
				t.Errorf("%s: %v", output, err)
				continue
			}
			if !json.Valid(a.OutputSchema) {
				t.Fatalf("%s: %s", output, a.OutputSchema)
			}
			s, err := tool.NewSchema(a.OutputSchema)
			if err != nil {
				t.Fatalf("%s: %v", output, err)
			}
			for doc, fits := range docs {
				if err := s.Check([]byte(doc)); (err == nil) != fits {
					t.Errorf("%s: %s: %v, want it to fit: %v", a.OutputSchema, doc, err, fits)
				}
			}
		}
		if a, err := parse("{format: text}"); err != nil || a.OutputSchema != nil {
			t.Errorf("%v %s", err, a.OutputSchema)
		}
	})
	t.Run("DLV-9 ID-10 a schema that is none is an error with its line", func(t *testing.T) {
		t.Parallel()
		for output, says := range map[string]string{`{format: xml}`: "json", `{format: text, schema: {a: string}}`: "no schema", `{schema: {a: strin}}`: "type of a field",
			`{schema: {"a(list)": string}}`: "Picoschema", `{schema: [1]}`: "wrong type", `{schema: {type: object, properties: {a: {type: 5}}}}`: "not valid",
			`{schema: {$ref: "http://127.0.0.1/x"}}`: "not valid"} {
			_, err := parse(output)
			if e, ok := errors.AsType[*agentfile.Error](err); !ok || e.Line != 4 || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", output, err)
			}
		}
	})
}
