package microvm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestRealFaults boots what cannot boot.
func TestRealFaults(t *testing.T) {
	sandboxtest.Need(t, real())
	dir := t.TempDir()
	malformed := filepath.Join(dir, "rubbish")
	if err := os.WriteFile(malformed, bytes.Repeat([]byte("no image\n"), 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(cfg *microvm.Config)
		says  string
	}{
		"a kernel that is none":              {func(c *microvm.Config) { c.Kernel = malformed }, ""},
		"a first file system that is none":   {func(c *microvm.Config) { c.Initrd = malformed }, ""},
		"a kernel without first file system": {func(c *microvm.Config) { c.Initrd = "" }, ""},
		"a root that is none":                {func(c *microvm.Config) { c.Root = malformed }, "mount the root image"},
	} {
		t.Run("SBX-20 SBX-15 "+name+" is told in the machine's own words, and nothing is left", func(t *testing.T) {
			cfg, ws, tmp := realConfig(), t.TempDir(), scratch(t)
			c.spoil(&cfg)
			_, err := microvm.New(cfg).Open(t.Context(), sandbox.Config{ID: "faults", Workspace: ws})
			if !errors.Is(err, microvm.ErrBoot) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want ErrBoot with %q", err, c.says)
			}
			t.Logf("%v", err)
			nothingLeft(t, tmp)
		})
	}
}

// killed starts a command and does something to its engine once it runs. It returns what the command ended with.
func killed(t *testing.T, sb sandbox.Sandbox, tmp string, sig syscall.Signal) error {
	t.Helper()
	received := &until{word: "ready", received: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo ready; sleep 600"}, Stdout: received})
		ended <- err
	}()
	select {
	case <-received.received:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	}
	pids := engines(t, tmp)
	if len(pids) != 1 {
		t.Fatalf("got engines %v, want one", pids)
	}
	pid, err := strconv.Atoi(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	return <-ended
}

// TestRealLost kills an engine in the middle of a command.
func TestRealLost(t *testing.T) {
	sandboxtest.Need(t, real())
	t.Run("SBX-15 an engine that is killed is told at once, the next command has not begun, and nothing is left", func(t *testing.T) {
		ws, tmp := t.TempDir(), scratch(t)
		sb := open(t, real(), sandbox.Config{Workspace: ws})
		begin := time.Now()
		err := killed(t, sb, tmp, syscall.SIGKILL)
		if !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "signal: killed") || time.Since(begin) > time.Minute {
			t.Errorf("after %v: got %v, want ErrLost", time.Since(begin), err)
		}
		if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("the next command: got %v, want ErrNotStarted", err)
		}
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, tmp)
	})
}

// TestRealDisks fills what a machine's files are kept on, on both sides.
func TestRealDisks(t *testing.T) {
	sandboxtest.Need(t, real())
	t.Run("SBX-15 where this computer has no room for the disks the machine is ended, with the reason, and nothing is left", func(t *testing.T) {
		ws, tmp := t.TempDir(), scratch(t)
		if said, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=320m", "tmpfs", tmp).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: a full disk: only root can mount a small one: %s", said)
		}
		t.Cleanup(func() {
			if said, err := exec.Command("umount", tmp).CombinedOutput(); err != nil {
				t.Errorf("unmount: %s", said)
			}
		})
		sb := open(t, real(), sandbox.Config{Workspace: ws})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", `head -c 400m /dev/urandom >"$TMPDIR/large"; sync; sleep 600`}})
		if !errors.Is(err, microvm.ErrDisks) || !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrDisks and ErrLost", err)
		}
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
		nothingLeft(t, tmp)
	})
	t.Run("SBX-20 where there is no room for what is sent the command has not begun, and it goes on when there is", func(t *testing.T) {
		sb := open(t, real(), sandbox.Config{})
		asRoot := func(script string) {
			t.Helper()
			var said bytes.Buffer
			p := mirror.Program{Args: []string{"/bin/sh", "-c", script}, Stdout: &said, Stderr: &said, Privileged: true}
			if err := microvm.MachineOf(sb).Run(t.Context(), p); err != nil {
				t.Fatalf("%v: %q", err, said.String())
			}
		}
		asRoot("i=0; for n in 900M 90M 9M 1M; do while fallocate -l $n /home/full$i 2>/dev/null; do i=$((i+1)); done; rm -f /home/full$i; done; cat /dev/zero >/home/rest 2>/dev/null; true")
		if err := sb.WriteFile("large", bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"cat", "large"}})
		if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("got %v, want ErrNotStarted, and that there is no space", err)
		}
		asRoot("rm /home/full* /home/rest")
		var out bytes.Buffer
		if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"wc", "-c", "large"}, Stdout: &out}); err != nil || out.String() != "1048576 large\n" {
			t.Errorf("afterwards: got %q, %v", out.String(), err)
		}
	})
}

// TestRealUsage measures a command.
func TestRealUsage(t *testing.T) {
	sandboxtest.Need(t, real())
	sb := open(t, real(), sandbox.Config{})
	t.Run("SBX-16 processor time, memory and disk of a command are told, with those of what it left", func(t *testing.T) {
		script := `(head -c 40m /dev/zero | tail >/dev/null) & head -c 8m /dev/urandom >f; sync f; i=0; while test $i -lt 3000; do i=$((i+1)); done; wait`
		exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: io.Discard})
		if err != nil || exit.Code != 0 {
			t.Fatalf("got %+v, %v", exit, err)
		}
		if exit.User <= 0 || exit.System <= 0 || exit.User+exit.System > exit.Wall*2 {
			t.Errorf("got %v and %v of %v", exit.User, exit.System, exit.Wall)
		}
		if exit.MaxRSS < 40<<20 || exit.MaxRSS > 300<<20 {
			t.Errorf("got %d bytes of memory, want those of tail", exit.MaxRSS)
		}
		if exit.WriteBytes < 8<<20 || exit.WriteBytes > 64<<20 {
			t.Errorf("got %d bytes written, want 8 MiB", exit.WriteBytes)
		}
		t.Logf("%+v", exit)
	})
}
