package harness

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestDelta is the property that PERF-2 and SDK-5 need: what a step stores of the state is enough, whatever the state is.
func TestDelta(t *testing.T) {
	t.Parallel()
	value := rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return rapid.Float64Range(-10, 10).Draw(t, "number")
		case 1:
			return rapid.SampledFrom([]any{nil, true, "text", []any{1.0}}).Draw(t, "value")
		default:
			return rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "b", "c"}), rapid.Int(), 0, 4).Draw(t, "object")
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		before, _ := json.Marshal(value.Draw(t, "before"))
		after, _ := json.Marshal(value.Draw(t, "after"))
		changed, removed := diff(before, after)
		got, err := patch(before, changed, removed)
		if err != nil {
			t.Fatal(err)
		}
		var g, w any
		if json.Unmarshal(got, &g) != nil || json.Unmarshal(after, &w) != nil || !reflect.DeepEqual(g, w) {
			t.Fatalf("%s + %s - %s = %s, want %s", before, changed, removed, got, after)
		}
		if len(modified(changed, removed)) != len(changed)+len(removed) {
			t.Fatalf("%s and %s are not all named", changed, removed)
		}
	})
}
