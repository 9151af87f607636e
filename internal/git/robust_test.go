//go:build slow

package git_test

import (
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

// TestRobustGit is the part "git" of the robust programme: those tests of git that make test has only a part of.
func TestRobustGit(t *testing.T) {
	p := report.Part{Name: "git", Title: "Snapshots of random and of changing trees, races of links, and damaged mirrors"}
	p.Slow(t.Context(), "WS-3 SBX-18", ".", "^(TestRandomTrees|TestKeepHard|TestRace)$")
	p.Slow(t.Context(), "WS-14", "../gitwork", "^TestMirrorMended$")
	for _, v := range p.Violations {
		t.Error(v)
	}
	if err := p.Save(); err != nil {
		t.Error(err)
	}
}
