package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/pkg/events"
)

// boxed makes a station whose default is host and that has one more backend, as an operator adds one.
func boxed(t *testing.T, more sandbox.Backend) *world {
	t.Helper()
	w := newWorld(t)
	sandboxes, err := pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: sandbox.Host,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host.New(""), more.Mode(): more}})
	if err != nil {
		t.Fatal(err)
	}
	w.ports.Sandboxes = sandboxes
	return w
}

func TestGVisorStation(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	backend := gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR"), Base: base})
	sandboxtest.Need(t, backend)
	w := boxed(t, backend)
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("nobody's business"), 0o644); err != nil {
		t.Fatal(err)
	}
	outside, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	agent, warnings, err := agentfile.Parse("walled", []byte("---\nname: walled\nmodel: scripted/walled\ntools: [bash]\nsandbox:\n  mode: gvisor\n  min_isolation: bwrap\n---\n{{userInput}}\n"))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	w.agent(agent, calling("bash", `{command: "echo made > here && cat here /proc/version; cat `+secret+` || echo closed"}`))
	w.start()
	t.Run("SBX-7 TEST-11 an agent whose file says gvisor works under it, its workspace is changed and its sandbox is gone", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "walled", Agent: "walled", Task: "go"})
		if s := w.ended("walled"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("walled"))
		}
		list := said[*events.CallFinishedData](w, "walled")
		if len(list) != 1 || list[0].Sandbox != "gvisor" || !strings.Contains(list[0].Output, "made") || !strings.Contains(list[0].Output, "closed") ||
			strings.Contains(list[0].Output, "business") || strings.Contains(list[0].Output, strings.TrimSpace(string(outside))) {
			t.Fatalf("got %+v:\n%s", list, w.story("walled"))
		}
		if found, _ := filepath.Glob(filepath.Join(w.dir, "work", "*", "here")); len(found) != 1 {
			if found, _ = filepath.Glob(filepath.Join(w.dir, "work", "*", "*", "here")); len(found) != 1 {
				t.Errorf("the file that was made is not in a workspace: %v", found)
			}
		}
		if left, _ := os.ReadDir(base); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestGVisorMissing(t *testing.T) {
	t.Parallel()
	w := boxed(t, gvisor.New(gvisor.Config{Program: "no-such-runsc"}))
	w.agent(events.Agent{Name: "walled", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "gvisor"}}, calling("bash", `{command: "echo made > here"}`))
	w.start()
	t.Run("SBX-20 an agent that asks for a gVisor that is not there is told what is missing, and nothing runs elsewhere", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "walled", Agent: "walled", Task: "go"})
		w.ended("walled")
		list := said[*events.CallFailedData](w, "walled")
		if len(list) != 1 || !strings.Contains(list[0].Error, "gVisor") || list[0].Usage != nil {
			t.Errorf("got %+v:\n%s", list, w.story("walled"))
		}
	})
}
