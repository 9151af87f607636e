package docker_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/docker"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a sandbox on an engine that is none.
func open(t testing.TB, b *docker.Backend, change func(*sandbox.Config)) sandbox.Sandbox {
	t.Helper()
	cfg := sandbox.Config{ID: "test", Workspace: t.TempDir()}
	if change != nil {
		change(&cfg)
	}
	sb, err := b.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) }) // some tests do so themselves, or have no engine any more
	return sb
}

func sh(t testing.TB, sb sandbox.Sandbox, script string) (string, sandbox.Exit, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	return out.String(), exit, err
}

func TestOrder(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	extra := t.TempDir()
	sb := open(t, e.backend(t, nil), func(c *sandbox.Config) {
		c.Limits = sandbox.Limits{CPU: 1.5, Memory: 64 << 20, PIDs: 50, Disk: 1 << 30}
		c.ReadOnly = []string{extra}
	})
	if n := len(e.orders()); n != 0 {
		t.Errorf("%d containers before the first command, want none: files need none", n)
	}
	out, exit, err := sh(t, sb, `echo "$TOOLS $LANG $PATH"; kill -TERM $$`)
	must(t, err)
	o := e.orders()[0]
	h := o.HostConfig
	mounted := func(target string, readOnly bool) bool {
		for _, m := range h.Mounts {
			if m.Target == target {
				return m.ReadOnly == readOnly && m.BindOptions.NonRecursive
			}
		}
		return false
	}
	for what, holds := range map[string]bool{
		"SBX-4 the root cannot be written":         h.ReadonlyRootfs,
		"SBX-4 no capability":                      slices.Equal(h.CapDrop, []string{"ALL"}) && len(h.CapAdd) == 0 && !h.Privileged,
		"SBX-4 no new privileges":                  slices.Contains(h.SecurityOpt, "no-new-privileges:true"),
		"SBX-13 no network unless it is allowed":   h.NetworkMode == "none",
		"SBX-4 the workspace is mounted":           mounted(sb.Workspace(), false),
		"SBX-14 what is read-only is mounted so":   mounted(extra, true),
		"SBX-12 cpu":                               h.NanoCPUs == 1_500_000_000,
		"SBX-12 memory, and no swap besides":       h.Memory == 64<<20 && h.MemorySwap == 64<<20,
		"SBX-12 processes":                         h.PidsLimit != nil && *h.PidsLimit >= 50 && *h.PidsLimit < 100,
		"SBX-12 a file no larger than the disk":    slices.ContainsFunc(h.Ulimits, func(u *container.Ulimit) bool { return u.Name == "fsize" && u.Hard == 1<<30 }),
		"SBX-12 volumes of the image are closed":   strings.HasPrefix(h.Tmpfs["/data"], "ro,"),
		"SBX-17 it says whose it is":               strings.HasPrefix(o.Labels["inspan.box"], "inspan-box-") && o.Labels["inspan.machine"] != "",
		"SBX-17 it goes with its first process":    h.AutoRemove && o.OpenStdin && o.StdinOnce,
		"SBX-4 the image is that which was looked": o.Image == "sha256:abc",
	} {
		t.Run(what, func(t *testing.T) {
			if !holds {
				t.Errorf("got %+v, %+v", o.Config, h)
			}
		})
	}
	t.Run("SBX-1 commands have the image's environment below the sandbox's", func(t *testing.T) {
		if out != "yes C.UTF-8 /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/tools/bin\n" || exit.Signal != "SIGTERM" {
			t.Errorf("got %q, %+v", out, exit)
		}
	})
	t.Run("SBX-13 an open network is that of the settings", func(t *testing.T) {
		e := newEngine(t)
		sb := open(t, e.backend(t, func(c *docker.Config) { c.Network = "tools-net" }), func(c *sandbox.Config) { c.Network = true })
		_, _, err := sh(t, sb, "true")
		must(t, err)
		if got := e.orders()[0].HostConfig.NetworkMode; got != "tools-net" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("SBX-15 the container goes with its sandbox", func(t *testing.T) {
		must(t, sb.Destroy(t.Context()))
		if n := len(e.orders()); n != 0 {
			t.Errorf("%d containers are left", n)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine func(*engine)
		config func(*docker.Config)
		ask    func(*sandbox.Config)
		want   error
		says   string
	}{
		"SBX-20 an image that is not there": {ask: func(c *sandbox.Config) { c.Image = "golang:1" }, want: sandbox.ErrUnavailable, says: "docker pull golang:1"},
		"SBX-20 SBX-22 no image, and the default is not here": {config: func(c *docker.Config) { c.Image = "" },
			want: sandbox.ErrUnavailable, says: "build it with make sandbox-image"},
		"SBX-20 no engine":                   {config: func(c *docker.Config) { c.Host = "unix:///nowhere/s" }, want: sandbox.ErrUnavailable, says: "INSPAN_DOCKER_HOST"},
		"SBX-20 an engine of another system": {engine: func(e *engine) { e.info = `{"OSType":"windows"}` }, want: sandbox.ErrUnavailable, says: "windows"},
		"SBX-20 no helper":                   {config: func(c *docker.Config) { c.Helper = "/no/helper" }, want: sandbox.ErrUnavailable, says: "helper"},
		"SBX-20 no user":                     {config: func(c *docker.Config) { c.User = "agent" }, want: sandbox.ErrUnavailable, says: "UID:GID"},
		"SBX-20 a limit that the engine has not": {engine: func(e *engine) { e.info = `{"OSType":"linux"}` },
			ask: func(c *sandbox.Config) { c.Limits.PIDs = 10 }, want: sandbox.ErrNotEnforced, says: "pids"},
		"SBX-20 less memory than a container needs":  {ask: func(c *sandbox.Config) { c.Limits.Memory = 8 << 20 }, want: sandbox.ErrNotEnforced, says: "memory"},
		"SBX-20 a workspace that is the container's": {ask: func(c *sandbox.Config) { c.Workspace = "/proc" }, want: fs.ErrInvalid, says: "belongs to the container"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			if c.engine != nil {
				c.engine(e)
			}
			cfg := sandbox.Config{ID: "test", Workspace: t.TempDir()}
			if c.ask != nil {
				c.ask(&cfg)
			}
			_, err := e.backend(t, c.config).Open(t.Context(), cfg)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.says)
			}
			if n := len(e.orders()); n != 0 {
				t.Errorf("%d containers were made", n)
			}
		})
	}
	t.Run("SBX-20 a helper that needs libraries", func(t *testing.T) {
		t.Parallel()
		dynamic := filepath.Join(t.TempDir(), "dynamic")
		must(t, os.WriteFile(dynamic, program(1, 3), 0o755)) // PT_INTERP names what loads libraries
		_, err := newEngine(t).backend(t, func(c *docker.Config) { c.Helper = dynamic }).Open(t.Context(), sandbox.Config{ID: "test", Workspace: t.TempDir()})
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-4 commands are not root's by default", func(t *testing.T) {
		t.Parallel()
		sb, err := newEngine(t).backend(t, func(c *docker.Config) { c.User = "" }).Open(t.Context(), sandbox.Config{ID: "test", Workspace: t.TempDir()})
		if os.Getuid() == 0 {
			if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "INSPAN_DOCKER_USER") {
				t.Errorf("got %v", err)
			}
			return
		}
		must(t, err)
		must(t, sb.Destroy(t.Context()))
	})
	t.Run("SBX-4 an image is only got where that is allowed", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t)
		open(t, e.backend(t, func(c *docker.Config) { c.Pull = true }), func(c *sandbox.Config) { c.Image = "fresh" })
		if !slices.Equal(e.pulled, []string{"fresh"}) {
			t.Errorf("got %q", e.pulled)
		}
	})
	t.Run("SBX-14 a mount that is not what was asked for", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t)
		e.fault = "/ws/named is not what was to be mounted there"
		sb := open(t, e.backend(t, nil), nil)
		_, _, err := sh(t, sb, "touch ran")
		if _, ran := sb.Stat("ran"); !errors.Is(err, sandbox.ErrNotEnforced) || !errors.Is(err, sandbox.ErrNotStarted) || ran == nil {
			t.Errorf("got %v, ran: %v", err, ran)
		}
		if n := len(e.orders()); n != 0 {
			t.Errorf("%d containers are left", n)
		}
	})
}

