package bwrap_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// cell is an open sandbox with a closed network.
type cell struct {
	sandbox sandbox.Sandbox
	// workspace, read and write are the directories it was given.
	workspace, read, write string
}

func open(t *testing.T) cell {
	t.Helper()
	b := bwrap.New("", "")
	sandboxtest.Need(t, b)
	c := cell{workspace: t.TempDir(), read: t.TempDir(), write: t.TempDir()}
	protected := filepath.Join(c.workspace, "protected")
	if err := os.Mkdir(protected, 0o755); err != nil {
		t.Fatal(err)
	}
	sb, err := b.Open(t.Context(), sandbox.Config{ID: "cell", Workspace: c.workspace,
		ReadOnly: []string{c.read, protected}, Writable: []string{c.write}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.sandbox = sb
	return c
}

// sh runs a script and returns its output, stdout and stderr as one, and its exit code.
func (c cell) sh(t *testing.T, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	exit, err := c.sandbox.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("sh -c %q: %v", script, err)
	}
	return out.String(), exit.Code
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	c := open(t)
	t.Run("SBX-18 only the workspace and what is named can be written", func(t *testing.T) {
		probe := "probe-" + rand.Text()
		for _, dir := range []string{c.workspace, c.write, "/tmp", "$HOME"} {
			if out, code := c.sh(t, `echo x > "`+dir+`/`+probe+`"`); code != 0 {
				t.Errorf("%s: got %q, want it writable", dir, out)
			}
		}
		for _, dir := range []string{c.read, c.workspace + "/protected", "/", "/usr", "/usr/bin", "/etc", "/etc/ssl", "/var", "/home"} {
			if out, code := c.sh(t, `echo x > "`+dir+`/`+probe+`"`); code == 0 {
				t.Errorf("%s: got %q, want it closed", dir, out)
			}
		}
		if _, err := os.Stat("/tmp/" + probe); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the machine's /tmp was written: %v", err)
		}
	})
	t.Run("SBX-18 secrets of the machine are not there", func(t *testing.T) {
		hidden := []string{"/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/root", "/run", "/var/run", "/var/lib", "/sys", "/boot", "/srv", "/opt"}
		if home, err := os.UserHomeDir(); err == nil {
			hidden = append(hidden, home)
		}
		if self, err := os.Getwd(); err == nil {
			hidden = append(hidden, self)
		}
		for _, path := range hidden {
			if strings.HasPrefix(c.workspace, path) || strings.HasPrefix(c.read, path) {
				continue // the way to a path that is shown has to be there
			}
			if _, code := c.sh(t, `test -e "`+path+`"`); code == 0 {
				t.Errorf("%s can be seen", path)
			}
		}
		if out, _ := c.sh(t, "ls /home"); out != "agent\n" {
			t.Errorf("/home: got %q", out)
		}
	})
	t.Run("SBX-18 no capability, another user, no way to get more", func(t *testing.T) {
		out, _ := c.sh(t, "id -u; id -g; id -un; grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
		want := "1000\n1000\nagent\n"
		for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
			want += "Cap" + set + ":\t0000000000000000\n"
		}
		if want += "NoNewPrivs:\t1\n"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
		if out, code := c.sh(t, "unshare --user true"); code == 0 {
			t.Errorf("a further user namespace opens: %q", out)
		}
	})
	t.Run("SBX-18 the kernel's switches are closed, also to root's sandbox", func(t *testing.T) {
		// Asked, never tried: where this fails, a write would change the machine that runs the test.
		out, _ := c.sh(t, "find /proc/sys /proc/irq /proc/bus /proc/fs /proc/acpi /proc/scsi /proc/sysrq-trigger /proc/mtrr -writable 2>/dev/null | head -3")
		if out != "" {
			t.Errorf("can be written: %q", out)
		}
		if out, code := c.sh(t, "cat /proc/sys/kernel/ostype"); code != 0 || out != "Linux\n" {
			t.Errorf("cannot be read: %q", out)
		}
		if out, _ := c.sh(t, "cat /proc/keys /proc/timer_list 2>/dev/null | head -c 100"); out != "" {
			t.Errorf("views of the machine are shown: %q", out)
		}
	})
	t.Run("SBX-18 processes and the name of the machine are its own", func(t *testing.T) {
		out, _ := c.sh(t, `for d in /proc/[0-9]*; do tr '\0' ' ' < $d/cmdline; done; hostname 2>/dev/null || cat /etc/hostname`)
		if strings.Contains(out, ".test") || strings.Contains(out, "--setenv") || !strings.HasSuffix(out, "inspan\n") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("SBX-18 files made inside belong to the service's user", func(t *testing.T) {
		c.sh(t, "mkdir -p made/deep; umask 077; echo text > made/deep/f")
		if data, err := c.sandbox.ReadFile("made/deep/f"); err != nil || string(data) != "text\n" {
			t.Errorf("got %q, %v", data, err)
		}
		if err := os.RemoveAll(filepath.Join(c.workspace, "made")); err != nil {
			t.Error(err)
		}
	})
	t.Run("a link to the outside leads nowhere inside", func(t *testing.T) {
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("the secret outside"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, filepath.Join(c.workspace, "leak")); err != nil {
			t.Fatal(err)
		}
		if out, code := c.sh(t, "cat leak"); code == 0 {
			t.Errorf("got %q", out)
		}
	})
}

// TestNetwork proves by the same connection that a closed network is closed and an open one open.
func TestNetwork(t *testing.T) {
	t.Parallel()
	b := bwrap.New("", "")
	sandboxtest.Need(t, b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for network, want := range map[bool]int{false: 1, true: 0} {
		t.Run(fmt.Sprintf("SBX-20 Network %v is enforced", network), func(t *testing.T) {
			sb, err := b.Open(t.Context(), sandbox.Config{ID: "net", Workspace: t.TempDir(), Network: network})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sb.Destroy(t.Context()) }()
			var out bytes.Buffer
			exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + port}, Stderr: &out})
			if err != nil || exit.Code != want {
				t.Errorf("got %d, %v, %q, want %d", exit.Code, err, out.String(), want)
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	missing := bwrap.New("no-such-bubblewrap", "")
	t.Run("SBX-20 Probe names what is missing", func(t *testing.T) {
		t.Parallel()
		err := missing.Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "apt-get install bubblewrap") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-20 Open fails too", func(t *testing.T) {
		t.Parallel()
		if _, err := missing.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir()}); !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
	t.Run("SBX-20 a bubblewrap that cannot start anything fails the probe", func(t *testing.T) {
		t.Parallel()
		broken := filepath.Join(t.TempDir(), "bwrap")
		script := "#!/bin/sh\ntest \"$1\" = --help && echo --json-status-fd && exit 0\necho 'bwrap: no namespaces here' >&2; exit 1\n"
		if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		err := bwrap.New(broken, "").Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "no namespaces here") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a path to show that is not there is refused", func(t *testing.T) {
		t.Parallel()
		b := bwrap.New("", "")
		sandboxtest.Need(t, b)
		gone := filepath.Join(t.TempDir(), "gone")
		for _, cfg := range []sandbox.Config{{ReadOnly: []string{gone}}, {Writable: []string{gone}}} {
			cfg.ID, cfg.Workspace = "x", t.TempDir()
			if _, err := b.Open(t.Context(), cfg); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want ErrNotExist", err)
			}
		}
		for _, ws := range []string{"/proc", "/dev/shm", "/sys"} {
			if _, err := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: ws}); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("workspace %s: got %v, want ErrInvalid", ws, err)
			}
		}
	})
}

