package main

import (
	"encoding/json"
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

func TestAgain(t *testing.T) {
	t.Parallel()
	part := func(name, failed string, violations ...string) result {
		return result{Part: report.Part{Name: name, Seed: 1, Violations: violations}, Took: "1s", Failed: failed}
	}
	first := whole{Machine: machine(), Commit: commit(t.Context()), Took: "19m0s", Parts: []result{part("sim", ""), part("soak", tookLonger+"9m0s"), part("mutants-1", notRun+"the programme was interrupted")}}
	read := func(w whole, seed uint64) (whole, error) {
		b, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(at, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return earlier(t.Context(), at, seed)
	}
	before, err := read(first, 1)
	if err != nil {
		t.Fatal(err)
	}
	if last := parts[len(parts)-plantedShares]; !before.held(parts[0]) || before.held(parts[1]) || last.name != "mutants-1" || before.held(last) {
		t.Error("what is run again is not what did not come to its end")
	}
	all, err := before.and(whole{Took: "11m1s", Passed: true, Parts: []result{part("soak", ""), part("mutants-1", ""), part("honest", "")}})
	if err != nil || !all.Passed || all.Took != "30m1s" || all.Goes != 2 || len(all.Parts) != 4 || all.Parts[3].Name != "mutants-1" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, no := range []whole{
		{Machine: first.Machine, Commit: "another", Took: "1s"},
		{Machine: first.Machine, Commit: first.Commit, Parts: []result{part("sim", "", "seed 7: lost")}},
		{Machine: first.Machine, Commit: first.Commit, Parts: []result{part("sim", "exit status 1")}},
	} {
		if _, err := read(no, 1); err == nil {
			t.Errorf("%+v is taken", no)
		}
	}
	if _, err := read(first, 2); err == nil {
		t.Error("another seed is taken")
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	some, err := choose("sim,mutants")
	if err != nil || len(some) != 1+plantedShares || some[1].share != "1/6" || some[6].share != "6/6" {
		t.Errorf("%+v, %v", some, err)
	}
	if _, err := choose("mutant"); err == nil {
		t.Error("a part that does not exist is chosen")
	}
}
