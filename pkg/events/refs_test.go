package events_test

import (
	"encoding/json"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// objects counts the references in a document: whatever has a sha256 and a size.
func objects(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["sha256"]; ok && v["size"] != nil {
			n++
		}
		for _, e := range v {
			n += objects(e)
		}
	case []any:
		for _, e := range v {
			n += objects(e)
		}
	}
	return n
}

func TestRefs(t *testing.T) {
	t.Parallel()
	some := 0
	for _, w := range events.Registry() {
		p := sample(w)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		got, want := len(events.Refs(p)), objects(doc)
		some += want
		if got != want {
			t.Errorf("EVT-9 %s: Refs finds %d objects, its sample has %d: add them to Refs", w.Kind, got, want)
		}
		if n := len(events.Refs(w.New())); n != 0 {
			t.Errorf("%s: %d objects in an empty payload", w.Kind, n)
		}
	}
	if some < 4 {
		t.Errorf("the samples have %d references, want at least 4: the test sees nothing", some)
	}
}
