package artifact

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestSayProperty(t *testing.T) {
	t.Parallel()
	t.Run("ART-7 whatever is made: no limit is passed, a second look finds nothing, and each record has an id of its own", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			l := Limits{File: 50, Run: rapid.Int64Range(0, 200).Draw(t, "run limit")}
			s := working()
			for range rapid.IntRange(1, 6).Draw(t, "attempts") {
				f := Found{Limits: l}
				for range rapid.IntRange(0, 8).Draw(t, "files") {
					content := rapid.IntRange(0, 9).Draw(t, "content")
					f.Artifacts = append(f.Artifacts, made(fmt.Sprintf("f%d.md", rapid.IntRange(0, 4).Draw(t, "path")), fmt.Sprint(content), int64(content*5)))
				}
				offered := len(f.Artifacts)
				s = keep(t, s, Saved(s, events.ToolRef{Call: "c"}, 1, f))
				// The same found again, as by another look at the same workspace: each path's newest content is known.
				var again []events.Artifact
				for _, a := range Latest(s) {
					a.ID = ""
					again = append(again, a)
				}
				if more := Saved(s, events.ToolRef{Call: "c"}, 1, Found{Limits: l, Artifacts: again}); more != nil {
					t.Fatalf("a second look at %d files says %+v", offered, more)
				}
			}
			stored, used, ids := map[string]bool{}, int64(0), map[string]bool{}
			for _, a := range run.All(s.Artifacts) {
				if ids[a.ID] || a.ID == "" {
					t.Fatalf("id %q is there twice", a.ID)
				}
				ids[a.ID] = true
				if !stored[a.SHA256] {
					stored[a.SHA256], used = true, used+a.Size
				}
			}
			if used > l.Run {
				t.Fatalf("%d bytes, the limit is %d", used, l.Run)
			}
		})
	})
	t.Run("ART-2 SAFE-15 however many and long they are, each event has room", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			f := Found{Limits: Limits{File: 1, Run: 1 << 40}}
			n := rapid.IntRange(1, run.MaxArtifacts+20).Draw(t, "files")
			name := strings.Repeat(rapid.SampledFrom([]string{"x", "<", "\"", "ü"}).Draw(t, "letter"), rapid.IntRange(1, 500).Draw(t, "length"))
			for i := range n {
				f.Artifacts = append(f.Artifacts, made(fmt.Sprintf("%s%d", name, i), fmt.Sprint(i), 1))
				f.Left = append(f.Left, events.LeftOut{Path: Shown(name), Code: events.LeftTooLarge})
			}
			evs := Saved(working(), events.ToolRef{Call: "c"}, 1, f)
			s := keep(t, working(), evs)
			if got := s.Artifacts.Len(); got != min(n, run.MaxArtifacts) {
				t.Fatalf("%d of %d artifacts", got, n)
			}
			for _, p := range evs {
				if b, err := json.Marshal(p); err != nil || len(b) > events.MaxEvent-8<<10 {
					t.Fatalf("an event of %d bytes, %v", len(b), err)
				}
			}
		})
	})
}

// keep folds what was said of artifacts.
func keep(t *rapid.T, s run.State, evs []events.Payload) run.State {
	for _, p := range evs {
		d, ok := p.(*events.ArtifactSavedData)
		if !ok {
			t.Fatalf("said %T", p)
		}
		if len(d.Left) > maxLeft {
			t.Fatalf("%d are listed as left out", len(d.Left))
		}
		for _, a := range d.Artifacts {
			s.Artifacts = run.Append(s.Artifacts, a)
		}
	}
	return s
}
