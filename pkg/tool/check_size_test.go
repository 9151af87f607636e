package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

// TestComplaintsAreShort: what Check says goes into an event and to the model, so the arguments must not be able to
// make it long.
func TestComplaintsAreShort(t *testing.T) {
	t.Parallel()
	const most = 4 << 10
	long := strings.Repeat("k", 500_000)
	many := make(map[string]any)
	for _, r := range strings.Repeat("abcdefghij", 20) {
		many[strings.Repeat(string(r), len(many)+100)] = 1
	}
	r, err := tool.NewRegistry(fake{tool.Spec{Name: "strict", Input: json.RawMessage(
		`{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"},"e":{"enum":["a","b"]},"deep":{"type":"object","additionalProperties":{"type":"integer"}}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string]any{
		"a long unknown name":     map[string]any{long: 1},
		"many unknown names":      many,
		"a long value for n":      map[string]any{"n": long},
		"a long value for e":      map[string]any{"e": long},
		"a long name further in":  map[string]any{"deep": map[string]any{long: "x"}},
		"a huge number far in":    map[string]any{"deep": map[string]any{long: json.Number("1e999999999")}},
		"bidi in an unknown name": map[string]any{"\u202egnp.exe": 1},
	} {
		t.Run("SAFE-12 "+what, func(t *testing.T) {
			t.Parallel()
			input, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Check("strict", input)
			if tool.ClassOf(err) != tool.Invalid {
				t.Fatalf("got %v, want Invalid", err)
			}
			if n := len(err.Error()); n > most {
				t.Errorf("the complaint has %d bytes, at most %d", n, most)
			}
			if strings.ContainsAny(err.Error(), "\u202e\x00") {
				t.Errorf("got %q", err.Error())
			}
		})
	}
	t.Run("SAFE-12 a long name of a tool", func(t *testing.T) {
		t.Parallel()
		if err := r.Check(long, json.RawMessage(`{}`)); err == nil || len(err.Error()) > most {
			t.Errorf("got %v", err != nil)
		}
	})
}
