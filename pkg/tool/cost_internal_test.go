package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// doubling is a schema of n pieces, each of which refers twice to the next one: refer makes the reference.
func doubling(n int, refer func(next string) string) string {
	defs := make([]string, n+1)
	for i := range n {
		ref := refer(fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))
		defs[i] = fmt.Sprintf(`"d%d":{"allOf":[%s,%s]}`, i, ref, ref)
	}
	defs[n] = fmt.Sprintf(`"d%d":{"minProperties":0}`, n)
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s}}`, strings.Join(defs, ","))
}

// nested is an object in an object, n times.
func nested(n int) string { return strings.Repeat(`{"x":`, n) + "{}" + strings.Repeat("}", n) }

// wide is an object of n fields.
func wide(n int) string {
	fields := make([]string, n)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%d":1`, i)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func TestCostly(t *testing.T) {
	t.Parallel()
	twice := `[{"properties":{"x":{"$ref":"#"}}},{"properties":{"x":{"$ref":"#"}}}]`
	for name, c := range map[string]struct{ schema, input string }{
		"references that double at one value":   {doubling(24, func(next string) string { return next }), `{}`},
		"references that double at each level":  {`{"type":"object","allOf":` + twice + `}`, nested(26)},
		"alternatives that double at each item": {`{"type":"object","properties":{"l":{"$ref":"#/$defs/l"}},"$defs":{"l":{"anyOf":[{"items":{"$ref":"#/$defs/l"}},{"prefixItems":[{"$ref":"#/$defs/l"}],"minItems":9}]}}}`, `{"l":` + strings.Repeat("[", 28) + strings.Repeat("]", 28) + `}`},
		"what arrays must have doubles":         {`{"type":"object","properties":{"l":{"$ref":"#/$defs/l"}},"$defs":{"l":{"allOf":[{"contains":{"$ref":"#/$defs/l"}},{"contains":{"$ref":"#/$defs/l"}}]}}}`, `{"l":` + strings.Repeat("[", 28) + strings.Repeat("]", 28) + `}`},
		"a long pattern at a long text":         {`{"type":"object","properties":{"t":{"pattern":"^(a?){500}(a?){500}$"}}}`, `{"t":"` + strings.Repeat("a", 1<<19) + `"}`},
		"a long pattern at many names":          {`{"type":"object","patternProperties":{"^(a?){500}(a?){500}$":{}}}`, `{"` + strings.Repeat("a", 1<<19) + `":1}`},
		"lists of what was not looked at":       {`{"type":"object","unevaluatedProperties":true,"allOf":[` + strings.Repeat(`{},`, 999) + `{}]}`, wide(10_000)},
		"a long enumeration at many items":      {`{"type":"object","additionalProperties":{"items":{"enum":[` + strings.Repeat(`"aaaa",`, 999) + `0]}}}`, `{"l":[` + strings.Repeat("1,", 9_999) + `1]}`},
	} {
		t.Run("SAFE-12 "+name, func(t *testing.T) {
			t.Parallel()
			s, err := schemas.compile(json.RawMessage(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = check(s, "the arguments", json.RawMessage(c.input))
			if e, ok := errors.AsType[*Error](err); !ok || e.Class != Invalid || !errors.Is(err, errCostly) {
				t.Errorf("%v", err)
			}
		})
	}
	for name, c := range map[string]struct{ schema, input string }{
		"a long list":                           {`{"type":"object","properties":{"l":{"items":{"type":"number"}}}}`, `{"l":[` + strings.Repeat("1,", 400_000) + `1]}`},
		"a long text":                           {`{"type":"object","properties":{"t":{"type":"string","pattern":"^a*$"}}}`, `{"t":"` + strings.Repeat("a", 1<<19) + `"}`},
		"a tree":                                {`{"type":"object","properties":{"x":{"$ref":"#"},"y":{"$ref":"#"}}}`, nested(30)},
		"references that double, but not often": {doubling(10, func(next string) string { return next }), nested(30)},
	} {
		t.Run(name+" is checked", func(t *testing.T) {
			t.Parallel()
			s, err := schemas.compile(json.RawMessage(c.schema))
			if err == nil {
				err = check(s, "the arguments", json.RawMessage(c.input))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	for name, c := range map[string]struct {
		schema string
		want   error
	}{
		"a circle":             {`{"type":"object","allOf":[{"$ref":"#"}]}`, errCircle},
		"a circle of two":      {`{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"not":{"anyOf":[{"$ref":"#"}]}}}}`, errCircle},
		"a dynamic reference":  {`{"type":"object","properties":{"x":{"$dynamicRef":"#a"}},"$dynamicAnchor":"a"}`, errScoped},
		"the standard's own":   {`{"type":"object","properties":{"x":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, errScoped},
		"an older one's own":   {`{"type":"object","properties":{"x":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, nil},
		"an older recursion":   {`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"x":{"$recursiveRef":"#"}}}`, errScoped},
		"a circle with levels": {`{"type":"object","allOf":[{"properties":{"x":{"$ref":"#"}}}]}`, nil},
	} {
		t.Run(name+" as a schema", func(t *testing.T) {
			t.Parallel()
			if _, err := schemas.compile(json.RawMessage(c.schema)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// drawSchema draws a schema of pieces that refer to each other and count how often they look at a value.
func drawSchema(t *rapid.T) map[string]any {
	defs, n := map[string]any{}, rapid.IntRange(1, 6).Draw(t, "pieces")
	ref := func(from int) map[string]any {
		return map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", rapid.IntRange(from, n-1).Draw(t, "to")), "format": "count"}
	}
	for i := range n {
		d := map[string]any{"format": "count"}
		for _, keyword := range rapid.SliceOfN(rapid.SampledFrom([]string{"allOf", "anyOf", "oneOf", "not", "if", "properties",
			"patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems", "contains", "dependentSchemas",
			"unevaluatedProperties", "unevaluatedItems", "enum", "$ref"}), 0, 4).Draw(t, "keywords") {
			switch keyword {
			case "allOf", "anyOf", "oneOf":
				if i+1 < n { // a reference at the same value goes to a later piece
					d[keyword] = []any{ref(i + 1), ref(i + 1)}
				}
			case "not", "if", "$ref", "dependentSchemas":
				if i+1 < n {
					d[keyword] = ref(i + 1)
				}
				if keyword == "if" && i+1 < n {
					d["then"], d["else"] = ref(i+1), ref(i+1)
				}
				if r, ok := d["$ref"].(map[string]any); ok {
					d["$ref"] = r["$ref"]
				}
				if r, ok := d["dependentSchemas"].(map[string]any); ok && r["$ref"] != nil {
					d["dependentSchemas"] = map[string]any{"a": r}
				}
			case "properties":
				d[keyword] = map[string]any{"a": ref(0), "b": ref(0)}
			case "patternProperties":
				d[keyword] = map[string]any{"a|c": ref(0)}
			case "prefixItems":
				d[keyword] = []any{ref(0)}
			case "enum":
				d[keyword] = []any{1, "a"}
			default:
				d[keyword] = ref(0)
			}
		}
		defs[fmt.Sprintf("d%d", i)] = d
	}
	return map[string]any{"$ref": "#/$defs/d0", "$defs": defs, "format": "count"}
}

func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 {
		kind %= 2
	}
	switch kind {
	case 0:
		return json.Number("1")
	case 1:
		return "a"
	case 2:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID).Draw(t, "names") {
		object[name] = drawValue(t, depth-1)
	}
	return object
}

func TestCostIsNeverTooLow(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 a check looks no more often than was counted", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			text, err := json.Marshal(drawSchema(t))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			looks := 0.0
			c := jsonschema.NewCompiler()
			c.RegisterFormat(&jsonschema.Format{Name: "count", Validate: func(any) error { looks++; return nil }})
			c.AssertFormat()
			if err := c.AddResource("s.json", doc); err != nil {
				t.Fatal(err)
			}
			s, err := c.Compile("s.json")
			if err != nil {
				t.Fatal(err)
			}
			known, err := newChecker(s)
			if err != nil {
				t.Fatal(err)
			}
			v := drawValue(t, 3)
			counted := newWork(known, mostVisits).of(s, newNode(v))
			if counted > 100_000 {
				return
			}
			_ = s.Validate(v) // whether it fits makes no difference
			if looks > counted {
				t.Fatalf("%s\n%v: %v looks, %v were counted", text, v, looks, counted)
			}
			if all := known.all.visits * values(v); !known.shared && looks > all {
				t.Fatalf("%s\n%v: %v looks of at most %v", text, v, looks, all)
			}
		})
	})
}

func BenchmarkAffords(b *testing.B) {
	for name, c := range map[string]struct{ schema, input string }{
		"plain":     {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}`, `{"a":"x","b":1}`},
		"recursive": {`{"type":"object","properties":{"x":{"$ref":"#"}}}`, nested(5)},
	} {
		s, err := schemas.compile(json.RawMessage(c.schema))
		if err != nil {
			b.Fatal(err)
		}
		for _, counted := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s, counted %v", name, counted), func(b *testing.B) {
				b.ReportAllocs()
				v, _ := jsonschema.UnmarshalJSON(strings.NewReader(c.input))
				for b.Loop() {
					if counted && !s.affords(v, len(c.input)) {
						b.Fatal("refused")
					}
					if err := s.Validate(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
