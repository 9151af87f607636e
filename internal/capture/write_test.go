package capture

import (
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

func TestOwn(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 what the harness writes itself, or a tool is writing, is nothing that a run made, whatever the patterns are", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		for _, name := range []string{".session.lock", ".session.meta", ".harness/artifacts.json", ".inspan-ABC", "sub/.inspan-ABC", "sub/.session.lock", "a.txt"} {
			d.write(name, name)
		}
		if l := d.look(&events.ArtifactRules{Include: []string{"**"}}); paths(l) != "a.txt sub/.session.lock" || len(l.Left) != 0 {
			t.Errorf("%q, %v", paths(l), l.Left)
		}
	})
	t.Run("ART-3 ART-7 where something goes on writing, what the run has no artifact of is taken, and what it has only where the call wrote it", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		d.begin()
		d.write("server.log", "one")
		d.write("mine.md", "one")
		d.look(nil)
		d.write("server.log", "one, two")
		d.write("mine.md", "one, two")
		d.write("late.md", "late")
		l := d.k.Look(t.Context(), d.s, Job{Dir: d.dir, Step: "a", All: true, Unseen: true, Paths: []string{filepath.Join(d.dir, "mine.md")}})
		d.say(l)
		if got := paths(l); got != "late.md mine.md" {
			t.Errorf("%q, %v", got, l.Left)
		}
		if l := d.look(nil); paths(l) != "server.log" {
			t.Errorf("the next whole look finds %q", paths(l))
		}
	})
}
