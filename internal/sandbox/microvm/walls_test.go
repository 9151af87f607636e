package microvm_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/local"
	"github.com/inspan/inspan/internal/sandbox/reap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestRealLimits fills one machine up in every way.
func TestRealLimits(t *testing.T) {
	b := real()
	sandboxtest.Need(t, b)
	sb := open(t, b, sandbox.Config{Limits: sandbox.Limits{CPU: 0.5, Memory: 96 << 20, Disk: 32 << 20, PIDs: 20}})
	t.Run("SBX-12 memory: what holds more is ended, and the machine lives", func(t *testing.T) {
		if out := sh(t, sb, `head -c 256m /dev/zero | tail | wc -c; echo still here`); strings.Contains(out, "268435456") || !strings.HasSuffix(out, "still here\n") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("SBX-12 processes: no more than the limit", func(t *testing.T) {
		out := sh(t, sb, `for i in $(seq 60); do sleep 600 & done 2>/dev/null; echo /proc/[0-9]*/exe | wc -w`)
		if strings.TrimSpace(out) == "" {
			return // the shell itself could not fork any more
		}
		if n := strings.Count(sh(t, sb, `true; echo x`), "x"); n != 1 {
			t.Errorf("the next command does not run: %d", n)
		}
	})
	t.Run("SBX-12 disk: the command that fills it is ended, and the next can make room", func(t *testing.T) {
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", `while :; do i=$((i+1)); head -c 1m /dev/zero > f$i; done 2>/dev/null`}})
		if !errors.Is(err, sandbox.ErrDisk) {
			t.Errorf("got %v, want ErrDisk", err)
		}
		if out := sh(t, sb, `rm -f f*; head -c 8m /dev/zero > f && echo fits; rm f`); out != "fits\n" {
			t.Errorf("afterwards: got %q", out)
		}
	})
	t.Run("SBX-18 what goes by no mark and has no parent ends with its command", func(t *testing.T) {
		out := sh(t, sb, `(env -i setsid sh -c '(env -i setsid sleep 623 &)' &); echo started`)
		if out != "started\n" {
			t.Fatalf("got %q", out)
		}
		if out := sh(t, sb, `cat /proc/[0-9]*/cmdline | tr '\0' ' '`); strings.Contains(out, "sleep 623") {
			t.Errorf("it lives: %q", out)
		}
	})
}

const lostVariable = "INSPAN_TEST_LOST_WORKSPACE"

// TestRealReap loses a toolrunner with a machine.
func TestRealReap(t *testing.T) {
	if ws := os.Getenv(lostVariable); ws != "" {
		sb, err := real().Open(t.Context(), sandbox.Config{ID: "lost", Workspace: ws})
		if err != nil {
			t.Fatal(err)
		}
		_, err = sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo ready; sleep 600"}, Stdout: os.Stdout})
		t.Fatal("not killed: ", err)
	}
	sandboxtest.Need(t, real())
	t.Run("SBX-17 a machine ends with its toolrunner, and what it had on this computer is removed", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		tmp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestRealReap$")
		cmd.Env = append(os.Environ(), lostVariable+"="+t.TempDir(), "TMPDIR="+tmp)
		received := &until{word: "ready", received: make(chan struct{})}
		cmd.Stdout, cmd.Stderr = received, received
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-received.received:
		case err := <-ended:
			t.Fatalf("it ended: %v; it said %s", err, received.all.String())
		}
		if dirs, _ := filepath.Glob(tmp + "/" + local.SandboxPrefix + "*-vm-*"); len(dirs) != 1 {
			t.Fatalf("got %v", dirs)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		if _, err := reap.Reap(context.Background(), tmp); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(tmp); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, at := range lines {
			if line, err := os.ReadFile(at); err == nil && bytes.Contains(line, []byte(tmp)) {
				t.Errorf("%s lives: %q", at, line)
			}
		}
	})
}

// until tells when a word was written.
type until struct {
	word     string
	received chan struct{}
	all      bytes.Buffer
	over     bool
}

func (u *until) Write(p []byte) (int, error) {
	u.all.Write(p)
	if !u.over && strings.Contains(u.all.String(), u.word) {
		u.over = true
		close(u.received)
	}
	return len(p), nil
}
