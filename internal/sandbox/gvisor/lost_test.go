package gvisor_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/reap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// lostVariable makes the test program a toolrunner that opens a sandbox below that directory and is lost in the middle.
const lostVariable = "INSPAN_TEST_LOST_GVISOR"

func TestMain(m *testing.M) {
	if base := os.Getenv(lostVariable); base != "" {
		toolrunner(base)
		return
	}
	m.Run()
}

// toolrunner runs a daemon until it is killed.
func toolrunner(base string) {
	ws, err := os.MkdirTemp(base, "ws")
	if err != nil {
		panic(err)
	}
	sb, err := real(base).Open(context.Background(), sandbox.Config{ID: "lost", Workspace: ws})
	if err != nil {
		panic(err)
	}
	_, err = sb.Exec(context.Background(), sandbox.Cmd{Args: []string{"sh", "-c", `(setsid sleep 6000 &); echo ready; sleep 6000`}, Stdout: os.Stdout})
	panic(fmt.Sprint("not killed: ", err))
}

// lose starts a toolrunner and waits until its command runs.
func lose(t *testing.T, base string) (kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), lostVariable+"="+base)
	var cried bytes.Buffer
	cmd.Stderr = &cried
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q, %v, %s", line, err, cried.String())
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

// kernels counts the processes of the machine whose command line names a directory.
func kernels(t *testing.T, dir string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(dir)) {
			n++
		}
	}
	return n
}

// TestLost is not parallel: what is reaped is the whole machine's.
func TestLost(t *testing.T) {
	sandboxtest.Need(t, real(""))
	t.Run("SBX-17 what a killed toolrunner left is gone or removed, what a living one has is not", func(t *testing.T) {
		deadBase, base := t.TempDir(), t.TempDir()
		killDead, killLiving := lose(t, deadBase), lose(t, base)
		defer killLiving()
		if found, err := reap.Reap(t.Context(), deadBase); err != nil || found.Directories != 0 || kernels(t, deadBase) == 0 || kernels(t, base) == 0 {
			t.Fatalf("while both live: got %+v, %v", found, err)
		}
		killDead()
		none(t, deadBase)
		left, _ := filepath.Glob(deadBase + "/inspan-box-*")
		found, err := reap.Reap(t.Context(), deadBase)
		if err != nil || len(left) != 1 || found.Directories != 1 {
			t.Errorf("got %+v, %v, %v, want one directory", found, err, left)
		}
		for _, dir := range cgroup.Find().Directories() {
			if _, err := os.Stat(filepath.Join(dir, filepath.Base(left[0]))); err == nil {
				t.Errorf("a control group is left in %s", dir)
			}
		}
		if kernels(t, base) == 0 {
			t.Error("the living toolrunner's kernel was ended")
		}
	})
}

// none waits until no process names a directory.
func none(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for kernels(t, dir) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d processes are left", kernels(t, dir))
		}
	}
}
