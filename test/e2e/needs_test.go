package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// program puts a program into a folder.
func programIn(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestRequires(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	programIn(t, bin, "forge", `[ "$1" = --version ] && echo "forge 1.9.2 (stable)"`)
	programIn(t, bin, "gopher", `[ "$1" = version ] && { echo "gopher version go1.22.3"; exit 0; }; echo "no such flag 9.9" >&2; exit 2`)
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.SandboxEnv = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin"} }
	const works = `
turns:
  - when: {turn: 1}
    calls:
      - {name: bash, input: {command: "echo made"}}
  - text: "{{result.1}}"
`
	agent := func(name string, requires ...string) {
		w.agent(events.Agent{Name: name, Tools: []string{"bash"}, Sandbox: events.Sandbox{Requires: requires}}, works)
	}
	agent("served", "forge>=1.9", "gopher>=1.22", "sh")
	agent("older", "forge>=2", "sh")
	agent("without", "no-such-tool", "forge")
	w.start()
	t.Run("SBX-21 an agent whose sandbox has what it requires works", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "served", Agent: "served", Task: "go"})
		if s := w.ended("served"); s.Status != events.Completed || strings.TrimSpace(s.Result.Output) != "made" {
			t.Errorf("%+v", s.Result)
		}
	})
	for agent, want := range map[string]string{
		"older":   "in sandbox host: forge>=2 is required, and forge is version 1.9.2",
		"without": "in sandbox host: no-such-tool is required and missing",
	} {
		t.Run("SBX-21 the error of an agent names what is missing where: "+agent, func(t *testing.T) {
			w := w.on(t)
			w.task(events.Task{ID: agent, Agent: agent, Task: "go"})
			c := w.ended(agent).ToolCallHistory.At(0)
			if c.Outcome != run.OutcomeFailed || !strings.Contains(c.Result, want) || strings.Contains(c.Result, "made") {
				t.Errorf("got %+v, want %q", c, want)
			}
		})
	}
}