// ready starts a script and waits until it says ready.
func ready(t *testing.T, sb sandbox.Sandbox, script string) (ended <-chan error) {
	t.Helper()
	received, over := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &alarm{received: received}})
		over <- err
	}()
	select {
	case <-received:
	case err := <-over:
		t.Fatalf("ended before it was ready: %v", err)
	case <-time.After(5 * time.Minute):
		t.Fatal("never ready")
	}
	return over
}

// alarm closes its channel at the first Write.
type alarm struct{ received chan struct{} }

func (a *alarm) Write(p []byte) (int, error) {
	select {
	case <-a.received:
	default:
		close(a.received)
	}
	return len(p), nil
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(5 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	t.Run("SBX-4 an engine that is lost in the middle ends the command with an unknown outcome", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t)
		b := e.backend(t, nil)
		sb := open(t, b, nil)
		ended := ready(t, sb, "echo ready; sleep 600")
		e.down()
		if err := <-ended; !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if err := sb.WriteFile("still", []byte("here")); err != nil {
			t.Errorf("files need no engine: %v", err)
		}
		if _, _, err := sh(t, sb, "true"); err == nil || errors.Is(err, sandbox.ErrLost) {
			t.Errorf("a command that never began: got %v", err)
		}
		if err := sb.Destroy(t.Context()); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("destroyed without an engine: got %v, want to be told what is left", err)
		}
		if n := len(e.orders()); n != 1 {
			t.Fatalf("%d containers, want the one that could not be removed: the test would prove nothing", n)
		}
		e.up()
		other := open(t, b, nil)
		if n := len(e.orders()); n != 0 {
			t.Errorf("%d containers are left when the engine is back", n)
		}
		if out, _, err := sh(t, other, "echo works"); err != nil || out != "works\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-4 a helper that a command ends takes the container with it, and the next command gets another", func(t *testing.T) {
		t.Parallel()
		e := newEngine(t)
		sb := open(t, e.backend(t, nil), nil)
		if _, _, err := sh(t, sb, "kill -KILL $PPID; sleep 600"); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		if n := len(e.orders()); n != 0 {
			t.Errorf("%d containers are left", n)
		}
		if out, _, err := sh(t, sb, "echo works"); err != nil || out != "works\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("SBX-4 a command cannot end its parent politely", func(t *testing.T) {
		t.Parallel()
		sb := open(t, newEngine(t).backend(t, nil), nil)
		if out, exit, err := sh(t, sb, "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; echo on; exit 3"); err != nil || exit.Code != 3 || out != "on\n" {
			t.Errorf("got %q, %+v, %v", out, exit, err)
		}
	})
	t.Run("TOOL-22 what a command hid ends with it", func(t *testing.T) {
		t.Parallel()
		sb := open(t, newEngine(t).backend(t, nil), nil)
		_, _, err := sh(t, sb, `(env -i setsid sh -c 'echo $$ > pid; exec sleep 600' &); while ! test -s pid; do :; done`)
		must(t, err)
		text, err := sb.ReadFile("pid")
		must(t, err)
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(text))); err == nil {
			t.Errorf("process %s lives", text)
		}
	})
}

