package tools_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/tools"
)

var update = flag.Bool("update", false, "write the golden descriptions again")

// TestGolden keeps what models are told: a change of it is meant, or it fails.
func TestGolden(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 TOOL-19 what a model is told of each tool is what was agreed", func(t *testing.T) {
		t.Parallel()
		type told struct {
			Name, Effect string
			TimeoutMS    int64
			Description  []string
			Input        json.RawMessage
		}
		var all []told
		for _, tl := range tools.Builtin() {
			s := tl.Spec()
			all = append(all, told{s.Name, string(s.EffectOf()), s.TimeoutOf().Milliseconds(), strings.Split(s.Description, "\n"), s.Input})
		}
		got, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		const file = "testdata/specs.json"
		if *update {
			if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v: make it with go test ./internal/tools -run Golden -update", err)
		}
		if string(want) != string(got)+"\n" {
			t.Errorf("the tools are not as %s says; if that is meant: go test ./internal/tools -run Golden -update\n%s", file, got)
		}
	})
}
