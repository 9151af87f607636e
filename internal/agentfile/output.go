package agentfile

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/tool"
)

// maxSchema bounds the JSON Schema of an output, in bytes: it stands in every system prompt.
const maxSchema = 16 << 10

// output reads output.format and output.schema into a JSON Schema (DLV-9); nil means any text. A schema is JSON Schema,
// or Picoschema as dotprompt has it: names with their types, "name?" where it may be left out, "name(array)",
// "name(object)" and "name(enum)", a description after a comma.
func (p *parsing) output(root *node) json.RawMessage {
	format, schema := root.get("output", "format"), root.get("output", "schema")
	if schema == nil {
		if format.str() == "json" {
			return json.RawMessage("{}")
		}
		return nil
	}
	if format.str() == "text" {
		p.failAt(format, Error{Code: CodeConflict, Message: "format: text has no schema", Expected: "json",
			Actual: shown(format.text), Hint: "write format: json, or leave the schema out"})
		return nil
	}
	return p.document(schema)
}

// document is a schema in JSON, which a file may write as JSON Schema or in short; nil where there is none.
func (p *parsing) document(schema *node) json.RawMessage {
	if schema == nil {
		return nil
	}
	before := len(p.errs)
	var doc any
	if isJSONSchema(schema) {
		doc = plain(schema)
	} else {
		doc = p.pico(schema)
	}
	if len(p.errs) > before {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(doc)
	out := bytes.TrimSpace(b.Bytes())
	if err == nil {
		_, err = tool.NewSchema(out)
	}
	switch {
	case err != nil:
		p.failAt(schema, Error{Code: CodeValue, Message: "the schema is not valid", Actual: err.Error(),
			Hint: "write JSON Schema, or names with their types such as {verdict: string}"})
		return nil
	case len(out) > maxSchema:
		p.failAt(schema, Error{Code: CodeLimit, Message: "the schema is too large",
			Expected: "at most 16384 bytes of JSON"})
		return nil
	}
	return out
}

// words of JSON Schema that tell it from Picoschema, and those that may stand beside a scalar type.
var (
	schemaWords = []string{"$schema", "properties", "items", "anyOf", "oneOf", "allOf", "enum", "const", "$ref",
		"$defs"}
	allowedBesideType = []string{"type", "description", "title", "format", "pattern", "minimum", "maximum", "minLength",
		"maxLength", "default", "examples",
		"required", "additionalProperties", "minItems", "maxItems", "uniqueItems"}
	scalarTypes = []string{"string", "boolean", "null", "number", "integer", "any"}
)

func isJSONSchema(n *node) bool {
	if n.kind == isBool {
		return true
	}
	if n.kind != isMap {
		return false
	}
	for _, w := range schemaWords {
		if c := n.child(w); c != nil && (c.kind == isMap || c.kind == isList || strings.HasPrefix(w, "$") || w == "const") {
			return true
		}
	}
	t := n.child("type").str()
	if t != "object" && t != "array" && (t == "any" || !slices.Contains(scalarTypes, t)) {
		return false
	}
	for _, pr := range n.pairs {
		if !slices.Contains(allowedBesideType, pr.key) {
			return false
		}
	}
	return true
}

// plain is a value as JSON has it.
func plain(n *node) any {
	switch n.kind {
	case isNull:
		return nil
	case isBool:
		return n.text == "true"
	case isInt, isFloat:
		return json.Number(n.text)
	case isList:
		list := []any{}
		for _, i := range n.items {
			list = append(list, plain(i))
		}
		return list
	case isMap:
		m := map[string]any{}
		for _, pr := range n.pairs {
			m[pr.key] = plain(pr.value)
		}
		return m
	case isText:
	}
	return n.text
}

// pico turns Picoschema into JSON Schema.
func (p *parsing) pico(n *node) map[string]any {
	switch n.kind {
	case isText:
		kind, about, _ := strings.Cut(n.text, ",")
		kind = strings.TrimSpace(kind)
		if !slices.Contains(scalarTypes, kind) {
			p.failAt(n, Error{Code: CodeValue, Message: "the value is not the type of a field",
				Expected: "one of " + strings.Join(scalarTypes, ", "), Actual: shown(kind)})
			return nil
		}
		out := map[string]any{}
		if kind != "any" {
			out["type"] = kind
		}
		return described(out, about)
	case isMap:
		return p.picoObject(n)
	case isNull, isBool, isInt, isFloat, isList:
	}
	p.failAt(n, Error{Code: CodeType, Message: "the value has the wrong type",
		Expected: "a type such as string, or a mapping of fields", Actual: string(n.kind)})
	return nil
}

func (p *parsing) picoObject(n *node) map[string]any {
	fields, required := map[string]any{}, []string{}
	out := map[string]any{"type": "object", "properties": fields, "additionalProperties": false}
	for _, pr := range n.pairs {
		if pr.key == "(*)" {
			out["additionalProperties"] = p.pico(pr.value)
			continue
		}
		name, kind, about := picoKey(pr.key)
		short, optional := strings.CutSuffix(name, "?")
		field := p.picoField(kind, pr)
		if kind != "" {
			field = described(field, about)
		}
		if optional {
			field = nullable(field)
		} else {
			required = append(required, short)
		}
		if _, twice := fields[short]; twice || short == "" {
			p.fail(&Error{Code: CodeDuplicate, Line: pr.line, Path: pr.value.path,
				Message: "the field has no name, or the name is used twice", Actual: shown(pr.key)})
		}
		fields[short] = field
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// picoKey takes "name?(array, what it is)" apart.
func picoKey(key string) (name, kind, about string) {
	name, rest, ok := strings.Cut(key, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return strings.TrimSpace(key), "", ""
	}
	kind, about, _ = strings.Cut(inner, ",")
	return strings.TrimSpace(name), strings.TrimSpace(kind), about
}

func (p *parsing) picoField(kind string, pr pair) map[string]any {
	switch kind {
	case "":
		return p.pico(pr.value)
	case "array":
		return map[string]any{"type": "array", "items": p.pico(pr.value)}
	case "object":
		if pr.value.kind == isMap {
			return p.picoObject(pr.value)
		}
	case "enum":
		if pr.value.kind == isList && len(pr.value.items) > 0 {
			return map[string]any{"enum": plain(pr.value)}
		}
	}
	p.fail(&Error{Code: CodeValue, Line: pr.line, Path: pr.value.path, Message: "the field is not valid Picoschema",
		Expected: "name(array): type, name(object): {...} or name(enum): [...]", Actual: shown(pr.key)})
	return nil
}

func described(schema map[string]any, about string) map[string]any {
	if about = strings.TrimSpace(about); about != "" && schema != nil {
		schema["description"] = about
	}
	return schema
}

// nullable is a schema that null fits too, as models like to send it for what may be left out.
func nullable(schema map[string]any) map[string]any {
	out := maps.Clone(schema)
	switch {
	case out == nil:
		return nil
	case out["enum"] != nil:
		values, _ := out["enum"].([]any)
		out["enum"] = append(slices.Clone(values), nil)
	case out["type"] != nil && out["type"] != "null":
		out["type"] = []any{out["type"], "null"}
	}
	return out
}