func TestEtc(t *testing.T) {
	t.Parallel()
	b := bwrap.New("", "")
	sandboxtest.Need(t, b)
	x, err := b.Open(t.Context(), sandbox.Config{ID: "etc", Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	sh := func(t *testing.T, script string) string {
		t.Helper()
		var out bytes.Buffer
		if _, err := x.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	t.Run("SBX-14 small files of /etc are as on the machine, or as made for the sandbox, for each command", func(t *testing.T) {
		for _, path := range []string{"/etc/nsswitch.conf", "/etc/localtime", "/etc/ld.so.cache"} {
			want, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				want, err = []byte("missing\n"), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := sh(t, "cat "+path+" 2>/dev/null || echo missing"); got != string(want) {
					t.Errorf("%s has %d bytes inside and %d outside", path, len(got), len(want))
				}
			}
		}
		if got := sh(t, "id -un; cat /etc/hostname; ls /etc/shadow /etc/resolv.conf 2>/dev/null"); got != "agent\ninspan\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("SBX-14 and none of them can be written, replaced or removed", func(t *testing.T) {
		if got := sh(t, "for f in /etc/passwd /etc/nsswitch.conf /etc/new; do (echo x >> $f) 2>/dev/null && echo WROTE; done; rm -f /etc/passwd 2>/dev/null && echo REMOVED; mv /etc/hosts /etc/x 2>/dev/null && echo MOVED; chmod 777 /etc/passwd 2>/dev/null && echo CHANGED; echo done"); got != "done\n" {
			t.Errorf("got %q", got)
		}
	})
}
