package gvisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// real is the runsc of this machine, or the one that the operator's own setting names.
func real(base string) *gvisor.Backend {
	return gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR"), Platform: os.Getenv("INSPAN_GVISOR_PLATFORM"), Base: base})
}

func TestExam(t *testing.T) { sandboxtest.Exam(t, real("")) }

func BenchmarkCosts(b *testing.B) { sandboxtest.Costs(b, real("")) }

func TestEscape(t *testing.T) { sandboxtest.Escape(t, real("")) }

func TestSwap(t *testing.T) {
	if os.Geteuid() == 0 {
		sandboxtest.Swap(t, real(""))
		return
	}
	program, _ := double(t)
	t.Run("SBX-20 without root a named path in a directory that commands write is refused, and so is a denied one", func(t *testing.T) {
		ws := t.TempDir()
		if err := os.Mkdir(ws+"/named", 0o755); err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []sandbox.Config{{ReadOnly: []string{ws + "/named"}}, {Denied: []string{ws + "/named"}}} {
			cfg.ID, cfg.Workspace = "x", ws
			if _, err := gvisor.New(gvisor.Config{Program: program}).Open(t.Context(), cfg); !errors.Is(err, sandbox.ErrNotEnforced) {
				t.Errorf("got %v, want ErrNotEnforced", err)
			}
		}
	})
}

// sh runs a script in a sandbox of its own and returns what it says.
func sh(t *testing.T, b sandbox.Backend, cfg sandbox.Config, script string) (string, sandbox.Exit, error) {
	t.Helper()
	sb := open(t, b, cfg)
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	return out.String(), exit, err
}

func open(t *testing.T, b sandbox.Backend, cfg sandbox.Config) sandbox.Sandbox {
	t.Helper()
	cfg.ID = "test"
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	sb, err := b.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb
}

func TestWalls(t *testing.T) {
	t.Parallel()
	b := real("")
	sandboxtest.Need(t, b)
	t.Run("SBX-7 system calls are answered by another kernel than the machine's", func(t *testing.T) {
		outside, err := os.ReadFile("/proc/version")
		if err != nil {
			t.Fatal(err)
		}
		if out, _, err := sh(t, b, sandbox.Config{}, "cat /proc/version"); err != nil || out == "" || out == string(outside) {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-18 only the workspace, HOME and /tmp can be written, and /tmp is not the machine's", func(t *testing.T) {
		ws := t.TempDir()
		name := filepath.Base(ws) + "-probe"
		script := fmt.Sprintf(`for d in . /tmp "$HOME"; do echo x >$d/%[1]s || echo closed $d; done
			for d in / /usr /usr/bin /etc /var /home /etc/ssl/certs; do echo x 2>/dev/null >$d/%[1]s && echo open $d; done; true`, name)
		if out, _, err := sh(t, b, sandbox.Config{Workspace: ws}, script); err != nil || strings.Contains(out, "open") || strings.Contains(out, "closed") {
			t.Errorf("got %q, %v", out, err)
		}
		if _, err := os.Stat("/tmp/" + name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the machine's /tmp: %v", err)
		}
		if info, err := os.Stat(filepath.Join(ws, name)); err != nil || info.Size() != 2 {
			t.Errorf("the workspace: %v", err)
		}
	})
	t.Run("SBX-18 what is not shown is not there", func(t *testing.T) {
		out, _, err := sh(t, b, sandbox.Config{}, "ls -d /root /run /var/lib /srv /opt /boot /etc/shadow /etc/ssl/private /home/* 2>/dev/null")
		if err != nil || out != "/home/agent\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-18 no capability in any set", func(t *testing.T) {
		out, _, err := sh(t, b, sandbox.Config{}, "grep ^Cap /proc/self/status")
		if err != nil || strings.Count(out, "0000000000000000\n") < 4 || strings.Count(out, "0000000000000000\n") != strings.Count(out, "\n") {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-13 a door and an open network do not go together", func(t *testing.T) {
		_, err := b.Open(t.Context(), sandbox.Config{ID: "door", Workspace: t.TempDir(), Network: true, Egress: egress{}})
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}

type egress struct{ sandbox.Egress }

// TestMemory takes a kernel down with its command: neither the sandbox nor its files go with it.
func TestMemory(t *testing.T) {
	t.Parallel()
	b := real("")
	sandboxtest.Need(t, b)
	limits := sandbox.Limits{Memory: 64 << 20}
	if sandbox.Require(b.Mode(), sandbox.Config{Network: true, Limits: limits}, b.Capabilities()) != nil {
		t.Run("SBX-12 without control groups a limit is refused", func(t *testing.T) {
			if _, err := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir(), Limits: limits}); !errors.Is(err, sandbox.ErrNotEnforced) {
				t.Errorf("got %v", err)
			}
		})
		return
	}
	sb := open(t, b, sandbox.Config{Limits: limits})
	t.Run("SBX-12 a command above the limit fails with a clear message", func(t *testing.T) {
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo before >kept; head -c 1G /dev/zero | tail"}})
		if !errors.Is(err, gvisor.ErrMemory) {
			t.Errorf("got %v, want ErrMemory", err)
		}
	})
	t.Run("SBX-12 the next command has a new kernel and finds the files", func(t *testing.T) {
		var out bytes.Buffer
		exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"cat", "kept"}, Stdout: &out})
		if err != nil || exit.Code != 0 || out.String() != "before\n" {
			t.Errorf("got %q, %+v, %v", out.String(), exit, err)
		}
	})
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	b := real("")
	sandboxtest.Need(t, b)
	sb := open(t, b, sandbox.Config{Limits: sandbox.Limits{PIDs: 20}})
	var said listener
	said.received = make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	proc, err := sb.Start(ctx, sandbox.Cmd{Args: []string{"sh", "-c", "echo ready; sleep 600"}, Stdout: &said})
	if err != nil {
		t.Fatal(err)
	}
	<-said.received
	t.Run("SBX-12 a second command would have a count of its own, so it is refused", func(t *testing.T) {
		if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, gvisor.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	})
	stop()
	_, _ = proc.Wait() // it was ended
	t.Run("SBX-12 the next one runs when the first has ended", func(t *testing.T) {
		if exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); err != nil || exit.Code != 0 {
			t.Errorf("got %+v, %v", exit, err)
		}
	})
}

