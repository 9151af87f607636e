package ce_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/events/ce"
	"pgregory.net/rapid"
)

func none(string) string { return "" }

func TestKeysStandOnce(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, body, want string }{
		{"twice", `{"agent":"a","agent":"b"}`, `"agent"`},
		{"in another case, as the decoder takes it", `{"task":"a","TASK":"b"}`, `"TASK"`},
		{"in the long s, which the decoder takes for an s", `{"task":"a","taſk":"b"}`, `"taſk"`},
		{"escaped", `{"task":"a","\u0074ask":"b"}`, `"task"`},
		{"nested", `{"git":{"depth":1},"plan":{"steps":[{},{"id":"a","id":"b"}]}}`, `"plan.steps[1].id"`},
		{"in a map", `{"variables":{"a":"1","a":"2"}}`, `"variables.a"`},
		{"in a map in another case", `{"variables":{"a":"1","A":"2"}}`, ""},
		{"once each", `{"agent":"a","task":"b","plan":{"steps":[{"id":"a"},{"id":"b"}]}}`, ""},
	}
	for _, c := range cases {
		t.Run("SAFE-12 a key "+c.name, func(t *testing.T) {
			t.Parallel()
			_, err := ce.Read([]byte(c.body), none, events.TaskType, &events.Task{})
			twice := err != nil && strings.Contains(err.Error(), "is used twice")
			if twice != (c.want != "") || twice && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("SAFE-12 of a document with a key twice at any place, none is read; of one without, each", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			var v any = rapid.IntRange(0, 9).Draw(t, "leaf")
			twice := false
			for range rapid.IntRange(1, 6).Draw(t, "depth") {
				inner, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					v = json.RawMessage(`[1,` + string(inner) + `]`)
				case 1:
					v = json.RawMessage(`{"b":1,"a":` + string(inner) + `}`)
				default:
					v, twice = json.RawMessage(`{"a":1,"a":`+string(inner)+`}`), true
				}
			}
			body, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			var got any
			if err := ce.Strict(body, &got); (err != nil) != twice {
				t.Fatalf("%s: got %v, want an error %v", body, err, twice)
			}
		})
	})
	t.Run("SAFE-12 a document that is cut off anywhere is refused", func(t *testing.T) {
		t.Parallel()
		const whole = `{"steps":[{"id":"one","tags":["first","second"],"deep":[["x"],[1,true]]}]}`
		for n := range len(whole) {
			var got any
			if err := ce.Strict([]byte(whole[:n]), &got); err == nil {
				t.Errorf("%s is read as %v", whole[:n], got)
			}
		}
	})
}
