package microvm_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/microvm"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// real is the backend that the environment names, that of QEMU where it names none; make microvm-test sets it.
func real() *microvm.Backend { return microvm.New(realConfig()) }

func realConfig() microvm.Config {
	mode, program := sandbox.QEMU, os.Getenv("INSPAN_QEMU")
	if os.Getenv("INSPAN_TEST_MICROVM") == string(sandbox.Firecracker) {
		mode, program = sandbox.Firecracker, os.Getenv("INSPAN_FIRECRACKER")
	}
	accel := microvm.Accel(os.Getenv("INSPAN_MICROVM_ACCEL"))
	return microvm.Config{Mode: mode, Program: program, Kernel: os.Getenv("INSPAN_MICROVM_KERNEL"), Initrd: os.Getenv("INSPAN_MICROVM_INITRD"),
		Root: os.Getenv("INSPAN_MICROVM_ROOT"), Accel: accel, Memory: 256 << 20, Disk: 1 << 30}
}

func open(t testing.TB, b *microvm.Backend, cfg sandbox.Config) sandbox.Sandbox {
	t.Helper()
	cfg.ID = "machines"
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	sb, err := b.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) }) // some tests end it
	return sb
}

func sh(t testing.TB, sb sandbox.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%s: %v, %+v; it said %q", script, err, exit, out.String())
	}
	return out.String()
}

// TestRealMachine looks at one machine from inside.
func TestRealMachine(t *testing.T) {
	b := real()
	sandboxtest.Need(t, b)
	sb := open(t, b, sandbox.Config{})
	t.Run("SBX-6 commands run under another kernel than this machine's", func(t *testing.T) {
		outside, err := os.ReadFile("/proc/version")
		if err != nil {
			t.Fatal(err)
		}
		if got := sh(t, sb, "cat /proc/version"); got == "" || got == string(outside) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("SBX-18 the root is read-only, and only the workspace, HOME and TMPDIR and /tmp can be written", func(t *testing.T) {
		out := sh(t, sb, `for d in . /tmp /dev/shm "$HOME" "$TMPDIR"; do echo x >$d/probe || echo closed $d; done
			for d in / /usr /etc /var /run /home /home/agent .. /root; do echo x 2>/dev/null >$d/probe && echo open $d; done; id -u; grep ^Cap /proc/self/status`)
		if strings.Contains(out, "open") || strings.Contains(out, "closed") || !strings.HasPrefix(out, "1000\n") || strings.Count(out, "0000000000000000") != 5 {
			t.Errorf("got %q", out)
		}
	})
	t.Run("SBX-13 there is no network card", func(t *testing.T) {
		if got := sh(t, sb, "ls /sys/class/net"); got != "lo\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRealExam(t *testing.T) { sandboxtest.Exam(t, real()) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, real()) }