// listener tells when something was written.
type listener struct {
	once     sync.Once
	received chan struct{}
}

func (l *listener) Write(p []byte) (int, error) {
	l.once.Do(func() { close(l.received) })
	return len(p), nil
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	t.Run("SBX-20 a missing runsc is named, by Probe and by Open", func(t *testing.T) {
		t.Parallel()
		b := gvisor.New(gvisor.Config{Program: "no-such-runsc"})
		_, opened := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir()})
		for _, err := range []error{b.Probe(t.Context()), opened} {
			if !errors.Is(err, sandbox.ErrUnavailable) || runtime.GOOS == "linux" && !strings.Contains(err.Error(), "INSPAN_GVISOR") {
				t.Errorf("got %v", err)
			}
		}
	})
	if runtime.GOOS != "linux" {
		return
	}
	t.Run("SBX-20 a program that is no runsc is refused", func(t *testing.T) {
		t.Parallel()
		err := gvisor.New(gvisor.Config{Program: script(t, "echo hello")}).Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "hello") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-20 a runsc that starts nothing is refused with its words, for each platform", func(t *testing.T) {
		t.Parallel()
		err := gvisor.New(gvisor.Config{Program: script(t, `case "$*" in flags) echo " -platform x";; *) echo no kernel today >&2; exit 128;; esac`)}).Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "systrap") || !strings.Contains(err.Error(), "ptrace") || !strings.Contains(err.Error(), "no kernel today") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-20 a runsc that shows the machine's own kernel is refused", func(t *testing.T) {
		t.Parallel()
		err := gvisor.New(gvisor.Config{Program: script(t, `case "$*" in flags) echo " -platform x";; *) cat /proc/version;; esac`)}).Probe(t.Context())
		if !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// script makes a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// double is a program that answers as runsc does and runs nothing: it keeps what it was given in a directory.
func double(t *testing.T) (program, kept string) {
	t.Helper()
	kept = t.TempDir()
	return script(t, `
case "$*" in flags) echo " -platform x"; echo " -host-settings x"; exit;; esac
for a; do case "$a" in
	--bundle=*) cp "${a#--bundle=}/config.json" '`+kept+`/config';;
	--log=*) log=${a#--log=};;
esac; done
echo "$*" >'`+kept+`/line'
if grep -q no-such-program '`+kept+`/config'; then echo '{"msg":"it is not there","level":"error"}' >"$log"; exit 128; fi
echo another kernel`), kept
}

