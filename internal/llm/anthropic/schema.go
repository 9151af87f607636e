package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/llm/wire"
)

// outputFormat asks for a document of schema, reduced to the part of JSON Schema that the API enforces
// (platform.claude.com, "Structured outputs").
func outputFormat(schema json.RawMessage) (*outputConfig, error) {
	s, err := wire.Decode(schema)
	if err != nil || s == nil {
		return nil, errors.New("schema is not an object")
	}
	c := &outputConfig{}
	c.Format.Type = "json_schema"
	if c.Format.Schema = reduce(map[string]any(s)); c.Format.Schema == true {
		return nil, errors.New("schema allows every document: type is missing")
	}
	return c, nil
}

// schemaKeys are the keywords that the API takes, stringFormats the values of format.
var (
	schemaKeys = []string{"$ref", "$defs", "type", "anyOf", "oneOf", "allOf", "description", "title", "enum", "const",
		"properties", "additionalProperties", "required", "items", "minItems", "format", "pattern"}
	stringFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// reduce makes of a schema one that the API takes: objects are closed, alternatives are anyOf, and what cannot be
// enforced moves into the description, where the model reads it. A schema without a shape is true; true and false stay.
func reduce(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	if ref, ok := s["$ref"].(string); ok && ref != "" { // it stands alone
		return map[string]any{"$ref": ref}
	}
	out, notes := map[string]any{}, map[string]any{}
	for key, value := range s {
		if slices.Contains(schemaKeys, key) {
			out[key] = value
		} else if value != nil {
			notes[key] = value
		}
	}
	reduceInside(out)
	if !hasShape(out) {
		return true
	}
	switch {
	case isType(out, "object"):
		closeObject(out)
	case isType(out, "string"):
		if format, ok := out["format"].(string); ok && !slices.Contains(stringFormats, format) {
			notes["format"] = format
			delete(out, "format")
		}
	case isType(out, "array"):
		if items, has := out["items"]; has {
			out["items"] = reduce(items)
		}
		if n, ok := out["minItems"].(json.Number); ok && n != "0" && n != "1" {
			notes["minItems"] = n
			delete(out, "minItems")
		}
	}
	if len(notes) > 0 {
		out["description"] = describe(out["description"], notes)
	}
	return out
}

// reduceInside reduces definitions and alternatives.
func reduceInside(out map[string]any) {
	if defs, ok := out["$defs"].(map[string]any); ok {
		out["$defs"] = reduceEach(defs)
	}
	if alternatives, has := out["oneOf"]; has {
		if _, both := out["anyOf"]; !both {
			out["anyOf"] = alternatives
		}
		delete(out, "oneOf")
	}
	if list, ok := out["anyOf"].([]any); ok {
		var kept []any // without those that would match everything
		for _, v := range list {
			if reduced := reduce(v); reduced != nil && (reduced != true || v == true) {
				kept = append(kept, reduced)
			}
		}
		out["anyOf"] = kept
		if kept == nil {
			delete(out, "anyOf")
		}
	}
	if list, ok := out["allOf"].([]any); ok {
		all := make([]any, len(list))
		for i, v := range list {
			all[i] = reduce(v)
		}
		out["allOf"] = all
	}
}

func reduceEach(schemas map[string]any) map[string]any {
	out := make(map[string]any, len(schemas))
	for name, s := range schemas {
		out[name] = reduce(s)
	}
	return out
}

// closeObject forbids properties that are not named, but for objects that are dictionaries.
func closeObject(out map[string]any) {
	properties, named := out["properties"].(map[string]any)
	others, has := out["additionalProperties"]
	if !named && has {
		out["additionalProperties"] = reduce(others)
		return
	}
	out["properties"], out["additionalProperties"] = reduceEach(properties), false
}

func hasShape(s map[string]any) bool {
	for _, key := range []string{"type", "anyOf", "allOf", "enum", "const"} {
		if s[key] != nil && s[key] != "" {
			return true
		}
	}
	return false
}

// isType reports whether a schema has the type, also beside others.
func isType(s map[string]any, want string) bool {
	list, _ := s["type"].([]any)
	return s["type"] == want || slices.Contains(list, any(want))
}

// describe adds keywords to a description, in their order.
func describe(description any, notes map[string]any) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(notes)) {
		value := fmt.Sprint(notes[key])
		switch notes[key].(type) {
		case map[string]any, []any:
			if b, err := wire.Marshal(notes[key]); err == nil {
				value = string(b)
			}
		}
		parts = append(parts, key+": "+value)
	}
	text := "{" + strings.Join(parts, ", ") + "}"
	if before, _ := description.(string); before != "" {
		return before + "\n\n" + text
	}
	return text
}
