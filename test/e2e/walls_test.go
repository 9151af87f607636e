package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// said returns what a run's events of one kind say.
func said[P events.Payload](w *world, runID string) []P {
	w.t.Helper()
	var list []P
	for _, r := range w.events(runID) {
		_, p, err := events.Read(r.Bytes)
		if err != nil {
			w.t.Fatal(err)
		}
		if p, ok := p.(P); ok {
			list = append(list, p)
		}
	}
	return list
}

func TestUsageOfFailedCalls(t *testing.T) {
	t.Parallel()
	works := func(ctx context.Context, _ int64, c tool.Call) (tool.Result, error) {
		_, err := c.Env.Sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}})
		return tool.Result{}, errors.Join(err, tool.Fail(tool.Permanent, "", errors.New("it was all for nothing")))
	}
	costly := &probe{name: "costly", effect: tool.Once, do: works}
	idle := &probe{name: "idle", effect: tool.Once, do: func(context.Context, int64, tool.Call) (tool.Result, error) {
		return tool.Result{}, tool.Fail(tool.Permanent, "", errors.New("not today"))
	}}
	w := newWorld(t, costly, idle)
	for _, p := range []*probe{costly, idle} {
		w.agent(events.Agent{Name: p.name, Tools: []string{p.name}}, calling(p.name, "{}"))
	}
	w.start()
	failed := func(w *world, name string) *events.CallFailedData {
		w.task(events.Task{ID: name, Agent: name, Task: "go"})
		w.ended(name)
		list := said[*events.CallFailedData](w, name)
		if len(list) != 1 {
			w.t.Fatalf("got %d failed calls, want 1:\n%s", len(list), w.story(name))
		}
		return list[0]
	}
	t.Run("SBX-16 what the commands of a failed call used is recorded", func(t *testing.T) {
		if u := failed(w.on(t), "costly").Usage; u == nil || u.Commands != 1 || u.UserMS+u.SystemMS < 5 || u.MaxMemoryBytes == 0 {
			t.Errorf("got %+v, want one command's", u)
		}
	})
	t.Run("SBX-16 a failed call without commands has no usage", func(t *testing.T) {
		if u := failed(w.on(t), "idle").Usage; u != nil {
			t.Errorf("got %+v, want none", u)
		}
	})
}

func TestLandlockStation(t *testing.T) {
	t.Parallel()
	backend := landlock.New([]string{"/proc/self/exe", launch.Word}, "")
	sandboxtest.Need(t, backend)
	w := newWorld(t)
	sandboxes, err := pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: sandbox.Landlock, Least: sandbox.Landlock,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Landlock: backend}})
	if err != nil {
		t.Fatal(err)
	}
	w.ports.Sandboxes = sandboxes
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("nobody's business"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.agent(events.Agent{Name: "walled", Tools: []string{"bash"}},
		calling("bash", `{command: "echo made > here && cat here; cat `+secret+` || echo closed; echo x > `+secret+` || echo shut"}`))
	w.agent(events.Agent{Name: "picky", Tools: []string{"bash"}, Sandbox: events.Sandbox{Denied: []string{".env"}}}, calling("bash", `{command: "true"}`))
	w.start()
	t.Run("SBX-10 a whole station runs its tools behind landlock, and its events say so", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "walled", Agent: "walled", Task: "go"})
		if s := w.ended("walled"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("walled"))
		}
		list := said[*events.CallFinishedData](w, "walled")
		if len(list) != 1 {
			t.Fatalf("got %d results, want 1:\n%s", len(list), w.story("walled"))
		}
		if c := list[0]; c.Sandbox != "landlock" || !strings.Contains(c.Output, "made") || !strings.Contains(c.Output, "closed") ||
			!strings.Contains(c.Output, "shut") || strings.Contains(c.Output, "business") {
			t.Errorf("got %s: %q", c.Sandbox, c.Output)
		}
		if b, err := os.ReadFile(secret); string(b) != "nobody's business" {
			t.Errorf("outside: got %q, %v", b, err)
		}
	})
	t.Run("SBX-20 a wall that landlock cannot put up fails the call, and nothing runs without it", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "picky", Agent: "picky", Task: "go"})
		w.ended("picky")
		list := said[*events.CallFailedData](w, "picky")
		if len(list) != 1 || !strings.Contains(list[0].Error, "denied") || !strings.Contains(list[0].Error, "bwrap") || list[0].Usage != nil {
			t.Errorf("got %+v, want a refusal that names what to use:\n%s", list, w.story("picky"))
		}
	})
}
