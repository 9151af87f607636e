package register

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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
	on(func(_ *State, _ events.Event, d *events.MemoLeftData) string {
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

// TestEdits is the part of TestRegister that every run of the tests has: what it writes by hand still compiles.
func TestEdits(t *testing.T) {
	t.Parallel()
	t.Run("EVT-13 the files of an event type of a new family compile", func(t *testing.T) {
		t.Parallel()
		dir, _ := registered(t)
		cmd := exec.Command("go", "build", "./pkg/run")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// registered is a copy of the sources with the event type in it, and the files that were written by hand.
func registered(t *testing.T) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	sources(t, "../..", dir)
	seen := map[string]bool{}
	for _, e := range whole {
		if !seen[e.file] {
			seen[e.file], files = true, append(files, e.file)
		}
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
	return dir, files
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
