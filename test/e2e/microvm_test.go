package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/microvm"
	"github.com/inspan/inspan/internal/sandbox/microvm/fctest"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
)

// TestFirecrackerStation is a station whose agents' commands run in a machine under the double.
func TestFirecrackerStation(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kernel, root := filepath.Join(dir, "kernel"), filepath.Join(dir, "root")
	for name, text := range map[string]string{kernel: fctest.KernelGood, root: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	machineStation(t, sandbox.Firecracker, func(c *service.Config) { c.Firecracker, c.MicroVMKernel, c.MicroVMRoot = self, kernel, root })
}

// TestQEMUStation is the same under QEMU, where the environment names what machines are made of; make microvm-test
// does.
func TestQEMUStation(t *testing.T) {
	cfg := microvm.Config{Mode: sandbox.QEMU, Program: os.Getenv("INSPAN_QEMU"), Kernel: os.Getenv("INSPAN_MICROVM_KERNEL"), Initrd: os.Getenv("INSPAN_MICROVM_INITRD"),
		Root: os.Getenv("INSPAN_MICROVM_ROOT"), Accel: microvm.Accel(os.Getenv("INSPAN_MICROVM_ACCEL"))}
	sandboxtest.Need(t, microvm.New(cfg))
	machineStation(t, sandbox.QEMU, func(c *service.Config) {
		c.QEMU, c.MicroVMKernel, c.MicroVMInitrd, c.MicroVMRoot, c.MicroVMAccel, c.MicroVMMemory, c.MicroVMDisk = cfg.Program, cfg.Kernel, cfg.Initrd, cfg.Root, string(cfg.Accel), 256, 1024
	})
}

// machineStation runs an agent that names the mode and sees that its command changed the workspace and no machine is
// left.
func machineStation(t *testing.T, mode sandbox.Mode, tune func(c *service.Config)) {
	tmp, err := os.MkdirTemp("", "vm") // short: the names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	w := newWorld(t)
	w.tune = tune
	w.agent(events.Agent{Name: "inside", Tools: []string{"bash", "write"}, Sandbox: events.Sandbox{Mode: string(mode)}}, `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: sub/here.txt, content: "from here\n"}}
  - when: {turn: 2}
    calls:
      - {name: bash, input: {command: "cat sub/here.txt && echo from a machine > sub/there.md && rm sub/here.txt"}}
  - when: {turn: 3}
    text: done
`)
	w.start()
	t.Run("SBX-6 SBX-18 an agent's command runs in a machine, and what it changes is in the workspace", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "inside", Agent: "inside", Task: "go"})
		if s := w.ended("inside"); s.Status != events.Completed {
			t.Fatalf("got %s:\n%s", s.Status, w.story("inside"))
		}
		list := said[*events.CallFinishedData](w, "inside")
		if len(list) != 2 || list[1].Sandbox != string(mode) || !strings.Contains(list[1].Output, "from here") {
			t.Fatalf("got %+v:\n%s", list, w.story("inside"))
		}
		var found []string
		for _, pattern := range []string{"*", "*/*"} {
			some, err := filepath.Glob(filepath.Join(w.dir, "work", pattern, "sub", "*"))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, some...)
		}
		if len(found) != 1 || filepath.Base(found[0]) != "there.md" {
			t.Fatalf("the workspace has %v", found)
		}
		if text, err := os.ReadFile(found[0]); string(text) != "from a machine\n" {
			t.Errorf("got %q, %v", text, err)
		}
	})
	t.Run("SBX-15 no machine is left when the run has ended", func(t *testing.T) {
		if left, err := filepath.Glob(filepath.Join(tmp, local.SandboxPrefix+"*")); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	})
}
