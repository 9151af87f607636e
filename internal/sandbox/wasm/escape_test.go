package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
)

// TestEscape is the list of all sandboxes; TestWays and TestBombs are what programs, not processes, may try.
func TestEscape(t *testing.T) {
	b := backend(t)
	warm(t, b)
	sandboxtest.Escape(t, b, nature()...)
}

// surroundings is a workspace with a secret beside it, and links to that in it.
type surroundings struct{ base, workspace, secret string }

func surround(t *testing.T) surroundings {
	t.Helper()
	base := t.TempDir()
	s := surroundings{base, filepath.Join(base, "ws"), filepath.Join(base, "outside", "secret")}
	for _, dir := range []string{filepath.Join(s.workspace, "in", "ner"), filepath.Join(s.workspace, "d"), filepath.Dir(s.secret)} {
		must(t, os.MkdirAll(dir, 0o755))
	}
	must(t, os.WriteFile(s.secret, []byte("the secret outside"), 0o644))
	must(t, os.WriteFile(filepath.Dir(s.secret)+"/doomed", []byte("x"), 0o644))
	must(t, os.WriteFile(s.workspace+"/d/secret", []byte("inside"), 0o644))
	for name, to := range map[string]string{"abs": filepath.Dir(s.secret), "rel": "../outside", "file": "../outside/secret",
		"l": filepath.Dir(s.secret), "up": "..", "top": "/", "chain": "rel", "loop": "loop", "proc": "/proc/self/root"} {
		must(t, os.Symlink(to, filepath.Join(s.workspace, name)))
	}
	return s
}

// untouched checks that nothing outside was changed or added.
func (s surroundings) untouched(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile(s.secret)
	list, lerr := os.ReadDir(filepath.Dir(s.secret))
	if err != nil || lerr != nil || string(data) != "the secret outside" || len(list) != 2 {
		t.Errorf("outside: %q, %v, %d entries, %v", data, err, len(list), lerr)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ways are arguments of the hostile program. They name what is outside by paths of the tree, whose root is "/".
func (s surroundings) ways() map[string][]string {
	ws := strings.TrimPrefix(s.workspace, "/")
	up := strings.Repeat("../", strings.Count(s.workspace, "/"))
	out := strings.TrimPrefix(s.secret, "/")
	return map[string][]string{
		"absolute path":                 {"open", s.secret, "//" + out, out, "./" + out, "/etc/passwd", "etc/passwd"},
		"parent directories":            {"open", ws + "/../outside/secret", ws + "/in/../../outside/secret", "../" + out, ws + "/in/ner/../../../outside/secret", up + out},
		"link to an absolute path":      {"open", ws + "/abs/secret", ws + "/abs", ws + "/top/etc/passwd", ws + "/abs/new"},
		"link to a relative path":       {"open", ws + "/rel/secret", ws + "/file", ws + "/up/outside/secret", ws + "/rel/new"},
		"links to links":                {"open", ws + "/chain/secret", ws + "/loop", ws + "/loop/x", ws + "/in/../chain/secret"},
		"from an open directory":        {"openat", "in/ner", "../../../outside/secret", "../../rel/secret", s.secret, "/" + out, "../../../../../../../../etc/passwd"},
		"a NUL in a path":               {"nul", ws + "/d/secret", out},
		"the list of processes":         {"open", "proc/self/environ", "proc/1/root", ws + "/proc", ws + "/proc/etc/passwd", "dev/mem", "dev/kmsg", "sys/kernel", "dev/../" + out},
		"sockets":                       {"sockets"},
		"descriptors moved over others": {"renumber"},
		"memory outside of its own":     {"host"},
	}
}

func TestWays(t *testing.T) {
	t.Parallel()
	b := backend(t, hostile)
	for name, args := range surround(t).ways() {
		t.Run("SBX-18 "+name, func(t *testing.T) {
			t.Parallel()
			s := surround(t)
			out, exit, err := said(t, open(t, b, sandbox.Config{Workspace: s.workspace}), append([]string{"hostile"}, s.ways()[name]...)...)
			if err != nil || exit.Code != 0 || strings.Contains(out, "ESCAPED") {
				t.Errorf("%s: got %q, %+v, %v", args[0], out, exit, err)
			}
			s.untouched(t)
		})
	}
	t.Run("SBX-18 a link that comes and goes while files are read and written", func(t *testing.T) {
		t.Parallel()
		s := surround(t)
		sb := open(t, b, sandbox.Config{Workspace: s.workspace})
		ctx, cancel := context.WithCancel(t.Context())
		var swapping sync.WaitGroup
		swapping.Go(func() {
			if _, err := sb.Exec(ctx, sandbox.Cmd{Args: []string{"hostile", "swap"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("the swapping: got %v", err)
			}
		})
		out, _, err := said(t, sb, "hostile", "read", "1500")
		cancel()
		swapping.Wait()
		if err != nil || strings.Contains(out, "ESCAPED") || !strings.Contains(out, "read 1500") {
			t.Errorf("got %q, %v", out, err)
		}
		s.untouched(t)
	})
	t.Run("SBX-18 a pipe, a socket and a device of the workspace are not opened", func(t *testing.T) {
		t.Parallel()
		s := surround(t)
		must(t, syscall.Mkfifo(s.workspace+"/pipe", 0o600))
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		must(t, err)
		defer func() { _ = syscall.Close(fd) }()
		must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: shortened(t, s.workspace) + "/sock"}))
		ws := strings.TrimPrefix(s.workspace, "/")
		out, exit, err := said(t, open(t, b, sandbox.Config{Workspace: s.workspace}), "hostile", "open", ws+"/pipe", ws+"/sock")
		if err != nil || exit.Code != 0 || out != "" {
			t.Errorf("got %q, %+v, %v", out, exit, err)
		}
	})
}

// shortened is a link to a directory whose path fits into the name of a socket.
func shortened(t *testing.T, dir string) string {
	t.Helper()
	base, err := os.MkdirTemp("", "s")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(base)) })
	must(t, os.Symlink(dir, base+"/l"))
	return base + "/l"
}

