package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/docs"
)

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-3 the document has each route, with schemas for what it refers to", func(t *testing.T) {
		t.Parallel()
		var doc struct {
			OpenAPI    string                           `json:"openapi"`
			Paths      map[string]map[string]any        `json:"paths"`
			Components struct{ Schemas map[string]any } `json:"components"`
		}
		if err := json.Unmarshal(docs.OpenAPI, &doc); err != nil || doc.OpenAPI != "3.1.0" {
			t.Fatalf("%v\n%s", err, docs.OpenAPI)
		}
		ids := map[string]bool{}
		for _, r := range routes() {
			op, _ := doc.Paths[r.path][strings.ToLower(r.method)].(map[string]any)
			if op == nil {
				t.Errorf("%s %s is not in it", r.method, r.path)
				continue
			}
			id, _ := op["operationId"].(string)
			if id == "" || ids[id] {
				t.Errorf("%s %s: operation %q", r.method, r.path, id)
			}
			ids[id] = true
			if _, public := op["security"]; public != r.open {
				t.Errorf("%s %s: needs no token: %v", r.method, r.path, public)
			}
		}
		refs := 0
		for rest := string(docs.OpenAPI); ; refs++ {
			_, after, found := strings.Cut(rest, `"$ref": "`)
			if !found {
				break
			}
			ref, tail, _ := strings.Cut(after, `"`)
			if name, ok := strings.CutPrefix(ref, "#/components/schemas/"); !ok || doc.Components.Schemas[name] == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			rest = tail
		}
		if refs < len(routes()) {
			t.Errorf("%d references", refs)
		}
	})
}
