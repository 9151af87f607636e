package anthropic_test

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/internal/llm/anthropic"
	"github.com/inspan/inspan/internal/llm/llmtest"
)

func TestSchemas(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, want string }{
		"objects are closed": {`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{},"additionalProperties":false}},"required":["a"],"additionalProperties":false}`},
		"an open object is closed": {`{"type":"object","properties":{},"additionalProperties":true}`, `{"type":"object","properties":{},"additionalProperties":false}`},
		"dictionaries keep the schema of their values": {`{"type":"object","additionalProperties":{"type":"integer","minimum":1}}`,
			`{"type":"object","additionalProperties":{"type":"integer","description":"{minimum: 1}"}}`},
		"limits move into the description": {`{"type":"object","description":"d","minProperties":1,"maxProperties":90071992547409931,"properties":{}}`,
			`{"type":"object","description":"d\n\n{maxProperties: 90071992547409931, minProperties: 1}","properties":{},"additionalProperties":false}`},
		"values of keywords that are no scalars": {`{"type":"string","examples":["<a>"],"default":"x","not":{"const":1}}`,
			`{"type":"string","description":"{default: x, examples: [\"<a>\"], not: {\"const\":1}}"}`},
		"formats that the API knows stay": {`{"anyOf":[{"type":"string","format":"date"},{"type":"string","format":"regex"}]}`,
			`{"anyOf":[{"type":"string","format":"date"},{"type":"string","description":"{format: regex}"}]}`},
		"arrays": {`{"type":"array","minItems":2,"maxItems":3,"items":{"type":"array","minItems":1,"items":true}}`,
			`{"type":"array","description":"{maxItems: 3, minItems: 2}","items":{"type":"array","minItems":1,"items":true}}`},
		"references stand alone": {`{"type":"array","items":{"$ref":"#/$defs/x","description":"gone"},"$defs":{"x":{"type":"string","minLength":1}}}`,
			`{"type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"type":"string","description":"{minLength: 1}"}}}`},
		"one of is any of":                   {`{"oneOf":[{"type":"null"},{"enum":[1.50]}]}`, `{"anyOf":[{"type":"null"},{"enum":[1.50]}]}`},
		"any of wins over one of":            {`{"anyOf":[{"type":"null"}],"oneOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"null"}]}`},
		"alternatives without a shape go":    {`{"type":"string","anyOf":[{"title":"t"},{}]}`, `{"type":"string"}`},
		"true as an alternative stays":       {`{"anyOf":[true,{"type":"null"}]}`, `{"anyOf":[true,{"type":"null"}]}`},
		"all of keeps its places":            {`{"allOf":[{"title":"t"},{"type":"string"}]}`, `{"allOf":[true,{"type":"string"}]}`},
		"a schema without a shape":           {`{"type":"object","properties":{"a":{"description":"any"},"b":{},"c":false}}`, `{"type":"object","properties":{"a":true,"b":true,"c":false},"additionalProperties":false}`},
		"several types":                      {`{"type":["object","null"],"properties":{"a":{"type":["string","null"],"format":"odd"}}}`, `{"type":["object","null"],"properties":{"a":{"type":["string","null"],"description":"{format: odd}"}},"additionalProperties":false}`},
		"keywords that are null are nothing": {`{"type":"integer","default":null,"format":null}`, `{"type":"integer","format":null}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := anthropic.SchemaForTest(c.in); err != nil || !llmtest.SameJSON(got, []byte(c.want)) {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
	for _, bad := range []string{`true`, `null`, `[]`, `{}`, `{"title":"t"}`, `{"anyOf":[{}]}`, `{"type":""}`, `{`} {
		if got, err := anthropic.SchemaForTest(bad); err == nil {
			t.Errorf("%s: got %s, want a refusal before anything is sent", bad, got)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":["object",{}],"properties":[],"anyOf":[null,[],1],"allOf":[null],"$defs":{"a":null},"items":7,"minItems":"x"}`)
	f.Add(`{"type":"object","additionalProperties":null,"oneOf":{}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if got, err := anthropic.SchemaForTest(schema); err == nil && !json.Valid(got) {
			t.Errorf("%s: got %s", schema, got)
		}
	})
}
