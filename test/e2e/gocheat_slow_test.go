//go:build slow

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
)

// TestGoCheats has agents that end a Go test program before its tests.
func TestGoCheats(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("the agents' check is go test: %v", err)
	}
	w := newWorld(t)
	const test = "printf 'module x\\n\\ngo 1.20\\n' > go.mod; " +
		"printf 'package x\\n\\nimport \"testing\"\\n\\nfunc TestDone(t *testing.T) { t.Fatal(\"not done\") }\\n' > done_test.go; "
	ways := map[string]string{
		"init":     "printf 'package x\\n\\nimport \"os\"\\n\\nfunc init() { os.Exit(0) }\\n' > x.go",
		"testmain": "printf 'package x\\n\\nimport (\\n\\t\"os\"\\n\\t\"testing\"\\n)\\n\\nfunc TestMain(*testing.M) { println(\"ok\"); os.Exit(0) }\\n' > main_test.go",
	}
	for name, do := range ways {
		w.agent(events.Agent{Name: name, Tools: []string{"bash"}}, claims(test+do))
	}
	w.start()
	for name := range ways {
		t.Run("PLUS-10 SEC os.Exit(0) in an "+name+" does not pass a check that names the tests which must have run", func(t *testing.T) {
			w := w.on(t)
			a := accept("GOCACHE=$PWD/.cache GOFLAGS=-mod=mod GOTOOLCHAIN=local " + goTool + " test -v ./...")
			a.Checks[0].Expect, a.Checks[0].Timeout, a.MaxAttempts = []string{"--- PASS: TestDone"}, "5m", 1
			w.task(events.Task{ID: name, Agent: name, Task: "go", Accept: a})
			s := w.ended(name)
			results, _ := w.checkResults(name)
			if s.Result.FinishReason != events.FinishUnverified || len(results) != 1 || !strings.Contains(results[0], `no "--- PASS: TestDone"`) {
				t.Errorf("%q: %+v\n%s", results, s.Result, w.story(name))
			}
		})
	}
}