// TestBundle looks at what runsc is given, without one.
func TestBundle(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Logf("gVisor needs Linux: its bundle is not written here")
		return
	}
	program, kept := double(t)
	b := gvisor.New(gvisor.Config{Program: program})
	ws := t.TempDir()
	for _, dir := range []string{"secrets", "in/fixed"} {
		if err := os.MkdirAll(filepath.Join(ws, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	given := func(t *testing.T, cfg sandbox.Config) (config, string) {
		t.Helper()
		cfg.Workspace = ws
		sb := open(t, b, cfg)
		if _, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"echo", "hello"}, Dir: "in", Env: []string{"GIVEN=1"}}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(kept + "/config")
		line, err2 := os.ReadFile(kept + "/line")
		var c config
		if err := errors.Join(err, err2, json.Unmarshal(text, &c)); err != nil {
			t.Fatal(err)
		}
		return c, string(line)
	}
	cfg := sandbox.Config{Limits: sandbox.Limits{PIDs: 7, Disk: 1 << 20}}
	var closed []string
	if os.Geteuid() == 0 { // another user is refused them, see TestSwap
		cfg.Denied, cfg.ReadOnly = []string{ws + "/secrets"}, []string{ws + "/in/fixed"}
		closed = append(cfg.Denied, cfg.ReadOnly...)
	}
	c, line := given(t, cfg)
	t.Run("SBX-13 a closed network is none, an open one the machine's", func(t *testing.T) {
		if !strings.Contains(line, "--network=none") {
			t.Errorf("closed: got %s", line)
		}
		if _, line := given(t, sandbox.Config{Network: true}); !strings.Contains(line, "--network=host") {
			t.Errorf("open: got %s", line)
		}
	})
	t.Run("SBX-7 the filter is used, files are passed through, and flags are given where they are known", func(t *testing.T) {
		for _, flag := range []string{"--oci-seccomp", "--overlay2=none", "--host-settings=ignore", "--platform=systrap"} {
			if !strings.Contains(line, flag+" ") {
				t.Errorf("%s is missing: %s", flag, line)
			}
		}
		if strings.Contains(line, "gofer-network") || strings.Contains(line, "host-uds") {
			t.Errorf("got %s", line)
		}
		names := c.Linux.Seccomp.Syscalls[0].Names
		for _, name := range []string{"mount", "unshare", "keyctl", "io_uring_setup"} {
			if !slices.Contains(names, name) {
				t.Errorf("%s is open", name)
			}
		}
	})
	t.Run("SBX-18 the root is read-only and the command has nothing but what it was given", func(t *testing.T) {
		p := c.Process
		if !c.Root.ReadOnly || !p.NoNew || len(p.Capabilities) != 5 || p.Dir != ws+"/in" || !slices.Equal(p.Args, []string{"echo", "hello"}) {
			t.Errorf("got %+v", p)
		}
		for set, has := range p.Capabilities {
			if len(has) > 0 {
				t.Errorf("%s: %v", set, has)
			}
		}
		if !slices.Contains(p.Env, "GIVEN=1") || !slices.Contains(p.Env, "HOME=/home/agent") {
			t.Errorf("got %v", p.Env)
		}
	})
	t.Run("SBX-12 limits of processes and of a file are the kernel's", func(t *testing.T) {
		want := map[string]uint64{"RLIMIT_NPROC": 7, "RLIMIT_FSIZE": 1 << 20, "RLIMIT_CORE": 0}
		for _, l := range c.Process.Rlimits {
			if want[l.Type] != l.Hard || l.Soft != l.Hard {
				t.Errorf("got %+v", l)
			}
			delete(want, l.Type)
		}
		if len(want) > 0 {
			t.Errorf("missing: %v", want)
		}
	})
	t.Run("SBX-14 denied and read-only paths come after what holds them", func(t *testing.T) {
		at := map[string]int{}
		mode := map[string]string{}
		for i, m := range c.Mounts {
			at[m.Destination], mode[m.Destination] = i, strings.Join(m.Options, ",")
		}
		for _, path := range closed {
			if at[path] <= at[ws] || !strings.Contains(mode[path], "ro") {
				t.Errorf("%s: %v", path, c.Mounts)
			}
		}
		if !strings.Contains(mode[ws], "rw") || !strings.Contains(mode["/usr"], "ro") || mode["/etc/shadow"] != "" || mode["/"] != "" {
			t.Errorf("got %v", mode)
		}
	})
	t.Run("SBX-20 what runsc could not start is told in its words", func(t *testing.T) {
		sb := open(t, b, sandbox.Config{})
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"no-such-program"}})
		if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "it is not there") {
			t.Errorf("got %v", err)
		}
	})
}

// config is what the tests look at of a bundle.
type config struct {
	Process struct {
		Args, Env    []string
		Dir          string `json:"cwd"`
		NoNew        bool   `json:"noNewPrivileges"`
		Capabilities map[string][]string
		Rlimits      []struct {
			Type       string
			Hard, Soft uint64
		}
	}
	Root   struct{ ReadOnly bool }
	Mounts []struct {
		Destination, Source string
		Options             []string
	}
	Linux struct {
		Seccomp struct{ Syscalls []struct{ Names []string } }
	}
}

// patience bounds what nothing waits for unless it is broken.
const patience = 5 * time.Minute
