package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// planted returns the file of a mutant with its bug. It is an error if the text of the mutant is not there once.
func planted(m Mutant) (string, error) {
	b, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(b), m.Old); n != 1 {
		return "", fmt.Errorf("%q: %s has the text %d times, want once:\n%s", m.Name, m.File, n, m.Old)
	}
	if m.Old == m.New {
		return "", fmt.Errorf("%q plants nothing", m.Name)
	}
	return strings.Replace(string(b), m.Old, m.New, 1), nil
}

func TestMutantsFit(t *testing.T) {
	t.Parallel()
	all := Mutants()
	if len(all) < 25 {
		t.Errorf("%d mutants, want at least 25", len(all))
	}
	for _, m := range all {
		if _, err := planted(m); err != nil {
			t.Error(err)
		}
	}
}
