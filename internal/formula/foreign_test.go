package formula_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/formula"
)

// TestForeign reads formulas and workflows in the dialects of other programs: what each comes to, or why it is refused and
// what to write instead, stands in results.txt.
func TestForeign(t *testing.T) {
	t.Parallel()
	const dir = "testdata/foreign"
	names, err := formula.Names(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	formulas, workflows, refused := 0, 0, 0
	for _, name := range names {
		fmt.Fprintf(&all, "%s\n", name)
		if m, err := formula.Load(os.DirFS(dir), name); err != nil {
			refused++
			for _, e := range formula.Faults(err) {
				if e.File == "" || e.Line == 0 || e.Column == 0 || e.Hint == "" {
					t.Errorf("%s: the fault has no place, or does not say what to do: %v", name, e)
				}
				fmt.Fprintf(&all, "  %v\n", e)
			}
		} else {
			for _, s := range m.Steps() {
				fmt.Fprintf(&all, "  %s <- %s %s\n", s.ID, strings.Join(s.Needs, " "), strings.Join(s.Flow, ", "))
			}
		}
		if _, err := os.Stat(filepath.Join(dir, name+formula.TOML)); err == nil {
			formulas++
		} else {
			workflows++
		}
	}
	file := filepath.Join(dir, "results.txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("FORM-1 FORM-8 formulas and workflows of other programs are carried out, or refused with place and remedy", func(t *testing.T) {
		t.Parallel()
		if all.String() != string(want) {
			t.Errorf("got\n%s\nwant\n%s", all.String(), want)
		}
		if formulas < 10 || workflows < 10 || refused < 6 {
			t.Errorf("%d formulas and %d workflows, of which %d are refused", formulas, workflows, refused)
		}
	})
}
