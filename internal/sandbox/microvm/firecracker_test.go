package microvm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm"
	"github.com/inspan/inspan/internal/sandbox/microvm/fctest"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestMain lets the test program be the double of Firecracker.
func TestMain(m *testing.M) {
	if !fctest.Main() {
		m.Run()
	}
}

// double is a backend of machines under the double.
func double(t testing.TB, kernel string) microvm.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := microvm.Config{Mode: sandbox.Firecracker, Program: self, Kernel: filepath.Join(dir, "kernel"), Root: filepath.Join(dir, "root")}
	for name, text := range map[string]string{cfg.Kernel: kernel, cfg.Root: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}

// TestExam is not parallel, because it counts what the whole process allocates.
func TestExam(t *testing.T) {
	sandboxtest.Exam(t, microvm.New(double(t, fctest.KernelGood)), sandboxtest.Without{Part: sandboxtest.Limits,
		Why: "the double has no kernel of its own; the agent that holds the limits passes them under QEMU, with make microvm"})
}

func TestFirecrackerFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kernel string
		spoil  func(cfg *microvm.Config)
		want   error
		says   string
	}{
		"a kernel that is none":       {fctest.KernelBad, nil, microvm.ErrBoot, "Invalid ELF magic number"},
		"a machine that panics":       {fctest.KernelDies, nil, microvm.ErrBoot, "Unable to mount root fs"},
		"an agent that never comes":   {fctest.KernelMute, func(c *microvm.Config) { c.StartWait = time.Second }, microvm.ErrBoot, "deadline"},
		"no engine":                   {fctest.KernelGood, func(c *microvm.Config) { c.Program = "no-such-firecracker" }, microvm.ErrSettings, "INSPAN_FIRECRACKER"},
		"no kernel":                   {fctest.KernelGood, func(c *microvm.Config) { c.Kernel = "" }, microvm.ErrSettings, "INSPAN_MICROVM_KERNEL"},
		"no root":                     {fctest.KernelGood, func(c *microvm.Config) { c.Root = "/not/there" }, microvm.ErrSettings, "INSPAN_MICROVM_ROOT"},
		"an acceleration of no kind":  {fctest.KernelGood, func(c *microvm.Config) { c.Accel = "fast" }, microvm.ErrSettings, "INSPAN_MICROVM_ACCEL"},
		"a program that is no engine": {fctest.KernelGood, func(c *microvm.Config) { c.Program = "/bin/false" }, microvm.ErrBoot, "the engine ended"},
	} {
		t.Run("SBX-20 "+name+" is told with what to do", func(t *testing.T) {
			t.Parallel()
			cfg := double(t, c.kernel)
			if c.spoil != nil {
				c.spoil(&cfg)
			}
			_, err := microvm.New(cfg).Open(t.Context(), sandbox.Config{ID: "faults", Workspace: t.TempDir()})
			if !errors.Is(err, c.want) || !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
		})
	}
}

func TestFirecracker(t *testing.T) {
	t.Parallel()
	t.Run("SBX-6 SBX-20 the probe boots a machine, and nothing is left of it", func(t *testing.T) {
		t.Parallel()
		if err := microvm.New(double(t, fctest.KernelGood)).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-15 a machine that is lost in the middle of a command is told as such, and Destroy is content", func(t *testing.T) {
		t.Parallel()
		box := open(t, microvm.New(double(t, fctest.KernelGood)), sandbox.Config{})
		_, err := box.Exec(t.Context(), sandbox.Cmd{Args: []string{"echo", fctest.Dies}})
		if !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-13 SBX-20 an open network and a way out do not go together", func(t *testing.T) {
		t.Parallel()
		_, err := microvm.New(double(t, fctest.KernelGood)).Open(t.Context(), sandbox.Config{ID: "door", Workspace: t.TempDir(), Network: true, Door: noDoor{}})
		if err == nil || !strings.Contains(err.Error(), "do not go together") {
			t.Errorf("got %v", err)
		}
	})
}

type noDoor struct{ sandbox.Door }

func (noDoor) Shown() []string { return nil }
