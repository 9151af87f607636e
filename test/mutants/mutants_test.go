package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// planted returns the file of a mutant with its bug.
func planted(t *testing.T, m Mutant) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.Old); n != 1 {
		t.Fatalf("%q: %s has the text %d times, want once:\n%s", m.Name, m.File, n, m.Old)
	}
	if m.Old == m.New {
		t.Fatalf("%q plants nothing", m.Name)
	}
	return strings.Replace(string(b), m.Old, m.New, 1)
}

func TestMutantsFit(t *testing.T) {
	t.Parallel()
	all := Mutants()
	if len(all) < 25 {
		t.Errorf("%d mutants, want at least 25", len(all))
	}
	for _, m := range all {
		planted(t, m)
	}
}
