package docgen_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/inspan/inspan/pkg/events"
)

// at follows the tokens of a JSON pointer.
func at(doc any, pointer string) any {
	for _, t := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = m[strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")]
	}
	return doc
}

// refs calls see with each $ref of a document.
func refs(doc any, see func(string)) {
	switch doc := doc.(type) {
	case map[string]any:
		for k, v := range doc {
			if s, ok := v.(string); ok && k == "$ref" {
				see(s)
			}
			refs(v, see)
		}
	case []any:
		for _, v := range doc {
			refs(v, see)
		}
	}
}

func TestAsyncAPI(t *testing.T) {
	files := generate(t)
	b, err := yaml.YAMLToJSON(files["docs/asyncapi.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	t.Run("ECO-1 it is an AsyncAPI 3 document whose references all lead somewhere", func(t *testing.T) {
		if v, _ := doc["asyncapi"].(string); !strings.HasPrefix(v, "3.") || at(doc, "/info/title") == nil || at(doc, "/info/version") == nil {
			t.Errorf("got version %v, info %v", doc["asyncapi"], doc["info"])
		}
		count := 0
		refs(doc, func(ref string) {
			count++
			if inside, ok := strings.CutPrefix(ref, "#"); ok {
				if at(doc, inside) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			} else if files["docs/"+strings.TrimPrefix(ref, "./")] == nil {
				t.Errorf("%s is not a file that is made", ref)
			}
		})
		if count < 3*len(every()) {
			t.Errorf("got %d references, want at least a payload, a message and a channel for each kind", count)
		}
	})
	t.Run("ECO-1 each kind and each input has a channel, with all parameters of its address", func(t *testing.T) {
		channels, _ := doc["channels"].(map[string]any)
		var addresses []string
		for name := range channels {
			address, _ := at(doc, "/channels/"+name+"/address").(string)
			// Whatever a parameter is called, one token is one token.
			tokens := strings.Split(address, ".")
			for i, token := range tokens {
				if !strings.HasPrefix(token, "{") {
					continue
				}
				if at(doc, "/channels/"+name+"/parameters/"+strings.Trim(token, "{}")) == nil {
					t.Errorf("channel %s does not describe %s of its address", name, token)
				}
				tokens[i] = "_"
			}
			addresses = append(addresses, strings.Join(tokens, "."))
		}
		want := []string{events.TaskSubject("_"), events.ControlSubject("_", "_"), events.GateSubject("_", "_", "_"), events.StreamSubject("_", "_")}
		for _, a := range events.Aggregates() {
			want = append(want, events.AggregateStream("_", a.Name, "_"))
			for _, w := range a.Types {
				want = append(want, events.EventSubject("_", a.Name, "_", w.Kind))
			}
		}
		for _, subject := range want {
			if !slices.Contains(addresses, subject) {
				t.Errorf("no channel for %s", subject)
			}
		}
	})
	t.Run("ECO-1 each operation is one of a channel, and says only what may be said there", func(t *testing.T) {
		operations, _ := doc["operations"].(map[string]any)
		if len(operations) < len(every()) {
			t.Errorf("got %d operations", len(operations))
		}
		for name := range operations {
			action, _ := at(doc, "/operations/"+name+"/action").(string)
			ref, _ := at(doc, "/operations/"+name+"/channel/$ref").(string)
			if action != "send" && action != "receive" || !strings.HasPrefix(ref, "#/channels/") {
				t.Errorf("%s: got action %q on %q", name, action, ref)
			}
		}
	})
}
