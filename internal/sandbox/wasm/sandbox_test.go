package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/wasm"
)

// began starts a hostile program and waits until it says that it runs.
func began(t *testing.T, ctx context.Context, sb sandbox.Sandbox, args ...string) sandbox.Process {
	t.Helper()
	return beganWith(t, ctx, sb, nil, args...)
}

func beganWith(t *testing.T, ctx context.Context, sb sandbox.Sandbox, in io.Reader, args ...string) sandbox.Process {
	t.Helper()
	received := &listener{received: make(chan struct{})}
	p, err := sb.Start(ctx, sandbox.Cmd{Args: append([]string{"hostile"}, args...), Stdin: in, Stdout: received, Stderr: received})
	must(t, err)
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-received.received:
	case <-limit.Done():
		t.Fatal("it never said that it runs")
	}
	return p
}

// listener tells of the first thing that is said.
type listener struct{ received chan struct{} }

func (l *listener) Write(p []byte) (int, error) {
	select {
	case <-l.received:
	default:
		close(l.received)
	}
	return len(p), nil
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	b := backend(t, hostile)
	t.Run("SBX-2 programs are listed by numbers of their own and ended, and no others", func(t *testing.T) {
		t.Parallel()
		sb, other := open(t, b, sandbox.Config{}), open(t, b, sandbox.Config{})
		first, second := began(t, t.Context(), sb, "loop"), began(t, t.Context(), sb, "sleep")
		stranger := began(t, t.Context(), other, "sleep")
		list, err := sb.Processes(t.Context())
		must(t, err)
		if len(list) != 2 || list[0].PID != first.PID() || list[1].PID != second.PID() || !slices.Equal(list[0].Args, []string{"hostile", "loop"}) ||
			list[0].RSS < 1<<20 || list[0].Parent != os.Getpid() {
			t.Errorf("got %+v", list)
		}
		for _, pid := range []int{os.Getpid(), os.Getppid(), stranger.PID() + 1000, 0, 1, -1} {
			if err := sb.Kill(t.Context(), pid); !errors.Is(err, sandbox.ErrNoProcess) {
				t.Errorf("kill %d: got %v, want ErrNoProcess", pid, err)
			}
		}
		must(t, sb.Kill(t.Context(), first.PID()))
		if exit, err := first.Wait(); err != nil || exit.Signal != "SIGKILL" || exit.Code != 137 {
			t.Errorf("got %+v, %v", exit, err)
		}
		if err := sb.Kill(t.Context(), first.PID()); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("kill twice: got %v", err)
		}
		if list, err := other.Processes(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("the other sandbox: got %+v, %v", list, err)
		}
	})
	t.Run("SBX-2 a signal that ends processes ends a program, any other is refused", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{})
		p := began(t, t.Context(), sb, "threads")
		must(t, p.Signal(syscall.Signal(0)))
		for _, s := range []os.Signal{syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGWINCH} {
			if err := p.Signal(s); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v: got %v", s, err)
			}
		}
		must(t, p.Signal(syscall.SIGTERM))
		if exit, err := p.Wait(); err != nil || exit.Signal != "SIGTERM" || exit.Code != 143 {
			t.Errorf("got %+v, %v", exit, err)
		}
		if err := p.Signal(syscall.SIGTERM); !errors.Is(err, sandbox.ErrNoProcess) {
			t.Errorf("afterwards: got %v", err)
		}
	})
	for _, how := range []string{"loop", "sleep", "threads", "stdin"} {
		t.Run("SBX-15 TOOL-22 the end of the context, and of the sandbox, ends: "+how, func(t *testing.T) {
			t.Parallel()
			sb := open(t, b, sandbox.Config{})
			never, end := io.Pipe()
			defer func() { must(t, end.Close()) }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := beganWith(t, ctx, sb, never, how)
			cancel()
			if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want Canceled", err)
			}
			q := beganWith(t, t.Context(), sb, never, how)
			must(t, sb.Destroy(t.Context()))
			if _, err := q.Wait(); !errors.Is(err, sandbox.ErrDestroyed) {
				t.Errorf("got %v, want ErrDestroyed", err)
			}
			if _, err := sb.Processes(t.Context()); !errors.Is(err, sandbox.ErrDestroyed) {
				t.Errorf("afterwards: got %v", err)
			}
		})
	}
	t.Run("SBX-15 what a shell left in the background ends with it", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{})
		out, exit, err := said(t, sb, "sh", "-c", "(while :; do echo x >> f; sleep 0.01; done) & echo done; exit 3")
		if err != nil || out != "done\n" || exit.Code != 3 {
			t.Errorf("got %q, %+v, %v", out, exit, err)
		}
		if list, err := sb.Processes(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("left: %+v, %v", list, err)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b := backend(t, hostile)
	t.Run("SBX-12 memory is that of all programs together, and is given back", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{Limits: sandbox.Limits{Memory: 96 << 20}})
		for range 2 {
			never, end := io.Pipe()
			p := beganWith(t, t.Context(), sb, never, "hold", "50000000")
			if out, exit, err := said(t, sb, "hostile", "hold", "50000000"); err == nil && exit.Code == 0 {
				t.Errorf("two hold 100 MB of 96 MiB: got %q, %+v", out, exit)
			}
			must(t, end.Close())
			if exit, err := p.Wait(); err != nil || exit.Code != 0 || exit.MaxRSS < 50_000_000 || exit.MaxRSS > 96<<20 {
				t.Errorf("the first: got %+v, %v", exit, err)
			}
		}
	})
	t.Run("SBX-12 no more programs run at once than the limit", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{Limits: sandbox.Limits{PIDs: 4}})
		for range 4 {
			began(t, t.Context(), sb, "sleep")
		}
		if _, _, err := said(t, sb, "true"); !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "4 programs") {
			t.Errorf("the fifth: got %v", err)
		}
	})
	t.Run("SBX-20 a limit of processors is refused with what to do", func(t *testing.T) {
		t.Parallel()
		_, err := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir(), Limits: sandbox.Limits{CPU: 1}})
		if !errors.Is(err, sandbox.ErrNotEnforced) || !strings.Contains(err.Error(), "bwrap") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SBX-13 a door to the network is refused: there is no way to one", func(t *testing.T) {
		t.Parallel()
		_, err := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir(), Egress: egress{}})
		if !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