// TestTrap shows that the ways of TestWays lead somewhere: with the engine's own directories they get out.
func TestTrap(t *testing.T) {
	t.Parallel()
	t.Run("SBX-18 the engine's own mounts let links out, so ours has to hold them", func(t *testing.T) {
		t.Parallel()
		s := surround(t)
		ctx := t.Context()
		r := wazero.NewRuntime(ctx)
		defer func() { must(t, r.Close(context.Background())) }()
		_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
		must(t, err)
		_, err = r.NewHostModuleBuilder("inspan").
			NewFunctionBuilder().WithFunc(func(_, _ uint32) int32 { return -1 }).Export("run").
			NewFunctionBuilder().WithFunc(func(_, _ uint32) int32 { return -1 }).Export("mode").
			NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export("answer").Instantiate(ctx)
		must(t, err)
		data, err := os.ReadFile(filepath.Join(hostile, "hostile.wasm"))
		must(t, err)
		var out bytes.Buffer
		cfg := wazero.NewModuleConfig().WithArgs("hostile", "open", "rel/secret").WithStdout(&out).
			WithFSConfig(wazero.NewFSConfig().WithDirMount(s.workspace, "/"))
		if _, err := r.InstantiateWithConfig(ctx, data, cfg); err != nil && !strings.Contains(err.Error(), "exit_code(0)") {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "the secret outside") {
			t.Errorf("got %q: the trap is gone, and TestWays proves less than it did", out.String())
		}
	})
}

// bomb uses something up.
type bomb struct {
	args   []string
	limits sandbox.Limits
	// within is how long it may run; 0 for as long as it likes. want is the error, nil for none.
	within time.Duration
	want   error
	check  func(t *testing.T, workspace, out string, exit sandbox.Exit)
}

