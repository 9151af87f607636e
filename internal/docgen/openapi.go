package docgen

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

	"github.com/inspan/inspan/services/gateway"
)

// tree is an object of JSON.
type tree = map[string]any

// openAPI is the OpenAPI 3.1 document of all that the gateway answers, made of the table that it routes by.
func openAPI() ([]byte, error) {
	d := &document{schemas: tree{}}
	paths := tree{}
	for _, r := range gateway.Operations() {
		at, _ := paths[r.Path].(tree)
		if at == nil {
			at = tree{}
			paths[r.Path] = at
		}
		at[strings.ToLower(r.Method)] = d.operation(r)
	}
	if d.err != nil {
		return nil, d.err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(tree{
		"openapi": "3.1.0",
		"info": tree{"title": "Inspan gateway", "version": "1",
			"description": "Runs, events, gates and webhooks of one station. docs/gateway.md has examples."},
		"paths":    paths,
		"security": []any{tree{"token": []any{}}},
		"components": tree{"schemas": d.schemas,
			"securitySchemes": tree{"token": tree{"type": "http", "scheme": "bearer",
				"description": "A token of inspan token add."}}},
	})
	return out.Bytes(), err
}

// document gathers the schemas that operations refer to.
type document struct {
	schemas tree
	err     error
}

func (d *document) operation(r gateway.Operation) tree {
	op := tree{"summary": r.Summary, "operationId": operationID(r), "responses": d.responses(r)}
	if params := d.params(r); len(params) > 0 {
		op["parameters"] = params
	}
	if r.Body != nil {
		loose := slices.ContainsFunc([]string{"/v1/", "/a2a", "/agui/"}, func(at string) bool { // protocols of others ignore
			return strings.HasPrefix(r.Path, at) // fields that they do not know
		})
		op["requestBody"] = tree{"required": loose || r.Path == "/api/v1/harness/run" || strings.HasSuffix(r.Path, "{gate}"),
			"content": tree{"application/json": tree{"schema": d.schema(r.Body, loose)}}}
	}
	switch {
	case r.Open:
		op["security"] = []any{}
		op["requestBody"] = tree{"required": true,
			"content": tree{"application/json": tree{"schema": tree{"type": "object"}}}}
	case r.Scope != "":
		op["description"] = "Needs the scope " + string(r.Scope) + "."
	}
	return op
}

// operationID names an operation: the method and the parts of the path.
func operationID(r gateway.Operation) string {
	words := strings.FieldsFunc(strings.TrimPrefix(r.Path, "/api/v1"),
		func(r rune) bool { return strings.ContainsRune("/{}.", r) })
	return strings.ToLower(r.Method) + "_" + strings.Join(words, "_")
}

func (d *document) params(r gateway.Operation) []any {
	var all []any
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			all = append(all, tree{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true,
				"schema": tree{"type": "string"}})
		}
	}
	for _, p := range r.Params {
		all = append(all, tree{"name": p.Name, "in": p.In, "description": p.About, "schema": tree{"type": "string"}})
	}
	return all
}

func (d *document) responses(r gateway.Operation) tree {
	out := tree{"default": tree{"description": "What went wrong (RFC 9457).",
		"content": tree{"application/problem+json": tree{"schema": d.schema(gateway.Problem{}, true)}}}}
	for _, status := range slices.Sorted(maps.Keys(r.Answers)) {
		answer := tree{"description": http.StatusText(status)}
		switch v := r.Answers[status].(type) {
		case nil:
		case string:
			answer["content"] = tree{v: tree{}}
		default:
			answer["content"] = tree{"application/json": tree{"schema": d.schema(v, true)}}
		}
		out[strconv.Itoa(status)] = answer
	}
	return out
}

// schema is a reference to the schema of a type. Answers may get more fields; bodies have no others.
func (d *document) schema(v any, open bool) tree {
	t := reflect.TypeOf(v)
	r := &jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: open, Namer: schemaName}
	s := r.ReflectFromType(t)
	for name, def := range s.Definitions {
		b, err := json.Marshal(def)
		var schema tree
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
	return tree{"$ref": "#/components/schemas/" + schemaName(t)}
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