type egress struct{ sandbox.Egress }

func TestPrograms(t *testing.T) {
	t.Parallel()
	b := backend(t, hostile)
	t.Run("SBX-8 a program that is not there is told with those that are", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{})
		for _, name := range []string{"git", "/usr/bin/git", "./f", "../programs/cat", "cat.wasm", "a\x00b", "."} {
			_, _, err := said(t, sb, name)
			if !errors.Is(err, sandbox.ErrNotStarted) || !strings.Contains(err.Error(), "hostile") || !strings.Contains(err.Error(), "sha256sum") {
				t.Errorf("%q: got %v", name, err)
			}
		}
		if out, exit, err := said(t, sb, "/usr/bin/echo", "hi"); err != nil || out != "hi\n" || exit.Code != 0 {
			t.Errorf("got %q, %+v, %v", out, exit, err)
		}
	})
	t.Run("SBX-8 a shell runs programs of other files, with their input, output and status", func(t *testing.T) {
		t.Parallel()
		sb := open(t, b, sandbox.Config{})
		out, exit, err := said(t, sb, "sh", "-c", `echo '{"n": 20}' > in.json; cat in.json | js -e 'print(JSON.parse(stdin()).n + 1, args)' a b | tr 1 2
			printf '#!/usr/bin/env js\nwrite("made", read(args[0]) + env("X")); exit(4)' > s.js; chmod +x s.js; X=y ./s.js in.json; echo $?; cat made; no-such; echo $?`)
		if want := "22 [\"a\",\"b\"]\n4\n{\"n\": 20}\ny"; err != nil || exit.Code != 0 || !strings.HasPrefix(out, want) ||
			!strings.Contains(out, "wasm programs only") || !strings.HasSuffix(out, "\n127\n") {
			t.Errorf("got %q, %+v, %v", out, exit, err)
		}
	})
	t.Run("SBX-14 what is read-only stays as it is, by any name", func(t *testing.T) {
		t.Parallel()
		ws, tools := t.TempDir(), t.TempDir()
		must(t, os.MkdirAll(ws+"/fixed/deep", 0o755))
		must(t, os.WriteFile(ws+"/fixed/deep/f", []byte("fixed"), 0o644))
		must(t, os.WriteFile(tools+"/t", []byte("tool"), 0o644))
		must(t, os.Symlink("fixed", ws+"/way"))
		sb := open(t, b, sandbox.Config{Workspace: ws, ReadOnly: []string{ws + "/fixed", tools}})
		out, _, err := said(t, sb, "sh", "-c", `cat fixed/deep/f `+tools+`/t; echo x > fixed/deep/f; echo x > way/deep/f; echo x >> fixed/new; rm -rf fixed;
			mv fixed other; ln fixed/deep/f hard && echo x > hard; touch fixed/deep/f; chmod 777 fixed/deep/f; mkdir way/d; ln -s x way/l; echo x > `+tools+`/t; cat fixed/deep/f; ls -A`)
		data, rerr := os.ReadFile(ws + "/fixed/deep/f")
		info, serr := os.Stat(ws + "/fixed/deep/f")
		if err != nil || rerr != nil || serr != nil || string(data) != "fixed" || info.Mode().Perm() != 0o644 || !strings.HasPrefix(out, "fixedtool") ||
			!strings.HasSuffix(out, "fixedfixed\nway\n") {
			t.Errorf("got %q, %v; the file %q, %v, %v", out, err, data, rerr, serr)
		}
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	empty, many := t.TempDir(), t.TempDir()
	must(t, os.Chmod(many, 0o777))
	for name, c := range map[string]struct {
		cfg  wasm.Config
		want string
	}{
		"SBX-20 no programs named":               {wasm.Config{}, "INSPAN_WASM_PROGRAMS"},
		"SBX-20 a directory that is not there":   {wasm.Config{Dirs: []string{filepath.Join(empty, "none")}}, "no such file"},
		"SBX-20 a directory without programs":    {wasm.Config{Dirs: []string{empty}}, "make wasm"},
		"SBX-20 a cache that others may write":   {wasm.Config{Dirs: []string{toolbox}, Cache: many}, "chmod 700"},
		"SBX-8 programs that are there":          {wasm.Config{Dirs: []string{toolbox}}, ""},
		"SBX-8 programs, and a cache to be made": {wasm.Config{Dirs: []string{toolbox}, Cache: filepath.Join(empty, "a", "b")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := wasm.New(c.cfg)
			defer func() { must(t, b.Close(context.Background())) }()
			err := b.Probe(t.Context())
			if c.want == "" {
				must(t, err)
				return
			}
			if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("SBX-9 what was compiled is kept and used again", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		cache := filepath.Join(dir, "cache")
		must(t, os.WriteFile(filepath.Join(dir, "x.wasm"), module(types, funcs, exports, code()), 0o644))
		use := func() {
			b := wasm.New(wasm.Config{Dirs: []string{dir}, Cache: cache})
			defer func() { must(t, b.Close(context.Background())) }()
			sb, err := b.Open(t.Context(), sandbox.Config{ID: "x", Workspace: t.TempDir()})
			must(t, err)
			defer func() { must(t, sb.Destroy(context.Background())) }()
			var out bytes.Buffer
			if exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"x"}, Stdout: &out}); err != nil || exit.Code != 0 {
				t.Errorf("got %+v, %v, %q", exit, err, out.String())
			}
		}
		kept := func() map[string]os.FileInfo {
			found := map[string]os.FileInfo{}
			must(t, filepath.Walk(cache, func(at string, info os.FileInfo, err error) error {
				if err == nil && info.Mode().IsRegular() {
					found[at] = info
				}
				return err
			}))
			return found
		}
		use()
		first := kept()
		use()
		second := kept()
		if len(first) == 0 || len(first) != len(second) {
			t.Errorf("kept %d files, then %d", len(first), len(second))
		}
		for at, info := range first {
			if !second[at].ModTime().Equal(info.ModTime()) {
				t.Errorf("%s was made anew", at)
			}
		}
	})
}
