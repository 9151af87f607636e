//go:build slow

package register

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edit is one file as it is written by hand: text is put before the place that is named, or is the whole of a new file.
type edit struct{ file, before, text string }

// The four files of the event type memo.left, which is of a new family.
const (
	row = `	{MemoLeft, Planner, "memo_left", Recorded, InLog, line((*MemoLeftData).line),
		"A person left a memo on the run.",
		func() Payload { return new(MemoLeftData) }},
`
	payload = `package events

// MemoLeftData is a memo that a person left on a run.
type MemoLeftData struct {
	Event string ` + "`json:\"event\"`" + `
	By    string ` + "`json:\"by\"`" + `
	Text  string ` + "`json:\"text\"`" + `
}

// Kind implements Payload.
func (*MemoLeftData) Kind() Kind { return MemoLeft }

func (d *MemoLeftData) line() string { return "memo of " + d.By + ": " + d.Text }
`
	rule = `package run

import "github.com/inspan/inspan/pkg/events"

// memoRules fold the memos on a run.
var memoRules = []rule{
	on(func(_ *State, _ events.Fact, d *events.MemoLeftData) string {
		if d.Text == "" {
			return "the memo is empty"
		}
		return ""
	}),
}
`
)

var whole = []edit{
	{"pkg/events/kind.go", "	CheckpointSaved    Kind =", "	MemoLeft Kind = \"memo.left\"\n"},
	{"pkg/events/kind.go", "	{RunPaused, Planner,", row},
	{"pkg/events/payload_memo.go", "", payload},
	{"pkg/run/rules.go", "runRules, planRules,", "memoRules, "},
	{"pkg/run/fold_memo.go", "", rule},
}

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
	dir := t.TempDir()
	sources(t, "../..", dir)
	files := map[string]bool{}
	for _, e := range whole {
		files[e.file] = true
		change(t, filepath.Join(dir, e.file), func(text string) string {
			if e.before == "" {
				return e.text
			}
			if strings.Count(text, e.before) != 1 {
				t.Fatalf("%s has %q %d times", e.file, e.before, strings.Count(text, e.before))
			}
			return strings.Replace(text, e.before, e.text+e.before, 1)
		})
	}
	t.Run("EVT-13 an event type of a new family is four files by hand", func(t *testing.T) {
		if len(files) > 4 {
			t.Errorf("it is %q", slices.Sorted(maps.Keys(files)))
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

func change(t *testing.T, path string, to func(string) string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(to(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sources copies what the packages need to be tested.
func sources(t *testing.T, root, dir string) {
	t.Helper()
	for _, part := range []string{"go.mod", "go.sum", "pkg", "internal", "services", "test/histories"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(root, path)
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			to := filepath.Join(dir, rel)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			return os.WriteFile(to, b, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
