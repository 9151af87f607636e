package artifact

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestForkedRecords(t *testing.T) {
	t.Parallel()
	var s run.State
	s.HarnessID = "a-fork"
	for _, a := range []events.Artifact{
		{ID: "old", Run: "b-origin", Path: "report.md", Name: "report.md", SHA256: "1"},
		{ID: "kept", Run: "b-origin", Path: "out/kept.md", Name: "kept.md", SHA256: "2"},
		{ID: "new", Run: "a-fork", Path: "report.md", Name: "report.md", SHA256: "3"},
	} {
		a.Key = KeyOf(a.Run, a.Path)
		s.Artifacts = run.Append(s.Artifacts, a)
	}
	t.Run("ART-2 PLUS-1 what a fork made takes the place of what the run that it comes from had under that path", func(t *testing.T) {
		t.Parallel()
		var got string
		for _, a := range Latest(s) {
			got += a.ID + " "
		}
		if got != "new kept " {
			t.Errorf("got %s", got)
		}
		for _, what := range []string{"report.md", KeyOf("a-fork", "report.md")} {
			if a, ok := Find(s, what); !ok || a.ID != "new" {
				t.Errorf("%s is %s", what, a.ID)
			}
		}
		if a, ok := Find(s, "old"); !ok || a.SHA256 != "1" {
			t.Errorf("by its id: %+v", a)
		}
	})
}
