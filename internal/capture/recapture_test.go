package capture

import "testing"

func TestAgain(t *testing.T) {
	t.Parallel()
	t.Run("ART-3 GIT-11 what was brought from elsewhere is not taken for what the run made, also after a restart", func(t *testing.T) {
		t.Parallel()
		d := newDesktop(t)
		if err := d.k.Again(t.Context(), "r1", d.dir); err != nil || d.k.Knows("r1") {
			t.Errorf("before the first call nothing is listed: %v", err)
		}
		d.begin()
		d.write("cloned.md", "from elsewhere")
		if err := d.k.Again(t.Context(), "r1", d.dir); err != nil {
			t.Fatal(err)
		}
		d.write("made.md", "by the run")
		if got := paths(d.look(nil)); got != "made.md" {
			t.Errorf("got %s", got)
		}
		d.restart()
		d.write("cloned.md", "changed by the run")
		if got := paths(d.look(nil)); got != "cloned.md" {
			t.Errorf("after a restart: got %s", got)
		}
	})
}