func TestStart(t *testing.T) {
	t.Parallel()
	sb := open(t, newEngine(t).backend(t, nil), nil)
	t.Run("SBX-2 processes are listed, signalled and ended in the container", func(t *testing.T) {
		received := make(chan struct{})
		p, err := sb.Start(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", `trap 'exit 5' USR1; sleep 611 & echo ready; while :; do wait; done`}, Stdout: &alarm{received: received}})
		must(t, err)
		<-received
		var list []sandbox.ProcessInfo
		at := -1
		await(t, "the sleep is listed", func() bool { // a moment before, it is its parent's copy
			list, err = sb.Processes(t.Context())
			must(t, err)
			at = slices.IndexFunc(list, func(i sandbox.ProcessInfo) bool { return slices.Equal(i.Args, []string{"sleep", "611"}) })
			return at >= 0
		})
		if len(list) != 2 {
			t.Fatalf("got %+v", list)
		}
		must(t, sb.Kill(t.Context(), list[at].PID))
		if err := sb.Kill(t.Context(), os.Getpid()); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("a process outside: got %v", err)
		}
		must(t, p.Signal(syscall.SIGUSR1))
		if exit, err := p.Wait(); err != nil || exit.Code != 5 {
			t.Errorf("got %+v, %v", exit, err)
		}
		if err := p.Signal(syscall.SIGUSR1); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("one that ended: got %v", err)
		}
	})
	t.Run("SBX-16 what a command used is measured", func(t *testing.T) {
		_, exit, err := sh(t, sb, `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
		if err != nil || exit.User+exit.System < 10*time.Millisecond || exit.MaxRSS < 256<<10 {
			t.Errorf("got %+v, %v", exit, err)
		}
	})
}

func TestReap(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b := e.backend(t, nil)
	living := open(t, b, nil)
	_, _, err := sh(t, living, "true")
	must(t, err)
	own := e.orders()[0].Labels
	put := func(id string, change func(labels map[string]string)) {
		labels := map[string]string{}
		for k, v := range own {
			labels[k] = v
		}
		change(labels)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sandboxes[id] = &vessel{order: container.CreateRequest{Config: &container.Config{Labels: labels}}}
	}
	// The owner's parts are the namespace of process numbers, the number, and when that process began.
	name := own["inspan.box"]
	parts := strings.SplitN(strings.TrimPrefix(name, "inspan-box-"), ".", 3)
	rename := func(labels map[string]string, name string) {
		labels["inspan.box"], labels["inspan.private"] = name, filepath.Join(filepath.Dir(own["inspan.private"]), name)
	}
	put("dead", func(l map[string]string) { rename(l, "inspan-box-"+parts[0]+".999999999.7-x") })
	put("destroyed", func(l map[string]string) { rename(l, name+"0") })
	put("other machine", func(l map[string]string) {
		rename(l, "inspan-box-"+parts[0]+".999999999.7-x")
		l["inspan.machine"] = "else"
	})
	put("other namespace", func(l map[string]string) { rename(l, "inspan-box-1.999999999.7-x") })
	put("strange", func(l map[string]string) { l["inspan.box"] = "postgres" })
	n, err := b.Reap(t.Context())
	e.mu.Lock()
	left := len(e.sandboxes)
	_, dead := e.sandboxes["dead"]
	_, destroyed := e.sandboxes["destroyed"]
	e.mu.Unlock()
	t.Run("SBX-17 containers of lost toolrunners and destroyed sandboxes are removed, and no others", func(t *testing.T) {
		if err != nil || n != 2 || left != 4 || dead || destroyed {
			t.Errorf("got %d, %v, %d left", n, err, left)
		}
		if out, _, err := sh(t, living, "echo on"); err != nil || out != "on\n" {
			t.Errorf("the living: got %q, %v", out, err)
		}
	})
	t.Run("SBX-17 what cannot be removed is told", func(t *testing.T) {
		put("dead", func(l map[string]string) { rename(l, "inspan-box-"+parts[0]+".999999999.7-x") })
		e.mu.Lock()
		e.keep = true
		e.mu.Unlock()
		if n, err := b.Reap(t.Context()); err == nil || n != 0 || !strings.Contains(err.Error(), "busy") {
			t.Errorf("got %d, %v", n, err)
		}
		e.mu.Lock()
		e.keep = false
		e.mu.Unlock()
	})
}