func bombs() map[string]bomb {
	dead := func(t *testing.T, _, out string, exit sandbox.Exit) {
		if exit.Code == 0 || strings.Contains(out, "ESCAPED") {
			t.Errorf("got %q, %+v", out, exit)
		}
	}
	small := func(t *testing.T, workspace, out string, _ sandbox.Exit) {
		var total int64
		must(t, filepath.Walk(workspace, func(_ string, info os.FileInfo, err error) error {
			if info != nil {
				total += info.Size()
			}
			return err
		}))
		if total > 9<<20 || strings.Contains(out, "ESCAPED") {
			t.Errorf("%d bytes in the workspace, the limit is 8 MiB; it said %q", total, out)
		}
	}
	disk := sandbox.Limits{Disk: 8 << 20}
	return map[string]bomb{
		"an endless loop":         {args: []string{"loop"}, within: 100 * time.Millisecond, want: context.DeadlineExceeded},
		"an endless sleep":        {args: []string{"sleep"}, within: 100 * time.Millisecond, want: context.DeadlineExceeded},
		"threads of its own":      {args: []string{"threads"}, within: 100 * time.Millisecond, want: context.DeadlineExceeded},
		"a flood of output":       {args: []string{"spew"}, within: 100 * time.Millisecond, want: context.DeadlineExceeded},
		"endless recursion":       {args: []string{"recurse"}, limits: sandbox.Limits{Memory: 32 << 20}, check: dead},
		"memory":                  {args: []string{"alloc"}, limits: sandbox.Limits{Memory: 64 << 20}, check: dead},
		"one large file":          {args: []string{"grow"}, limits: disk, want: sandbox.ErrDisk, check: small},
		"a file with a hole":      {args: []string{"sparse"}, limits: disk, want: sandbox.ErrDisk, check: small},
		"a flood of files":        {args: []string{"files"}, limits: disk, want: sandbox.ErrDisk, check: small},
		"a flood of directories":  {args: []string{"dirs"}, limits: disk, want: sandbox.ErrDisk, check: small},
		"the life of the sandbox": {args: []string{"loop"}, limits: sandbox.Limits{Wall: 100 * time.Millisecond}, want: sandbox.ErrLifetime},
		"open files": {args: []string{"descriptors"}, check: func(t *testing.T, _, out string, _ sandbox.Exit) {
			n := 0
			if _, err := fmt.Sscanf(out, "open %d", &n); err != nil || n < 10 || n > 6000 {
				t.Errorf("got %q, %v", out, err)
			}
		}},
		"programs that run programs": {args: []string{"chain"}, check: func(t *testing.T, _, out string, exit sandbox.Exit) {
			if out != "+++++" || exit.Code != 0 {
				t.Errorf("got %q, %+v, want five, of which the last could run none", out, exit)
			}
		}},
	}
}

func TestBombs(t *testing.T) {
	t.Parallel()
	b := backend(t, hostile)
	for name, c := range bombs() {
		t.Run("SBX-12 SBX-15 "+name, func(t *testing.T) {
			t.Parallel()
			sb := open(t, b, sandbox.Config{Limits: c.limits})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if c.within > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), c.within)
				defer cancel()
			}
			out := &few{}
			exit, err := sb.Exec(ctx, sandbox.Cmd{Args: append([]string{"hostile"}, c.args...), Stdout: out, Stderr: out})
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %+v, %v, want %v", exit, err, c.want)
			}
			if c.check != nil && (c.want == nil || err != nil) {
				c.check(t, sb.Workspace(), out.String(), exit)
			}
			if list, err := sb.Processes(t.Context()); err != nil || len(list) > 0 {
				t.Errorf("left: %v, %v", list, err)
			}
			if text, _, err := said(t, sb, "echo", "alive"); c.limits.Wall == 0 && (err != nil || text != "alive\n") {
				t.Errorf("afterwards: got %q, %v", text, err)
			}
		})
	}
}

// few keeps the beginning of what is written.
type few struct{ bytes.Buffer }

func (f *few) Write(p []byte) (int, error) {
	if f.Len() < 64<<10 {
		f.Buffer.Write(p[:min(len(p), 4096)])
	}
	return len(p), nil
}
