//go:build slow

package register

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tests are those that know every event type.
var tests = []string{"./pkg/events", "./pkg/run", "./internal/core/view", "./internal/topology", "./internal/replay"}

// gaps are ways to leave something out: in what is written, text is replaced by another. Where test is empty it does
// not compile.
var gaps = map[string]struct{ file, old, text, test, want string }{
	"no author":           {"pkg/events/kind.go", "{MemoLeft, Planner,", `{MemoLeft, "",`, "./pkg/events", "memo.left has no author"},
	"no permission":       {"pkg/events/kind.go", "{MemoLeft, Planner,", `{MemoLeft, "",`, "./internal/topology", "memo.left has no author that may publish it"},
	"no name":             {"pkg/events/kind.go", `"memo_left"`, `""`, "./pkg/events", "memo.left has no name"},
	"no origin":           {"pkg/events/kind.go", "\"memo_left\", Recorded,", "\"memo_left\", 0,", "./pkg/events", "memo.left has no origin"},
	"no sentence":         {"pkg/events/kind.go", `"A person left a memo on the run."`, `""`, "./pkg/events", "memo.left has no sentence"},
	"no sample":           {"pkg/events/testdata/memo.left.json", "", "", "./pkg/events", "memo.left has no sample"},
	"no line":             {"pkg/events/kind.go", "line((*MemoLeftData).line)", "nil", "./internal/core/view", "memo.left has no line of text"},
	"no text of the line": {"pkg/events/payload_memo.go", "line() string", "other() string", "", "(*MemoLeftData).line undefined"},
	"no kind":             {"pkg/events/payload_memo.go", "Kind() Kind", "Other() Kind", "", "missing method Kind"},
	"a row too short":     {"pkg/events/kind.go", "\t\t\"A person left a memo on the run.\",\n", "", "", "too few values in struct literal"},
	"no payload":          {"pkg/events/payload_memo.go", payload, "package events\n", "", "undefined: MemoLeftData"},
	"no fold rule":        {"pkg/run/rules.go", "memoRules, ", "", "./pkg/run", "memo.left has no fold rule"},
	"no row":              {"pkg/events/kind.go", row, "", "./pkg/run", "memo.left has a fold rule and no row"},
	"no tree":             {"pkg/events/kind.go", "Recorded, InLog, line((*Memo", "Recorded, InLog | InTree, line((*Memo", "./internal/core/view", "memo.left changes the tree"},
	"no replay": {"pkg/events/kind.go", "{MemoLeft, Planner, \"memo_left\", Recorded", "{MemoLeft, Toolrunner, \"memo_left\", Decided", "./internal/replay",
		"memo.left is decided by the toolrunner"},
}

func TestRegister(t *testing.T) {
	dir, files := registered(t)
	t.Run("EVT-13 an event type of a new family is four files by hand", func(t *testing.T) {
		if len(files) > 4 {
			t.Errorf("it is %q", files)
		}
		if out, err := run(dir, "./pkg/events", "-run", "Golden/sample.of", "-update"); err != nil {
			t.Fatalf("the sample: %v\n%s", err, out)
		}
		if out, err := run(dir, tests...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(gaps)) {
		g := gaps[name]
		t.Run("EVT-13 "+name+" is named", func(t *testing.T) {
			path := filepath.Join(dir, g.file)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			defer change(t, path, func(string) string { return string(before) })
			if g.old == "" {
				err = os.Remove(path)
			} else {
				change(t, path, func(text string) string {
					if strings.Count(text, g.old) != 1 {
						t.Fatalf("%s has %q %d times", g.file, g.old, strings.Count(text, g.old))
					}
					return strings.Replace(text, g.old, g.text, 1)
				})
			}
			if err != nil {
				t.Fatal(err)
			}
			test := g.test
			if test == "" {
				test = "./pkg/events"
			}
			out, err := run(dir, test)
			if err == nil || !strings.Contains(out, g.want) || strings.Contains(out, "build failed") != (g.test == "") {
				t.Errorf("want %q, got %v\n%s", g.want, err, out)
			}
		})
	}
}

// run tests packages of the copy.
func run(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-vet=off"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
