package actions

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/pkg/events"
)

func TestPatchPaths(t *testing.T) {
	t.Parallel()
	input := func(text string) json.RawMessage {
		raw, err := json.Marshal(map[string]string{"patch": text})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	both := input("*** Begin Patch\n*** Update File: docs/a\n*** Move to: ./src/b\n-x\n+y\n*** Delete File: ../out\n*** End Patch")
	t.Run("GUARD-12 the guards see each path of a patch, before and after", func(t *testing.T) {
		t.Parallel()
		a := Of("apply_patch", both)
		if !slices.Equal(a.Paths, []string{"docs/a", "./src/b", "../out"}) || !slices.Equal(a.Outside, []string{"../out"}) {
			t.Errorf("%+v", a)
		}
	})
	t.Run("GUARD-12 one path of a patch is enough to refuse it, and an exception needs all", func(t *testing.T) {
		t.Parallel()
		set, err := guard.Build([]events.Rule{
			{ID: "secret", Tool: "apply_patch", Match: events.Match{Path: "src/**"}, Action: guard.Deny},
			{ID: "docs", Tool: "apply_patch", Except: &events.Match{Path: "docs/**"}, Action: guard.Ask},
		})
		if err != nil {
			t.Fatal(err)
		}
		one := func(path string) json.RawMessage {
			return input("--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-x\n+y\n")
		}
		for want, in := range map[string]json.RawMessage{guard.Deny: both, guard.Allow: one("docs/a"), guard.Ask: one("x")} {
			if f := set.Judge(Of("apply_patch", in)); f.Action != want {
				t.Errorf("%s: got %+v, want %s", in, f, want)
			}
		}
	})
}
