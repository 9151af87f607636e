package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
)

// begin starts a script and waits until it says ready.
func (p workdir) begin(t *testing.T, ctx context.Context, script string) sandbox.Process {
	t.Helper()
	ready := listener("ready")
	proc, err := p.sandbox.Start(ctx, sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: ready, Stderr: ready})
	must(t, err)
	select {
	case <-ready.received:
	case <-within(t).Done():
		t.Fatalf("never ready; it said %q", ready.String())
	}
	return proc
}

// waited returns how a process ended.
func waited(t *testing.T, proc sandbox.Process) (sandbox.Exit, error) {
	t.Helper()
	type end struct {
		exit sandbox.Exit
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := proc.Wait()
		ended <- end{exit, err}
	}()
	select {
	case e := <-ended:
		return e.exit, e.err
	case <-within(t).Done():
		t.Fatal("Wait does not return")
		return sandbox.Exit{}, nil
	}
}

func examStart(t *testing.T, b sandbox.Backend) {
	t.Run("SBX-2 Start streams, and Wait tells the end more than once", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		proc := p.begin(t, t.Context(), `echo ready; read x; exit 7`)
		for range 2 {
			if exit, err := waited(t, proc); err != nil || exit.Code != 7 {
				t.Errorf("got %+v, %v, want code 7", exit, err)
			}
		}
		if err := proc.Signal(syscall.SIGTERM); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("signal to one that ended: got %v, want ErrNoProcess", err)
		}
	})
	t.Run("SBX-2 what cannot start is an error of Start", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		for _, args := range [][]string{nil, {"no-such-program-here"}} {
			proc, err := p.sandbox.Start(t.Context(), sandbox.Cmd{Args: args})
			if err == nil {
				_, err = waited(t, proc) // a backend whose wall starts first learns it later
			}
			if err == nil {
				t.Errorf("args %q: got no error", args)
			}
		}
	})
	t.Run("SBX-2 a signal reaches the command", func(t *testing.T) {
		t.Parallel()
		wants(t, b, Signals)
		p := open(t, b)
		proc := p.begin(t, t.Context(), `trap 'exit 5' USR1; echo ready; while :; do sleep 0.01; done`)
		must(t, proc.Signal(syscall.SIGUSR1))
		if exit, err := waited(t, proc); err != nil || exit.Code != 5 {
			t.Errorf("got %+v, %v, want code 5", exit, err)
		}
	})
	t.Run("SBX-2 a started process ends with its context", func(t *testing.T) {
		t.Parallel()
		wants(t, b, Processes)
		p := open(t, b)
		l := newLeash(t, b, p)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		proc := p.begin(t, ctx, families["daemon"])
		cancel()
		if _, err := waited(t, proc); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
		if l.alive() {
			t.Error("a process outlives its context")
		}
	})
	t.Run("SBX-15 nothing that was started outlives Destroy", func(t *testing.T) {
		t.Parallel()
		wants(t, b, Processes)
		p := open(t, b)
		l := newLeash(t, b, p)
		proc := p.begin(t, t.Context(), families["daemon"])
		must(t, p.sandbox.Destroy(within(t)))
		if l.alive() {
			t.Error("a process outlives its sandbox")
		}
		if _, err := waited(t, proc); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("got %v, want ErrDestroyed", err)
		}
		if _, err := p.sandbox.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err,
			sandbox.ErrDestroyed) {
			t.Errorf("Start afterwards: got %v, want ErrDestroyed", err)
		}
		if _, err := p.sandbox.Processes(t.Context()); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("Processes afterwards: got %v, want ErrDestroyed", err)
		}
	})
	if runtime.GOOS == "linux" {
		examProcesses(t, b)
	}
}

