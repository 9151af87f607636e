package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"
)

// object is one of JSON.
type object = map[string]any

// OpenAPI is the OpenAPI 3.1 document of all that the gateway answers, made of the table that it routes by.
func OpenAPI() ([]byte, error) {
	d := &document{schemas: object{}}
	paths := object{}
	for _, r := range routes() {
		at, _ := paths[r.path].(object)
		if at == nil {
			at = object{}
			paths[r.path] = at
		}
		at[strings.ToLower(r.method)] = d.operation(r)
	}
	if d.err != nil {
		return nil, d.err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(object{
		"openapi": "3.1.0",
		"info": object{"title": "Inspan gateway", "version": "1",
			"description": "Runs, events, gates and webhooks of one station. docs/gateway.md has examples."},
		"paths":    paths,
		"security": []any{object{"token": []any{}}},
		"components": object{"schemas": d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "A token of inspan token add."}}},
	})
	return out.Bytes(), err
}

// document gathers the schemas that operations refer to.
type document struct {
	schemas object
	err     error
}

func (d *document) operation(r route) object {
	op := object{"summary": r.summary, "operationId": operationID(r), "responses": d.responses(r)}
	if params := d.params(r); len(params) > 0 {
		op["parameters"] = params
	}
	if r.body != nil {
		chat := strings.HasPrefix(r.path, chatPaths) // where fields that are not known are ignored
		op["requestBody"] = object{"required": chat || r.path == "/api/v1/harness/run" || strings.HasSuffix(r.path, "{gate}"),
			"content": object{"application/json": object{"schema": d.schema(r.body, chat)}}}
	}
	switch {
	case r.open:
		op["security"] = []any{}
		op["requestBody"] = object{"required": true,
			"content": object{"application/json": object{"schema": object{"type": "object"}}}}
	case r.scope != "":
		op["description"] = "Needs the scope " + string(r.scope) + "."
	}
	return op
}

// operationID names an operation: the method and the parts of the path.
func operationID(r route) string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.path, "/api/v1"),
		func(r rune) bool { return strings.ContainsRune("/{}.", r) })
	return strings.ToLower(r.method) + "_" + strings.Join(words, "_")
}

func (d *document) params(r route) []any {
	var all []any
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			all = append(all, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true,
				"schema": object{"type": "string"}})
		}
	}
	for _, p := range r.params {
		all = append(all, object{"name": p.name, "in": p.in, "description": p.about, "schema": object{"type": "string"}})
	}
	return all
}

func (d *document) responses(r route) object {
	out := object{"default": object{"description": "What went wrong (RFC 9457).",
		"content": object{"application/problem+json": object{"schema": d.schema(Problem{}, true)}}}}
	for _, status := range slices.Sorted(maps.Keys(r.answers)) {
		answer := object{"description": http.StatusText(status)}
		switch v := r.answers[status].(type) {
		case nil:
		case string:
			answer["content"] = object{v: object{}}
		default:
			answer["content"] = object{"application/json": object{"schema": d.schema(v, true)}}
		}
		out[strconv.Itoa(status)] = answer
	}
	return out
}

// schema is a reference to the schema of a type. Answers may get more fields; bodies have no others.
func (d *document) schema(v any, open bool) object {
	t := reflect.TypeOf(v)
	r := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: open, Namer: schemaName}
	s := r.ReflectFromType(t)
	for name, def := range s.Definitions {
		b, err := json.Marshal(def)
		var schema object
		if err == nil {
			err = json.Unmarshal(bytes.ReplaceAll(b, []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)), &schema)
		}
		if err != nil {
			d.err = fmt.Errorf("schema of %s: %w", name, err)
		}
		if old, there := d.schemas[name]; there && !reflect.DeepEqual(old, schema) {
			d.err = errors.Join(d.err, fmt.Errorf("two schemas have the name %s", name))
		}
		d.schemas[name] = schema
	}
	return object{"$ref": "#/components/schemas/" + schemaName(t)}
}

// schemaName is the name of a type: that of a list says of what.
func schemaName(t reflect.Type) string {
	name := t.Name()
	base, of, generic := strings.Cut(name, "[")
	if !generic {
		return name
	}
	of = strings.TrimSuffix(of, "]")
	of = of[strings.LastIndexAny(of, "./")+1:]
	return strings.ToUpper(base[:1]) + base[1:] + of
}
