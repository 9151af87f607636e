package microvm_test

import (
	"bytes"
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
	"github.com/inspan/inspan/internal/sandbox/microvm/wire"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// qemuDouble is a backend of machines under the double of QEMU.
func qemuDouble(t testing.TB, kernel string) microvm.Config {
	t.Helper()
	cfg := double(t, kernel)
	cfg.Mode = sandbox.QEMU
	return cfg
}

// scratch is a directory for all that machines have on this computer. Nothing of it and no engine may be left at the
// end.
func scratch(t *testing.T) string {
	t.Helper()
	tmp, err := os.MkdirTemp("", "vm") // short: the names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	return tmp
}

// nothingLeft looks at a scratch directory, and for engines that work in it.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if list := engines(t, tmp); len(list) > 0 {
		t.Errorf("engines are left: %v", list)
	}
}

// engines are the processes whose command line names a directory.
func engines(t *testing.T, dir string) (pids []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range lines {
		// One that has ended meanwhile is none.
		if line, err := os.ReadFile(at); err == nil && bytes.Contains(line, []byte(dir+"/")) {
			pids = append(pids, filepath.Base(filepath.Dir(at)))
		}
	}
	return pids
}

// TestQEMUExam is the exam of QEMU's side of a machine; make microvm-test takes it with real ones.
func TestQEMUExam(t *testing.T) {
	sandboxtest.ExamDouble(t, microvm.New(qemuDouble(t, fctest.KernelGood)), sandboxtest.Carried, sandboxtest.Without{Part: sandboxtest.Limits,
		Why: "the double has no kernel of its own; the agent that holds the limits passes them under QEMU, with make microvm"})
}

// TestFaults goes through all that keeps a machine from coming, under both engines. It is not parallel, for its TMPDIR.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		make   func(t testing.TB, kernel string) microvm.Config
		kernel string
		spoil  func(cfg *microvm.Config)
		want   error
		says   string
	}{
		"firecracker: a kernel that is none":       {double, fctest.KernelBad, nil, microvm.ErrBoot, "Invalid ELF magic number"},
		"firecracker: a machine that panics":       {double, fctest.KernelDies, nil, microvm.ErrBoot, "Unable to mount root fs"},
		"firecracker: an agent that never comes":   {double, fctest.KernelMute, func(c *microvm.Config) { c.StartWait = time.Second }, microvm.ErrBoot, "deadline"},
		"firecracker: no engine":                   {double, fctest.KernelGood, func(c *microvm.Config) { c.Program = "no-such-firecracker" }, microvm.ErrSettings, "INSPAN_FIRECRACKER"},
		"firecracker: no kernel":                   {double, fctest.KernelGood, func(c *microvm.Config) { c.Kernel = "" }, microvm.ErrSettings, "INSPAN_MICROVM_KERNEL"},
		"firecracker: no root":                     {double, fctest.KernelGood, func(c *microvm.Config) { c.Root = "/not/there" }, microvm.ErrSettings, "INSPAN_MICROVM_ROOT"},
		"firecracker: an acceleration of no kind":  {double, fctest.KernelGood, func(c *microvm.Config) { c.Accel = "fast" }, microvm.ErrSettings, "INSPAN_MICROVM_ACCEL"},
		"firecracker: a program that is no engine": {double, fctest.KernelGood, func(c *microvm.Config) { c.Program = "/bin/false" }, microvm.ErrBoot, "the engine ended"},
		"qemu: a kernel that is none":              {qemuDouble, fctest.KernelBad, nil, microvm.ErrBoot, "could not load kernel"},
		"qemu: a machine that panics":              {qemuDouble, fctest.KernelDies, nil, microvm.ErrBoot, "Unable to mount root fs"},
		"qemu: an agent that never comes":          {qemuDouble, fctest.KernelMute, func(c *microvm.Config) { c.StartWait = time.Second }, microvm.ErrBoot, "deadline"},
		"qemu: an agent of another version":        {qemuDouble, fctest.KernelOld, nil, wire.ErrVersion, "make microvm"},
		"qemu: malformed input on the channel":     {qemuDouble, fctest.KernelMalformed, nil, microvm.ErrBoot, "the machine has ended"},
		"qemu: no engine":                          {qemuDouble, fctest.KernelGood, func(c *microvm.Config) { c.Program = "no-such-qemu" }, microvm.ErrSettings, "INSPAN_QEMU"},
		"qemu: a kernel that is not there":         {qemuDouble, fctest.KernelGood, func(c *microvm.Config) { c.Kernel = "/not/there" }, microvm.ErrSettings, "INSPAN_MICROVM_KERNEL"},
		"qemu: a first file system that is not":    {qemuDouble, fctest.KernelGood, func(c *microvm.Config) { c.Initrd = "/not/there" }, microvm.ErrSettings, "INSPAN_MICROVM_INITRD"},
		"qemu: a root that is a directory":         {qemuDouble, fctest.KernelGood, func(c *microvm.Config) { c.Root = "/" }, microvm.ErrSettings, "INSPAN_MICROVM_ROOT"},
		"qemu: a program that is no engine":        {qemuDouble, fctest.KernelGood, func(c *microvm.Config) { c.Program = "/bin/false" }, microvm.ErrBoot, "exit status 1"},
	} {
		t.Run("SBX-20 SBX-15 "+name+" is told with what to do, and nothing is left", func(t *testing.T) {
			cfg := c.make(t, c.kernel)
			if c.spoil != nil {
				c.spoil(&cfg)
			}
			ws, tmp := t.TempDir(), scratch(t)
			_, err := microvm.New(cfg).Open(t.Context(), sandbox.Config{ID: "faults", Workspace: ws})
			if !errors.Is(err, c.want) || !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			nothingLeft(t, tmp)
		})
	}
}

// TestLost loses machines in the middle of a command. It is not parallel, for its TMPDIR.
func TestLost(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t testing.TB, kernel string) microvm.Config
		arg  string
		want error
		says string
	}{
		"firecracker: an engine that is killed": {double, fctest.Dies, sandbox.ErrLost, "signal: killed"},
		"qemu: an engine that is killed":        {qemuDouble, fctest.Dies, sandbox.ErrLost, "signal: killed"},
		"qemu: no room on this computer's disk": {qemuDouble, fctest.Full, microvm.ErrDisks, "free space in TMPDIR"},
	} {
		t.Run("SBX-15 "+name+" is told, for Exec and for Start, and nothing is left", func(t *testing.T) {
			cfg, ws, tmp := c.make(t, fctest.KernelGood), t.TempDir(), scratch(t)
			for what, run := range map[string]func(sb sandbox.Sandbox) error{
				"exec": func(sb sandbox.Sandbox) error {
					_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"echo", c.arg}})
					return err
				},
				"start": func(sb sandbox.Sandbox) error {
					p, err := sb.Start(t.Context(), sandbox.Cmd{Args: []string{"echo", c.arg}})
					if err == nil {
						_, err = p.Wait()
					}
					return err
				},
			} {
				sb := open(t, microvm.New(cfg), sandbox.Config{Workspace: ws})
				if err := run(sb); !errors.Is(err, sandbox.ErrLost) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: got %v, want %v and ErrLost with %q", what, err, c.want, c.says)
				}
				// What comes after has not begun, so that it can be tried in another sandbox.
				if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrNotStarted) || errors.Is(err, sandbox.ErrLost) {
					t.Errorf("%s: the next command: got %v, want ErrNotStarted", what, err)
				}
				if err := sb.Destroy(context.Background()); err != nil {
					t.Errorf("%s: destroy: %v", what, err)
				}
			}
			nothingLeft(t, tmp)
		})
	}
}
