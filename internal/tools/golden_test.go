package tools_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/internal/tools/specs"
	"github.com/inspan/inspan/pkg/tool"
)

var update = flag.Bool("update", false, "write the golden descriptions again")

// TestGolden keeps what models are told: a change of it is meant, or it fails.
func TestGolden(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 TOOL-19 what a model is told of each tool is what was agreed", func(t *testing.T) {
		t.Parallel()
		var all []specs.Spec
		for _, tl := range append(tools.Builtin(), tools.Prometheus(tools.PrometheusConfig{})) {
			all = append(all, specs.Of(tl.Spec()))
		}
		got, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		const file = "specs/specs.json"
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
	t.Run("TOOL-19 services that link no tool know each as it is", func(t *testing.T) {
		t.Parallel()
		stored, err := specs.Registry()
		if err != nil {
			t.Fatal(err)
		}
		all := append(tools.Builtin(), tools.Prometheus(tools.PrometheusConfig{}))
		if len(stored.Names()) != len(all) {
			t.Errorf("%d tools are stored, there are %d", len(stored.Names()), len(all))
		}
		for _, tl := range all {
			want := tl.Spec()
			known, ok := stored.Get(want.Name)
			if !ok {
				t.Errorf("%s is not stored", want.Name)
				continue
			}
			got := known.Spec()
			if got.Description != want.Description || string(got.Input) != string(want.Input) || got.EffectOf() != want.EffectOf() || got.TimeoutOf() != want.TimeoutOf() {
				t.Errorf("%s: got %+v, want %+v", want.Name, got, want)
			}
			if _, err := known.Run(t.Context(), tool.Call{}); tool.ClassOf(err) != tool.Permanent {
				t.Errorf("%s: run by whoever knows its specification alone: %v", want.Name, err)
			}
		}
	})
}
