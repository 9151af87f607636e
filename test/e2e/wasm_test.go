package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/wasm"
	"github.com/inspan/inspan/internal/wasmbox/wasmboxtest"
	"github.com/inspan/inspan/pkg/events"
)

func TestWASMStation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	programs := filepath.Join(w.dir, "programs")
	compiled, err := wasmboxtest.Toolbox(t.Context(), "../..", programs)
	if err != nil {
		t.Fatal(err)
	}
	private := t.TempDir()
	backend := wasm.New(wasm.Config{Dirs: []string{programs}, Cache: compiled, Base: private})
	t.Cleanup(func() { _ = backend.Close(t.Context()) })
	set := backends.Local("").With(backend)
	host, err := set.Pick(t.Context(), sandbox.Host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Pick(t.Context(), sandbox.WASM); err != nil {
		t.Fatal(err)
	}
	sandboxes, err := pool.NewOpener(pool.Config{Root: filepath.Join(w.dir, "work"), Default: sandbox.Host,
		Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Host: host, sandbox.WASM: backend}})
	if err != nil {
		t.Fatal(err)
	}
	w.ports.Sandboxes = sandboxes
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("nobody's business"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := `mkdir -p sub; printf '3\n1\n2\n' | sort | head -n 2 > sub/few; cat sub/few | tr '\n' ' '; cat ` + secret +
		` || echo closed; git status || echo no git; cd sub; false`
	w.agent(events.Agent{Name: "boxed", Tools: []string{"bash"}, Sandbox: events.Sandbox{Mode: "wasm", MemoryBytes: 256 << 20}},
		calling("bash", `{command: "`+strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`)+`"}`))
	w.start()
	t.Run("TEST-11 SBX-8 an agent file that asks for wasm has its shell in the sandbox of that mode", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "boxed", Agent: "boxed", Task: "go"})
		if s := w.ended("boxed"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("boxed"))
		}
		list := said[*events.CallFinishedData](w, "boxed")
		if len(list) != 1 {
			t.Fatalf("got %d results, want 1:\n%s", len(list), w.story("boxed"))
		}
		c := list[0]
		for _, want := range []string{"1 2 ", "closed", "no git", "wasm programs only", "[exit status 1]"} {
			if !strings.Contains(c.Output, want) {
				t.Errorf("got %q, want %q in it", c.Output, want)
			}
		}
		if c.Sandbox != "wasm" || c.Dir != "sub" || strings.Contains(c.Output, "business") || strings.Contains(c.Output, "inspan-dir-") {
			t.Errorf("got sandbox %q, folder %q, %q", c.Sandbox, c.Dir, c.Output)
		}
		if c.Usage == nil || c.Usage.Commands != 1 || c.Usage.MaxMemoryBytes == 0 {
			t.Errorf("SBX-16: got %+v", c.Usage)
		}
		found, err := filepath.Glob(filepath.Join(w.dir, "work", "run", "*", "sub", "few"))
		if data, rerr := os.ReadFile(append(found, "")[0]); err != nil || len(found) != 1 || rerr != nil || string(data) != "1\n2\n" {
			t.Errorf("the workspace: got %v, %q, %v %v", found, data, err, rerr)
		}
	})
	t.Run("SBX-15 nothing of the sandbox is left after the call", func(t *testing.T) {
		if left, err := os.ReadDir(private); err != nil || len(left) > 0 {
			t.Errorf("got %v, %v", left, err)
		}
	})
}