func examProcesses(t *testing.T, b sandbox.Backend) {
	t.Run("SBX-2 processes of the sandbox are listed and ended, and no others", func(t *testing.T) {
		t.Parallel()
		wants(t, b, Processes)
		p, other := open(t, b), open(t, b)
		proc := p.begin(t, t.Context(), `sleep 611 & echo ready; wait; exit 3`)
		stranger := other.begin(t, t.Context(), `echo ready; read x; exec sleep 612`)
		line := func(i sandbox.ProcessInfo) string { return strings.Join(i.Args, " ") }
		ctx := within(t)
		var list []sandbox.ProcessInfo
		for !slices.ContainsFunc(list, func(i sandbox.ProcessInfo) bool { return line(i) == "sleep 611" }) { // which is a shell at first
			all, err := p.sandbox.Processes(ctx)
			must(t, err)
			list = all
		}
		sleeper := 0
		for _, info := range list {
			if line(info) == "sleep 611" {
				sleeper = info.PID
			}
			if strings.Contains(line(info), "612") || !is[sandbox.Numbered](b) && info.PID == os.Getpid() || info.RSS < 0 {
				t.Errorf("listed: %+v", info)
			}
		}
		has := slices.ContainsFunc(list, func(i sandbox.ProcessInfo) bool { return i.PID == proc.PID() })
		if sleeper == 0 || !has || len(list) != 2 {
			t.Fatalf("got %+v, want the shell %d and its sleep", list, proc.PID())
		}
		strangers := []int{0, 1, -1}
		if !is[sandbox.Numbered](b) {
			strangers = append(strangers, os.Getpid(), os.Getppid(), stranger.PID())
		}
		for _, pid := range strangers {
			if err := p.sandbox.Kill(t.Context(), pid); !errors.Is(err, sandbox.ErrNoProcess) {
				t.Errorf("kill %d: got %v, want ErrNoProcess", pid, err)
			}
		}
		must(t, p.sandbox.Kill(t.Context(), sleeper))
		if exit, err := waited(t, proc); err != nil || exit.Code != 3 {
			t.Errorf("got %+v, %v, want code 3: only the sleep was ended", exit, err)
		}
		if err := p.sandbox.Kill(t.Context(), sleeper); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("kill twice: got %v, want ErrNoProcess", err)
		}
	})
	t.Run("SBX-16 what a command used is measured", func(t *testing.T) {
		t.Parallel()
		p := open(t, b)
		rounds := 40_000
		if _, lacks := lacks(b, Processes); lacks {
			rounds = 4_000 // its shell is itself a program of an engine, and ten times as slow
		}
		_, _, exit := p.sh(t, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do i=$((i+1)); done`, rounds))
		if exit.User+exit.System <= 4*time.Millisecond || exit.User+exit.System > 60*time.Second {
			t.Errorf("time: got %v and %v", exit.User, exit.System)
		}
		// Another machine need not tell memory: 0 is unknown.
		if (exit.MaxRSS < 256<<10 || exit.MaxRSS > 1<<30) && !(away(b) && exit.MaxRSS == 0) {
			t.Errorf("memory: got %d bytes", exit.MaxRSS)
		}
		if exit.ReadBytes < 0 || exit.WriteBytes < 0 {
			t.Errorf("disks: got %+v", exit)
		}
	})
}

// capability returns what a backend says of one wall.
func capability(t *testing.T, b sandbox.Backend, isolation sandbox.Isolation) sandbox.Capability {
	t.Helper()
	for _, c := range b.Capabilities() {
		if c.Isolation == isolation {
			return c
		}
	}
	t.Fatalf("the backend says nothing of %s", isolation)
	return sandbox.Capability{}
}

// try opens a sandbox with a Config and runs a script in it.
func try(t *testing.T, b sandbox.Backend, cfg sandbox.Config, script string) (string, sandbox.Exit, error) {
	t.Helper()
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	cfg.ID = "exam"
	sb, err := b.Open(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, sb.Destroy(context.Background())) }()
	var out safe
	exit, err := sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	return out.String(), exit, err
}

// proof shows that one wall or limit holds.
type proof struct {
	name      string
	isolation sandbox.Isolation
	cfg       sandbox.Config
	prove     func(t *testing.T, cfg sandbox.Config)
}

func proofs(b sandbox.Backend) []proof {
	return []proof{
		{"SBX-12 memory", sandbox.LimitMemory, sandbox.Config{Limits: sandbox.Limits{Memory: 64 << 20}},
			func(t *testing.T, cfg sandbox.Config) {
				out, exit, err := try(t, b, cfg, `head -c 256m /dev/zero | tail | wc -c; echo still here`)
				if err == nil && strings.Contains(out, "268435456") {
					t.Errorf("tail held 256 MiB in 64: %q, %+v", out, exit)
				}
				if out, exit, err = try(t, b, cfg, `head -c 16m /dev/zero | tail | wc -c`); err != nil || !strings.Contains(out,
					"16777216") {
					t.Errorf("within the limit: got %q, %+v, %v", out, exit, err)
				}
			}},
		{"SBX-12 cpu", sandbox.LimitCPU, sandbox.Config{Limits: sandbox.Limits{CPU: 0.2}},
			func(t *testing.T, cfg sandbox.Config) {
				_, exit, err := try(t, b, cfg, `timeout 4 sh -c 'while :; do :; done'; true`) // not a count: some machines are slow
				must(t, err)
				if used := exit.User + exit.System; used > exit.Wall*2/5 {
					t.Errorf("used %v in %v, want a fifth of one processor", used, exit.Wall)
				}
			}},
		{"SBX-12 processes", sandbox.LimitPIDs, sandbox.Config{Limits: sandbox.Limits{PIDs: 20}},
			func(t *testing.T, cfg sandbox.Config) {
				out, _, err := try(t, b, cfg, `for i in $(seq 60); do sleep 600 & done 2>/dev/null; jobs -p | wc -l`)
				if n := strings.TrimSpace(out); err == nil && n == "60" {
					t.Errorf("60 processes run, at most 20 may")
				}
			}},
		{"SBX-12 disk", sandbox.LimitDisk, sandbox.Config{Limits: sandbox.Limits{Disk: 32 << 20}},
			func(t *testing.T, cfg sandbox.Config) {
				_, _, err := try(t, b, cfg, `while :; do i=$((i+1)); head -c 1m /dev/zero > f$i; sleep 0.01; done`)
				if !errors.Is(err, sandbox.ErrDisk) {
					t.Errorf("got %v, want ErrDisk", err)
				}
				if out, exit, err := try(t, b, cfg, `head -c 8m /dev/zero > f; sleep 0.3; echo fits`); err != nil ||
					out != "fits\n" {
					t.Errorf("within the limit: got %q, %+v, %v", out, exit, err)
				}
			}},
		{"SBX-15 wall", sandbox.LimitWallTime, sandbox.Config{Limits: sandbox.Limits{Wall: 300 * time.Millisecond}},
			func(t *testing.T, cfg sandbox.Config) {
				if _, _, err := try(t, b, cfg, `sleep 600`); !errors.Is(err, sandbox.ErrLifetime) {
					t.Errorf("got %v, want ErrLifetime", err)
				}
			}},
		{"SBX-14 denied", sandbox.IsolationDenied, sandbox.Config{}, func(t *testing.T, cfg sandbox.Config) {
			denied(t, b,
				cfg)
		}},
		{"SBX-13 closed network", sandbox.IsolationNetwork, sandbox.Config{}, func(t *testing.T, cfg sandbox.Config) {
			_, _, err := try(t, b, cfg, `true`)
			must(t, err)
		}},
	}
}

// examLimits proves each limit that the backend says it enforces, and that it refuses the others.
func examLimits(t *testing.T, b sandbox.Backend) {
	t.Run("SBX-20 the report is complete and says how or why not", func(t *testing.T) {
		var isolation []sandbox.Isolation
		for _, c := range b.Capabilities() {
			isolation = append(isolation, c.Isolation)
			if c.Enforced != (c.How != "") || c.Enforced == (c.Why != "") {
				t.Errorf("got %+v, want how or why", c)
			}
		}
		if !slices.Equal(isolation, sandbox.Isolations()) {
			t.Errorf("got %v, want %v", isolation, sandbox.Isolations())
		}
	})
	t.Run("SBX-20 limits that no sandbox can have are refused", func(t *testing.T) {
		for _, l := range []sandbox.Limits{{CPU: -1}, {Memory: 1}, {PIDs: 1}, {Disk: -1}, {Wall: -1}, {CPU: 0.001}} {
			if sb, err := b.Open(t.Context(), sandbox.Config{ID: "exam", Workspace: t.TempDir(), Network: true,
				Limits: l}); err == nil {
				t.Errorf("%+v: got no error", l)
				must(t, sb.Destroy(t.Context()))
			}
		}
	})
	for _, one := range proofs(b) {

		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			cfg := one.cfg
			cfg.Network = one.isolation != sandbox.IsolationNetwork
			if has := capability(t, b, one.isolation); has.Enforced {
				switch one.isolation {
				case sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitDisk, sandbox.LimitPIDs:
					wants(t, b, Limits)
				default:
				}
				one.prove(t, cfg)
				return
			}
			cfg.ID, cfg.Workspace = "exam", t.TempDir()
			if one.isolation == sandbox.IsolationDenied {
				cfg.Denied = []string{cfg.Workspace}
			}
			if _, err := b.Open(t.Context(), cfg); !errors.Is(err, sandbox.ErrNotEnforced) || !errors.Is(err,
				sandbox.ErrUnavailable) {
				t.Errorf("SBX-20: got %v, want ErrNotEnforced", err)
			}
		})
	}
}

// denied proves that a denied path cannot be seen, where a wider one is shown, by any name.
func denied(t *testing.T, b sandbox.Backend, cfg sandbox.Config) {
	cfg.Workspace = t.TempDir()
	for _, dir := range []string{"keys/deep", "config"} {
		must(t, os.MkdirAll(cfg.Workspace+"/"+dir, 0o755))
	}
	must(t, os.WriteFile(cfg.Workspace+"/keys/deep/k", []byte(secretText), 0o644))
	must(t, os.WriteFile(cfg.Workspace+"/config/token", []byte(secretText), 0o644))
	must(t, os.Symlink("keys", cfg.Workspace+"/way"))
	cfg.Denied = []string{cfg.Workspace + "/keys", cfg.Workspace + "/config/token", cfg.Workspace + "/not/there"}
	if !away(b) { // another machine has a file of that name, which is its own
		cfg.Denied = append(cfg.Denied, "/etc/passwd")
	}
	out, _, err := try(t, b, cfg, `cat keys/deep/k way/deep/k config/token /etc/passwd; ls keys; chmod 755 keys config/token; cat config/token;
		mv keys elsewhere; cat elsewhere/deep/k; mv config other; cat other/token; rm -rf keys config; ln config/token hard; cat hard; exit 0`)
	if err != nil || strings.Contains(out, secretText) || strings.Contains(out, "nobody") && !away(b) {
		t.Errorf("got %q, %v", out, err)
	}
	deniedToFileTools(t, b, cfg)
	if data, err := os.ReadFile(cfg.Workspace + "/config/token"); err != nil || string(data) != secretText {
		t.Errorf("the denied file was changed: %q, %v", data, err)
	}
}

// deniedToFileTools reads and changes what is denied with the file operations, which work outside of what commands see.
func deniedToFileTools(t *testing.T, b sandbox.Backend, cfg sandbox.Config) {
	cfg.ID = "denied-files"
	sb, err := b.Open(t.Context(), cfg)
	must(t, err)
	defer func() { must(t, sb.Destroy(context.Background())) }()
	must(t, os.Symlink("config/token", cfg.Workspace+"/name"))
	must(t, os.Link(cfg.Workspace+"/config/token", cfg.Workspace+"/hard"))
	for _, name := range []string{"keys/deep/k", "way/deep/k", "config/token", "config/../config/token", "name", "hard"} {
		if data, err := sb.ReadFile(name); err == nil {
			t.Errorf("ReadFile %s: got %q", name, data)
		}
		if data, err := fs.ReadFile(sb.FS(), name); err == nil {
			t.Errorf("FS %s: got %q", name, data)
		}
	}
	if list, err := fs.ReadDir(sb.FS(), "keys"); err == nil {
		t.Errorf("ReadDir: got %v", list)
	}
	if sub, err := fs.Sub(sb.FS(), "config"); err == nil {
		if data, err := fs.ReadFile(sub, "token"); err == nil {
			t.Errorf("Sub: got %q", data)
		}
	}
	if err := sb.WriteFile("config/token", nil); err == nil {
		t.Error("a denied file was written")
	}
}
