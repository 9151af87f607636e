package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/inspan/inspan/test/robust/report"
)

func TestPartsAreThere(t *testing.T) {
	t.Parallel()
	for _, p := range parts {
		files, err := filepath.Glob(filepath.Join("../..", p.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found, name := false, regexp.MustCompile(`Test(\w+)`).FindStringSubmatch(p.run)[1]
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "func Test"+name+"(")
		}
		if !found {
			t.Errorf("part %s: no %s in %s", p.name, p.run, p.pkg)
		}
	}
}

func TestDocumentTellsWhatIsBroken(t *testing.T) {
	t.Parallel()
	w := whole{Parts: []result{{Part: report.Part{Name: "sim", Rows: []report.Row{{What: "a|b", Saw: "1", Want: "0"}},
		Violations: []string{"seed 7: lost"}, Untried: []string{"power cut: no loop devices"}}, Failed: "it died"}}}
	text := document(w)
	for _, want := range []string{"Not all promises held", `a\|b | 1 | 0`, "seed 7: lost", "no loop devices", "it died"} {
		if !strings.Contains(text, want) {
			t.Errorf("the document does not say %q:\n%s", want, text)
		}
	}
}
