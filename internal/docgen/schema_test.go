package docgen_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/inspan/inspan/pkg/events"
)

// compiled returns the schemas of all kinds, and of what outsiders say, by name.
func compiled(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	for name, b := range generate(t) {
		base, ok := strings.CutPrefix(name, "docs/schemas/")
		if !ok {
			continue
		}
		if err := c.AddResource("file:///"+base, document(t, b)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := c.Compile("file:///" + base)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[strings.TrimSuffix(strings.TrimSuffix(base, ".json"), fmt.Sprintf(".v%d", events.Version))] = s
	}
	return all
}

func document(t *testing.T, b []byte) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func sample(t *testing.T, k events.Kind) map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "pkg", "events", "testdata", string(k)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return document(t, b).(map[string]any)
}

// always lists the fields that a Go type never leaves out of its JSON.
func always(of reflect.Type) []string {
	var names []string
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, always(f.Type)...)
		case name != "" && name != "-" && !strings.Contains(options, "omit"):
			names = append(names, name)
		}
	}
	return names
}

// every returns the event types of all aggregates.
func every() []events.Type {
	var all []events.Type
	for _, a := range events.Aggregates() {
		all = append(all, a.Types...)
	}
	return all
}

func TestSchemas(t *testing.T) {
	all := compiled(t)
	for _, w := range every() {
		s := all[string(w.Kind)]
		if s == nil {
			t.Fatalf("no schema of %s", w.Kind)
		}
		t.Run("EVT-13 ECO-1 the sample of "+string(w.Kind)+" fits its schema", func(t *testing.T) {
			if err := s.Validate(sample(t, w.Kind)); err != nil {
				t.Error(err)
			}
		})
		t.Run("OBS-25 "+string(w.Kind)+" without a field that it requires does not fit", func(t *testing.T) {
			lacking(t, s, w)
		})
		t.Run("EVT-13 "+string(w.Kind)+" may grow but not change its author, type or event", func(t *testing.T) {
			for name, change := range map[string]func(ev, data map[string]any){
				"type":   func(ev, _ map[string]any) { ev["type"] = "dev.inspan." + string(w.Kind) + ".v2" },
				"source": func(ev, _ map[string]any) { ev["source"] = "/station/demo/somebody" },
				"time":   func(ev, _ map[string]any) { ev["time"] = "yesterday" },
				"id":     func(ev, _ map[string]any) { ev["subject"], ev["runid"] = "a.b", "a.b" },
				"data":   func(ev, _ map[string]any) { ev["data"] = "text" },
				"event":  func(_, data map[string]any) { data["event"] = 7 },
			} {
				ev := sample(t, w.Kind)
				change(ev, ev["data"].(map[string]any))
				if s.Validate(ev) == nil {
					t.Errorf("another %s fits", name)
				}
			}
			ev := sample(t, w.Kind)
			ev["data"].(map[string]any)["new_field"] = true
			if err := s.Validate(ev); err != nil {
				t.Errorf("a new field does not fit: %v", err)
			}
		})
	}
	t.Run("EVT-13 there is no schema without a word", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !slices.ContainsFunc(every(), func(w events.Type) bool { return string(w.Kind) == name }) && !slices.Contains([]string{"task", "control", "answer", "deadletter"}, name) {
				t.Errorf("a schema of %q", name)
			}
		}
	})
}

// lacking takes each field that must be there out of the sample, one at a time.
func lacking(t *testing.T, s *jsonschema.Schema, w events.Type) {
	t.Helper()
	of := "runid"
	if _, ok := events.Lookup(w.Kind); !ok {
		of = "aggregate" // which events of runs do not have
	}
	envelope := append(always(reflect.TypeFor[events.Event]()), of)
	for _, must := range []string{"id", "stationid", "time", "type", "sequence", "data"} {
		if !slices.Contains(envelope, must) {
			t.Errorf("the envelope may leave out %s", must)
		}
	}
	for _, name := range envelope {
		ev := sample(t, w.Kind)
		delete(ev, name)
		if s.Validate(ev) == nil {
			t.Errorf("without %s it fits", name)
		}
	}
	payload := always(reflect.TypeOf(w.New()).Elem())
	if !slices.Contains(payload, "event") {
		t.Error("the payload may leave out event")
	}
	for _, name := range payload {
		ev := sample(t, w.Kind)
		delete(ev["data"].(map[string]any), name)
		if s.Validate(ev) == nil {
			t.Errorf("without data.%s it fits", name)
		}
	}
}

func TestHistories(t *testing.T) {
	all := compiled(t)
	t.Run("OBS-25 EVT-13 ECO-1 each event of whole runs fits the schema of its kind", func(t *testing.T) {
		paths, err := filepath.Glob(filepath.Join(root, "test", "histories", "*.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, path := range paths {
			if strings.HasPrefix(filepath.Base(path), "bad-") {
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(bytes.NewReader(b))
			lines.Buffer(nil, 2*events.MaxEvent)
			for n := 1; lines.Scan(); n++ {
				var f events.Event
				if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
					t.Fatalf("%s:%d: %v", path, n, err)
				}
				k, err := f.Kind()
				if err != nil {
					t.Fatalf("%s:%d: %v", path, n, err)
				}
				if err := all[string(k)].Validate(document(t, lines.Bytes())); err != nil {
					t.Errorf("%s:%d: %v", path, n, err)
				}
				seen++
			}
		}
		if seen < 20 {
			t.Errorf("saw %d events: the histories were not found", seen)
		}
	})
}

func TestInputs(t *testing.T) {
	all := compiled(t)
	for _, tc := range []struct {
		schema, text string
		fits         bool
	}{
		{"task", `{"agent":"coder","task":"fix it"}`, true},
		{"task", `{"agent":"coder","task":"fix it","autonomy":3,"plan":{"steps":[{"id":"a","description":"b"}]},"variables":{"x":"y"}}`, true},
		{"task", `{"task":"fix it"}`, false},
		{"task", `{"agent":"coder"}`, false},
		{"task", `{"agent":"coder","task":7}`, false},
		{"task", `{"agent":"coder","task":"x","max_steps":"many"}`, false},
		{"control", `{"action":"pause","by":"anna"}`, true},
		{"control", `{"action":"autonomy","level":2}`, true},
		{"control", `{"action":"revise","plan":{"steps":[{"id":"a","description":"b","needs":["c"]}]}}`, true},
		{"control", `{"level":2}`, false},
		{"answer", `{"decision":"approve"}`, true},
		{"answer", `{"decision":"reject","reason":"no","proposal_hash":"ab"}`, true},
		{"answer", `{"reason":"no"}`, false},
		{"answer", `{"decision":true}`, false},
	} {
		t.Run("EVT-13 "+tc.schema+" "+tc.text, func(t *testing.T) {
			s := all[tc.schema]
			if s == nil {
				t.Fatalf("no schema of %s", tc.schema)
			}
			if err := s.Validate(document(t, []byte(tc.text))); (err == nil) != tc.fits {
				t.Errorf("got %v, want that it fits: %v", err, tc.fits)
			}
		})
	}
}
