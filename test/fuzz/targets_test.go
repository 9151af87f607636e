package fuzz

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// target is a fuzz test that the robust programme runs.
type target struct{ dir, name, reads string }

// targets are the fuzz tests that the robust programme runs, one for each sort of strangers' bytes. make fuzz runs all
// there are, these among them.
var targets = []target{
	{"pkg/events/ce", "FuzzOpen", "CloudEvents and bare documents"},
	{"pkg/events", "FuzzIDs", "ids and subjects"},
	{"pkg/run", "FuzzStory", "lists of events, chained"},
	{"pkg/run", "FuzzChain", "histories that somebody changed"},
	{"test/fuzz", "FuzzTask", "tasks"},
	{"test/fuzz", "FuzzAnswer", "answers to a gate"},
	{"internal/sandbox/local", "FuzzPaths", "paths of a workspace"},
	{"internal/agentfile", "FuzzParse", "agent files"},
	{"internal/agentfile", "FuzzRender", "prompt templates"},
	{"internal/shell", "FuzzParse", "shell text"},
	{"internal/egress/policy", "FuzzTarget", "hosts and what allows them"},
	{"internal/egress", "FuzzHello", "greetings of TLS"},
	{"internal/egress", "FuzzSocks", "what SOCKS5 clients say"},
}

// others keep inputs too; the programme has no time for them.
var others = []target{
	{"pkg/events", "FuzzDecode", "stored events"},
	{"pkg/run", "FuzzFold", "lists of anything"},
	{"test/fuzz", "FuzzControl", "controls of a run"},
}

const root = "../.."

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, g := range append(slices.Clone(targets), others...) {
		t.Run("SAFE-12 "+g.dir+" "+g.name+" exists and has a corpus", func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob(filepath.Join(root, g.dir, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, name := range files {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				found = found || strings.Contains(string(b), "func "+g.name+"(f *testing.F)")
			}
			if !found {
				t.Errorf("no file of %s has it: correct the list of targets", g.dir)
			}
			if kept, err := filepath.Glob(filepath.Join(root, g.dir, "testdata", "fuzz", g.name, "*")); err != nil || len(kept) == 0 {
				t.Errorf("no inputs are kept below %s/testdata/fuzz/%s (%v)", g.dir, g.name, err)
			}
		})
	}
}
