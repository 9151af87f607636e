package reap_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/cgroup"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/reap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// baseVariable makes the test program a toolrunner that opens a sandbox below that directory and is lost in the middle.
const baseVariable = "INSPAN_TEST_LOST_TOOLRUNNER"

// daemon hides from its parent and tells its id.
const daemon = `(setsid sh -c 'echo $$; exec sleep 6000' &) ; sleep 6000`

func TestMain(m *testing.M) {
	if base := os.Getenv(baseVariable); base != "" {
		toolrunner(base, os.Getenv(baseVariable+"_MODE"))
		return
	}
	m.Run()
}

// toolrunner runs the daemon until it is killed.
func toolrunner(base, mode string) {
	ctx := context.Background()
	ws, err := os.MkdirTemp(base, "ws")
	if err != nil {
		panic(err)
	}
	var b sandbox.Backend = host.New(base)
	if mode == "bwrap" {
		b = bwrap.New("", base)
	}
	sb, err := b.Open(ctx, sandbox.Config{ID: "lost", Workspace: ws, Network: true})
	if err != nil {
		panic(err)
	}
	_, err = sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", daemon}, Stdout: os.Stdout})
	panic(fmt.Sprint("not killed: ", err))
}

// lose starts a toolrunner, waits until its daemon runs, and returns what kills it and the daemon's id.
func lose(t *testing.T, base, mode string) (kill func(), pid int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), baseVariable+"="+base, baseVariable+"_MODE="+mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the daemon says nothing: %v", err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	once := false
	kill = func() {
		if !once {
			once = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	t.Cleanup(kill)
	return kill, pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// boxes lists the private directories below a base.
func sandboxes(t *testing.T, base string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(base, "inspan-box-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// groups counts the control groups of a directory's sandboxes.
func groups(t *testing.T, sandboxes []string) int {
	t.Helper()
	n := 0
	for _, sb := range sandboxes {
		for _, dir := range cgroup.Find().Directories() {
			if _, err := os.Stat(filepath.Join(dir, filepath.Base(sb))); err == nil {
				n++
			}
		}
	}
	return n
}

// TestReap is not parallel: what is reaped is the whole machine's.
func TestReap(t *testing.T) {
	if runtime.GOOS != "linux" {
		if found, err := reap.Reap(t.Context(), t.TempDir()); err != nil || found.Any() {
			t.Errorf("got %+v, %v", found, err)
		}
		return
	}
	t.Run("SBX-17 what a killed toolrunner left is removed, what a living one has is not", func(t *testing.T) {
		base := t.TempDir()
		killDead, deadPID := lose(t, base, "host")
		dead := sandboxes(t, base)
		_, livingPID := lose(t, base, "host")
		if found, err := reap.Reap(t.Context(), base); err != nil || found.Directories != 0 || !alive(deadPID) || !alive(livingPID) {
			t.Fatalf("while both live: got %+v, %v; alive %v %v", found, err, alive(deadPID), alive(livingPID))
		}
		killDead()
		if !alive(deadPID) {
			t.Fatal("the daemon ended with its toolrunner: the test would prove nothing")
		}
		found, err := reap.Reap(t.Context(), base)
		if err != nil || found.Processes < 1 || found.Directories != 1 {
			t.Errorf("got %+v, %v, want a process and a directory", found, err)
		}
		gone(t, deadPID)
		if left := sandboxes(t, base); len(left) != 1 || left[0] == dead[0] {
			t.Errorf("directories: got %v, want the living one's", left)
		}
		if !alive(livingPID) {
			t.Error("the living toolrunner's process was ended")
		}
		if found, err := reap.Reap(t.Context(), base); err != nil || found.Directories != 0 {
			t.Errorf("again: got %+v, %v", found, err)
		}
	})
	t.Run("SBX-17 control groups of a killed toolrunner are removed", func(t *testing.T) {
		sandboxtest.Need(t, bwrap.New("", ""))
		base := t.TempDir()
		kill, _ := lose(t, base, "bwrap")
		dirs := sandboxes(t, base)
		before := groups(t, dirs)
		kill()
		found, err := reap.Reap(t.Context(), base)
		if err != nil || found.Directories != 1 || found.Groups != before {
			t.Errorf("got %+v, %v, want %d groups and a directory", found, err, before)
		}
		if n := groups(t, dirs); n != 0 {
			t.Errorf("%d control groups are left", n)
		}
	})
	t.Run("SBX-17 CONT-18a another process that has the id of a lost toolrunner by now is not taken for it", func(t *testing.T) {
		base := t.TempDir()
		st, err := os.Stat("/proc/self/ns/pid")
		if err != nil {
			t.Fatal(err)
		}
		// This process has that id, and began at another time.
		own := fmt.Sprintf("%d.%d", st.Sys().(*syscall.Stat_t).Ino, os.Getpid())
		if err := os.Mkdir(filepath.Join(base, local.SandboxPrefix+own+".1-x"), 0o755); err != nil {
			t.Fatal(err)
		}
		found, err := reap.Reap(t.Context(), base)
		if left, _ := os.ReadDir(base); err != nil || found.Directories != 1 || len(left) != 0 {
			t.Errorf("got %+v, %v, %d left", found, err, len(left))
		}
	})
	t.Run("SBX-17 what only looks like a sandbox's, or is from elsewhere, is left alone", func(t *testing.T) {
		base := t.TempDir()
		for _, name := range []string{"inspan-box-", "inspan-box-x", "inspan-box-1.2-x", "inspan-box-1.999999999.7-x", "other", "inspan-box-..-x"} {
			if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		found, err := reap.Reap(t.Context(), base)
		if left, _ := os.ReadDir(base); err != nil || found.Directories != 0 || len(left) != 6 {
			t.Errorf("got %+v, %v, %d left of 6", found, err, len(left))
		}
	})
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(data), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("process %d lives", pid)
		}
	}
}
