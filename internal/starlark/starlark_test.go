package starlark_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/starlark"
)

func values(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	err := json.Unmarshal([]byte(`{"steps": {"plan": {"output": {"files": ["a.go", "b.go"], "coverage": 80.5, "get": "own"}},
		"my-step": {"output": "text"}}, "vars": {"n": 3, "name": "x"}}`), &v)
	if err != nil {
		t.Fatal(err)
	}
	v["text"] = strings.Repeat("x", 100_000)
	return v
}

var names = []string{"steps", "vars", "text"}

func TestEval(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]any{
		`steps.plan.output.files != []`:                                                    true,
		`len(steps.plan.output.files) == vars.n - 1`:                                       true,
		`steps.plan.output.coverage >= 80 and vars.name == "x"`:                            true,
		`steps["my-step"].output.upper()`:                                                  "TEXT",
		`"b.go" in steps.plan.output.files`:                                                true,
		`"files" in steps.plan.output`:                                                     true,
		`[f for f in steps.plan.output.files if f[0] == "a"]`:                              []any{"a.go"},
		`{"n": [vars.n * 2, 7 // 2, 7 % 4], "e": None}`:                                    map[string]any{"n": []any{int64(6), int64(3), int64(3)}, "e": nil},
		`steps.plan.output.get`:                                                            "own",
		`steps.plan.output.get("missing", "else")`:                                         "else",
		`sorted([3, 1, 2])[-1] if any([True]) else 0`:                                      int64(3),
		`("a" + str(1)) * 2`:                                                               "a1a1",
		`steps.plan.output == {"coverage": 80.5, "get": "own", "files": ["a.go", "b.go"]}`: true,
		`len(text[:10])`:                                                                   int64(10),
		`not vars.get("none")`:                                                             true,
		`{k: v for k, v in vars.items()}["n"]`:                                             int64(3),
	} {
		e, err := starlark.Parse(source, names...)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		for range 2 { // an expression is used again and again
			got, err := e.Eval(values(t), starlark.Limits{})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %#v, %v, want %#v", source, got, err, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`steps.plan.`:              "1:12: ",
		`steps.plan == `:           "1:15: ",
		"vars.n ==\n\tvars.n":      "1:10: ", // one line, or in parentheses
		`step.plan.output`:         "1:1: step is nothing that can be used here; there are steps, text, vars, abs",
		`print("x")`:               "1:1: print is no function",
		`vars.n + open`:            "1:10: open is nothing",
		`getattr(vars, "n")`:       "1:1: getattr is no function",
		`(lambda x: x)(1)`:         "1:1: only functions",
		`[f for f in [lambda: 1]]`: "1:14: a condition cannot have this",
		`vars.clear()`:             "1:6: clear cannot be called here",
		`",".join([text])`:         "1:5: join cannot be called here",
		`1 << 600`:                 "1:1: the operator << cannot",
		`[len for len in [1]]`:     "1:10: len is taken",
		`dict(a = 1)`:              "1:6: arguments have no names",
		`min(*[1])`:                "1:5: arguments cannot be unpacked",
		`load("x", "y")`:           "1:1: ",
		`b"x"`:                     "1:1: bytes",
		strings.Repeat(" ", 5000):  "1:1: the expression has 5000 bytes, the limit is 4096",
		strings.Repeat("(", 4000):  "1:78: excessive nesting",
		strings.Repeat("-", 4000):  "1:990: excessive nesting",
		"x = 1":                    "1:4: ",
		`vars."n"`:                 "1:9: ",
		"":                         "1:1: ",
	} {
		_, err := starlark.Parse(source, names...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %s", source, err, want)
		}
	}
}

// What never ends, or would fill the memory, ends with an error soon.
func TestBounded(t *testing.T) {
	t.Parallel()
	double := "text"
	for i := range 12 {
		double = "[y" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " + y" + string(rune('a'+i%26)) + string(rune('a'+i/26)) +
			" for y" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + " in [" + double + "]][0]"
	}
	alias := "1"
	for i := range 21 {
		v := "v" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		alias = "[[" + v + "," + v + "] for " + v + " in [" + alias + "]][0]"
	}
	for source, want := range map[string]string{
		`[1 for a in range(90000) for b in range(90000)]`: "too many steps",
		`range(1000000000)`:                          "range: 1000000000 numbers",
		`"x" * 100000000000`:                         "too much",
		`[0] * 100000000`:                            "too much",
		`10000000000 * text`:                         "too much",
		`[text == text for a in range(90000)]`:       "too much",
		`[text[1:] for a in range(90000)]`:           "too much",
		`[text.upper() for a in range(90000)]`:       "too much",
		`[text in [text] for a in range(90000)]`:     "too much",
		`[list(range(90000)) for a in range(90000)]`: "too much",
		double:                  "too much",
		alias:                   "too much",
		"str(" + alias + ")":    "too much",
		`int(text)`:             "int: the text has 100000 characters",
		`"%s%s" % (text, text)`: "texts cannot be formatted",
		`999999999999999999999 * 999999999999999999999`: "is too large",
		strings.Repeat("999999999999999*", 30) + "9":    "product is too large",
		`1 / 0`:             "division by zero",
		`steps.none.output`: `1:7: there is no "none"; there are "my-step", "plan"`,
		`vars.n.m`:          "1:8: a value of type int has nothing named",
		`vars["none"]`:      "not in dict",
		`[] < 3`:            "not implemented",
	} {
		e, err := starlark.Parse(source, names...)
		if err != nil {
			t.Errorf("%.60s: %v", source, err)
			continue
		}
		began := time.Now()
		got, err := e.Eval(values(t), starlark.Limits{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %.100v, %v, want %s", source, got, err, want)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%.60s took %s", source, took)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	e, err := starlark.Parse(`steps.plan.output.files[0] == steps["my-step"].output and steps[vars.name].n > len(steps.plan.output)`, names...)
	if err != nil {
		t.Fatal(err)
	}
	want := []starlark.Path{{Names: []string{"steps", "plan", "output", "files"}, Line: 1, Column: 1},
		{Names: []string{"steps", "my-step", "output"}, Line: 1, Column: 31}, {Names: []string{"steps"}, Line: 1, Column: 59},
		{Names: []string{"vars", "name"}, Line: 1, Column: 65}, {Names: []string{"steps", "plan", "output"}, Line: 1, Column: 84}}
	if got := e.Paths(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whatever an expression is, it ends, and nothing panics.
func FuzzEval(f *testing.F) {
	for _, s := range []string{`steps.plan.output.files != []`, `[x for x in range(9) if x % 2]`, `{"a": 1}.get("a")`, `"x" * 9`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, err := starlark.Parse(source, names...)
		if err != nil {
			return
		}
		first, err1 := e.Eval(values(t), starlark.Limits{})
		second, err2 := e.Eval(values(t), starlark.Limits{})
		if (err1 == nil) != (err2 == nil) || !reflect.DeepEqual(first, second) {
			t.Errorf("%q: %v, %v and then %v, %v", source, first, err1, second, err2)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	e, err := starlark.Parse(`len(steps.plan.output.files) > 1 and steps.plan.output.coverage >= 80`, "steps")
	if err != nil {
		b.Fatal(err)
	}
	v := map[string]any{"steps": map[string]any{"plan": map[string]any{"output": map[string]any{"files": []any{"a", "b"}, "coverage": 80.5}}}}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := e.Eval(v, starlark.Limits{}); err != nil || got != true {
			b.Fatal(got, err)
		}
	}
}
