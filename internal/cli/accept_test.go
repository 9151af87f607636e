package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/run"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := os.WriteFile(filepath.Join(d.dir, "scripts", "reader.yaml"), []byte("turns:\n  - text: It is done.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.up()
	t.Run("PLUS-10 a run says which checks vouch for it, in its last line, in the list, in inspect and as JSON", func(t *testing.T) {
		d.want(0, words{"check passed on step step-1: true", "verified by true"}, "run", "reader", "x", "--id", "run-true", "--accept", "true")
		d.status("run-true", "completed")
		d.want(0, words{"verified by true"}, "runs", "--output", "wide")
		d.want(0, words{"verified by true"}, "inspect", "run-true")
		s := d.do("runs", "--json")
		for _, i := range decode[[]run.Info](t, s.out) {
			if i.HarnessID == "run-true" && strings.Join(i.Verified, " ") != "true" {
				t.Errorf("%+v", i.Verified)
			}
		}
	})
	t.Run("PLUS-10 a run without checks is unverified", func(t *testing.T) {
		d.want(0, words{", unverified"}, "run", "reader", "x", "--id", "run-plain")
		d.want(0, words{"unverified"}, "inspect", "run-plain")
	})
	t.Run("PLUS-10 a run whose check does not pass has failed, and shows why with the end of the output", func(t *testing.T) {
		d.want(1, words{"check failed on step step-1", "exit status 3", "two of nine", "(unverified)"},
			"run", "reader", "x", "--id", "run-false", "--accept", "echo two of nine; exit 3")
	})
	t.Run("PLUS-10 a command that exits with 0 without what its output must have does not pass", func(t *testing.T) {
		d.want(0, words{"verified by echo ran one, ran two"}, "run", "reader", "x", "--accept", "echo ran one, ran two", "--expect", "ran one", "--expect", "ran two")
		d.want(1, words{"check failed on step step-1", "ran two", "(unverified)"}, "run", "reader", "x", "--accept", "echo ran one", "--expect", "ran one", "--expect", "ran two")
		d.want(2, words{"--expect goes with one --accept"}, "run", "reader", "x", "--expect", "ran one")
		d.want(2, words{"--expect goes with one --accept"}, "run", "reader", "x", "--accept", "true", "--accept", "false", "--expect", "ran one")
	})
	t.Run("PLUS-10 checks that cannot be carried out are an error of the command line", func(t *testing.T) {
		d.want(2, words{"empty"}, "run", "reader", "x", "--accept", " ")
		d.want(2, words{"goes with --accept"}, "run", "reader", "x", "--protect", "a")
		d.want(2, words{"below the workspace"}, "run", "reader", "x", "--accept", "true", "--protect", "../a")
	})
}

func TestMergeChecked(t *testing.T) {
	t.Parallel()
	t.Run("PLUS-10 PLUS-11 merge takes the files that the checks passed on", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		c.do(0, []string{"verified by test -f sub/made.txt"}, "run", "editor", "edit", "--id", "r1", "--accept", "test -f sub/made.txt")
		c.do(0, []string{"files changed"}, "merge", "r1")
	})
	t.Run("PLUS-10 PLUS-11 merge refuses files that no check passed on, and takes them when it is asked to", func(t *testing.T) {
		t.Parallel()
		c := newCheckout(t)
		putFile(t, filepath.Join(c.other, "scripts/editor.yaml"), editor+"  - text: It is done.\n")
		c.do(1, []string{"(unverified)"}, "run", "editor", "edit", "--id", "r2", "--accept", "test -f none")
		before := c.digest()
		c.do(1, []string{"nothing was merged", "the acceptance checks of r2 have not passed", "no tree of a commit", "inspan merge r2 --unchecked"}, "merge", "r2")
		if c.digest() != before {
			t.Error("a merge that is refused changed the repository")
		}
		c.do(0, []string{"Unverified: the acceptance checks of r2"}, "merge", "r2", "--unchecked", "--squash")
	})
}
