package tidy

import (
	"os/exec"
	"strings"
	"testing"
)

// linked are all packages that a package of this module links, with the paths of this module without its name;
// not those of the standard library.
func linked(t *testing.T, pkg string) []string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+pkg)
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list -deps ./%s: %v", pkg, err)
	}
	var list []string
	for p := range strings.Lines(string(out)) {
		p, own := strings.CutPrefix(strings.TrimSpace(p), Module+"/")
		if own || strings.Contains(strings.Split(p, "/")[0], ".") {
			list = append(list, p)
		}
	}
	if len(list) < 3 {
		t.Fatalf("%s links %d packages: the list is not whole", pkg, len(list))
	}
	return list
}

// TestLinks holds programs to what they may link.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, l := range AllLinks {
		for _, of := range l.Of {
			t.Run("DEPL-1 "+of+": "+l.Why, func(t *testing.T) {
				t.Parallel()
				for _, p := range linked(t, of) {
					if inAny(p, l.Not) {
						t.Errorf("%s links %s: %s; go list -deps ./%s names the way", of, p, l.Why, of)
					}
				}
			})
		}
	}
	t.Run("DEPL-1 each name in the table is linked by a program, so that a renamed package is found", func(t *testing.T) {
		t.Parallel()
		all := append(linked(t, "cmd/inspan"), "cmd/inspan")
		for _, l := range AllLinks {
			for _, not := range l.Not {
				found := false
				for _, p := range all {
					found = found || inAny(p, []string{not})
				}
				if !found {
					t.Errorf("nothing links %s: it has another name now", not)
				}
			}
		}
	})
}
