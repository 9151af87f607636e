package microvm_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	sandboxtest.ExamDouble(t, microvm.New(double(t, fctest.KernelGood)), sandboxtest.Carried, sandboxtest.Without{Part: sandboxtest.Limits,
		Why: "the double has no kernel of its own; the agent that holds the limits passes them under QEMU, with make microvm"})
}

func TestFirecracker(t *testing.T) {
	t.Parallel()
	t.Run("SBX-6 SBX-20 the probe boots a machine, and nothing is left of it", func(t *testing.T) {
		t.Parallel()
		if err := microvm.New(double(t, fctest.KernelGood)).Probe(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-13 SBX-20 an open network and a way out do not go together", func(t *testing.T) {
		t.Parallel()
		_, err := microvm.New(double(t, fctest.KernelGood)).Open(t.Context(), sandbox.Config{ID: "door", Workspace: t.TempDir(), Network: true, Egress: noEgress{}})
		if err == nil || !strings.Contains(err.Error(), "exclude each other") {
			t.Errorf("got %v", err)
		}
	})
}

type noEgress struct{ sandbox.Egress }

func (noEgress) Shown() []string { return nil }
