package mirror_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/mirror"
	"github.com/inspan/inspan/internal/sandbox/mirror/mirrortest"
)

// far is a machine whose ways the test can break.
type far struct {
	*mirrortest.Machine
	mu   sync.Mutex
	puts int
	// put and get, where set, take the place of the machine's own; guarded by mu.
	put func(path string, body io.Reader) error
	get func(r io.ReadCloser) io.ReadCloser
}

func (f *far) Put(ctx context.Context, path string, body io.Reader) error {
	f.mu.Lock()
	put := f.put
	f.puts++
	f.mu.Unlock()
	if put != nil {
		return put(path, body)
	}
	return f.Machine.Put(ctx, path, body)
}

func (f *far) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := f.Machine.Get(ctx, path)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.get != nil && err == nil {
		r = f.get(r)
	}
	return r, err
}

func (f *far) set(change func(*far)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func open(t *testing.T, cfg sandbox.Config) (*mirror.Sandbox, *far) {
	t.Helper()
	m, err := mirrortest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &far{Machine: m}
	cfg.ID = "mirror"
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	sb, err := mirror.OpenSandbox(t.Context(), cfg, sandbox.E2B, "", func(context.Context, string) (mirror.Remote, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb, f
}

// sh runs a script and returns what it says.
func sh(t *testing.T, sb *mirror.Sandbox, script string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err == nil && exit.Code != 0 {
		t.Errorf("%q: exit code %d: %q", script, exit.Code, out.String())
	}
	return out.String(), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shape is a tree as text: names with their kind, mode and content.
func shape(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			b.WriteString(rel + "/ " + info.Mode().Perm().String() + "\n")
		case d.Type() == fs.ModeSymlink:
			link, _ := os.Readlink(path)
			b.WriteString(rel + " -> " + link + "\n")
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.WriteString(rel + " " + info.Mode().Perm().String() + " " + info.ModTime().UTC().Format(time.RFC3339Nano) + " " + string(data) + "\n")
		default:
			b.WriteString(rel + " " + d.Type().String() + "\n")
		}
		return nil
	}))
	return b.String()
}

func TestTrees(t *testing.T) {
	t.Parallel()
	t.Run("SBX-5 what was in the workspace is there, with modes, times, links and odd names", func(t *testing.T) {
		t.Parallel()
		sb, f := open(t, sandbox.Config{})
		ws := sb.Workspace()
		must(t, os.MkdirAll(ws+"/deep/er", 0o750))
		for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "deep/er/secret": 0o600, "-rf": 0o644, "new\nline": 0o644, "späce \\ \"q\"": 0o644, "empty": 0o644, strings.Repeat("l", 200): 0o640} {
			must(t, os.WriteFile(filepath.Join(ws, name), []byte("of "+name), mode))
			must(t, os.Chmod(filepath.Join(ws, name), mode))
		}
		for link, to := range map[string]string{"in": "deep/er", "out": "/etc/passwd", "up": "../..", "nowhere": "gone", "deep/back": "../run.sh"} {
			must(t, os.Symlink(to, filepath.Join(ws, link)))
		}
		if _, err := sh(t, sb, "true"); err != nil {
			t.Fatal(err)
		}
		if got, want := shape(t, sb.Inside()), shape(t, ws); got != want || !strings.Contains(got, "out -> /etc/passwd") {
			t.Errorf("there:\n%s\nhere:\n%s", got, want)
		}
		puts := f.puts
		if _, err := sh(t, sb, "true"); err != nil || f.puts != puts {
			t.Errorf("nothing changed, and %d files were sent: %v", f.puts-puts, err)
		}
	})
	t.Run("SBX-18 what commands change is here when they have ended", func(t *testing.T) {
		t.Parallel()
		sb, _ := open(t, sandbox.Config{})
		for _, name := range []string{"changed", "removed", "d/inner", "touched", "file-to-dir", "dir-to-file/x", "moved"} {
			must(t, sb.WriteFile(name, []byte("old")))
		}
		if _, err := sh(t, sb, `echo new > changed; rm removed; rm -r d; chmod 700 touched; mkdir -m 750 made; echo x > "made/a
b"; ln -s ../changed made/l; ln changed hard; rm file-to-dir; mkdir file-to-dir; echo in > file-to-dir/y; rm -r dir-to-file; echo f > dir-to-file; mv moved made/moved; mkfifo pipe; umask 777; echo closed > closed`); err != nil {
			t.Fatal(err)
		}
		here := shape(t, sb.Workspace())
		must(t, os.Remove(sb.Inside()+"/pipe"))
		must(t, os.Chmod(sb.Inside()+"/closed", 0o600))
		if there := shape(t, sb.Inside()); here != there || !strings.Contains(here, "file-to-dir/y") {
			t.Errorf("here:\n%s\nthere:\n%s", here, there)
		}
	})
	t.Run("SBX-18 where both sides change a file at once, the one of this machine stays and is sent", func(t *testing.T) {
		t.Parallel()
		sb, _ := open(t, sandbox.Config{})
		must(t, sb.WriteFile("both", []byte("old")))
		must(t, sb.WriteFile("kept", []byte("old")))
		ready := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			_, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo there > both; rm kept; echo ready; while ! test -e go; do sleep 0.05; done"}, Stdout: once(ready)})
			ended <- err
		}()
		<-ready
		must(t, sb.WriteFile("both", []byte("here")))
		must(t, sb.WriteFile("kept", []byte("here")))
		must(t, os.WriteFile(sb.Inside()+"/go", nil, 0o600))
		must(t, <-ended)
		if data, err := sb.ReadFile("both"); err != nil || string(data) != "here" {
			t.Errorf("got %q, %v", data, err)
		}
		if out, err := sh(t, sb, "cat both kept"); err != nil || out != "herehere" {
			t.Errorf("there: got %q, %v", out, err)
		}
	})
	t.Run("SBX-14 what is denied is neither sent nor brought back nor removed", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		must(t, os.MkdirAll(ws+"/keys", 0o755))
		must(t, os.WriteFile(ws+"/keys/k", []byte("secret"), 0o600))
		must(t, os.WriteFile(ws+"/.env", []byte("secret"), 0o600))
		must(t, os.Symlink("keys", ws+"/way"))
		sb, _ := open(t, sandbox.Config{Workspace: ws, Denied: []string{ws + "/way/k", ws + "/.env", "/etc/shadow"}})
		out, err := sh(t, sb, `cat keys/k .env way/k 2>/dev/null; mkdir -p keys; echo forged > keys/k; echo forged > .env; ls -A`)
		if err != nil || strings.Contains(out, "secret") {
			t.Errorf("got %q, %v", out, err)
		}
		if _, err := sh(t, sb, `rm -rf keys .env`); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"keys/k", ".env"} {
			if data, err := os.ReadFile(filepath.Join(ws, name)); err != nil || string(data) != "secret" {
				t.Errorf("%s: got %q, %v", name, data, err)
			}
		}
	})
}

// once closes a channel at the first Write.
func once(c chan struct{}) io.Writer { return &closer{c: c} }

type closer struct {
	c    chan struct{}
	once sync.Once
}

func (c *closer) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.c) })
	return len(p), nil
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	lost := errors.New("the line was lost")
	t.Run("SBX-20 where the workspace cannot be sent nothing starts, and the next command has it", func(t *testing.T) {
		t.Parallel()
		sb, f := open(t, sandbox.Config{})
		must(t, sb.WriteFile("data", bytes.Repeat([]byte("x"), 1<<20)))
		f.set(func(f *far) {
			f.put = func(path string, body io.Reader) error {
				part := io.LimitReader(body, 100_000)
				return errors.Join(f.Machine.Put(t.Context(), path, part), lost)
			}
		})
		if _, err := sh(t, sb, "echo x > started"); !errors.Is(err, lost) || !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("got %v", err)
		}
		f.set(func(f *far) { f.put = nil })
		if out, err := sh(t, sb, "wc -c < data; ls"); err != nil || strings.TrimSpace(out) != "1048576\ndata" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("ART-13 an archive cut anywhere leaves whole files only", func(t *testing.T) {
		t.Parallel()
		for _, at := range []int64{0, 1, 511, 512, 3000, 70_000, 140_000} {
			sb, f := open(t, sandbox.Config{})
			must(t, sb.WriteFile("a", []byte("old")))
			must(t, sb.WriteFile("b", []byte("old")))
			f.set(func(f *far) {
				f.get = func(r io.ReadCloser) io.ReadCloser {
					return struct {
						io.Reader
						io.Closer
					}{io.MultiReader(io.LimitReader(r, at), broken{lost}), r}
				}
			})
			if _, err := sh(t, sb, "for f in a b; do head -c 100000 /dev/zero > $f; done"); !errors.Is(err, mirror.ErrBehind) || !errors.Is(err, lost) {
				t.Errorf("cut at %d: got %v, want ErrBehind", at, err)
			}
			list, err := os.ReadDir(sb.Workspace())
			if err != nil || len(list) != 2 {
				t.Errorf("cut at %d: %v, %v", at, list, err)
			}
			for _, name := range []string{"a", "b"} {
				if data, err := sb.ReadFile(name); err != nil || string(data) != "old" && len(data) != 100_000 {
					t.Errorf("cut at %d: %s has %d bytes, %v", at, name, len(data), err)
				}
			}
			f.set(func(f *far) { f.get = nil })
			if _, err := sh(t, sb, "true"); err != nil {
				t.Error(err)
			}
			if data, err := sb.ReadFile("b"); err != nil || len(data) != 100_000 {
				t.Errorf("cut at %d: afterwards %d bytes, %v", at, len(data), err)
			}
		}
	})
	t.Run("ART-13 files that do not come are told", func(t *testing.T) {
		t.Parallel()
		sb, f := open(t, sandbox.Config{})
		f.set(func(f *far) {
			f.get = func(r io.ReadCloser) io.ReadCloser {
				return struct {
					io.Reader
					io.Closer
				}{bytes.NewReader(make([]byte, 1024)), r}
			}
		})
		if _, err := sh(t, sb, "echo x > made"); !errors.Is(err, mirror.ErrBehind) {
			t.Errorf("got %v, want ErrBehind", err)
		}
		f.set(func(f *far) { f.get = nil })
		if _, err := sh(t, sb, "true"); err != nil {
			t.Error(err)
		}
		if data, err := sb.ReadFile("made"); err != nil || string(data) != "x\n" {
			t.Errorf("got %q, %v", data, err)
		}
	})
	t.Run("SBX-15 Destroy brings back what a command had done", func(t *testing.T) {
		t.Parallel()
		sb, f := open(t, sandbox.Config{})
		ready := make(chan struct{})
		proc, err := sb.Start(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo made > made; echo ready; sleep 613"}, Stdout: once(ready)})
		must(t, err)
		<-ready
		must(t, sb.Destroy(t.Context()))
		if _, err := proc.Wait(); !errors.Is(err, sandbox.ErrDestroyed) {
			t.Errorf("got %v", err)
		}
		if data, err := os.ReadFile(sb.Workspace() + "/made"); err != nil || string(data) != "made\n" {
			t.Errorf("got %q, %v", data, err)
		}
		if _, err := os.Stat(f.Home); err == nil {
			t.Error("the machine is still there")
		}
	})
	t.Run("SBX-20 a machine without what is needed is told with its name, and ended", func(t *testing.T) {
		t.Parallel()
		m, err := mirrortest.New(t.TempDir())
		must(t, err)
		_, err = mirror.OpenSandbox(t.Context(), sandbox.Config{ID: "bare", Workspace: t.TempDir()}, sandbox.E2B, "", func(context.Context, string) (mirror.Remote, error) {
			return bare{m}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "tar") || !strings.Contains(err.Error(), "awk") {
			t.Errorf("got %v, want what is missing", err)
		}
		if _, err := os.Stat(m.Home); err == nil {
			t.Error("the machine is still there")
		}
	})
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// bare is a machine that has no programs but its shell.
type bare struct{ *mirrortest.Machine }

func (b bare) Run(ctx context.Context, p mirror.Program) error {
	p.Args = append([]string{"/bin/sh", "-c", `PATH=/nowhere; export PATH; exec "$@"`, "sh"}, p.Args...)
	return b.Machine.Run(ctx, p)
}

// TestNames has commands leave processes whose names look like the lines that the other machine is searched with.
func TestNames(t *testing.T) {
	t.Parallel()
	sb, _ := open(t, sandbox.Config{})
	for _, name := range []string{"x) Z 1 1", "x\n1 (y", "\n1 (y) Z 1 1 1", "x) S\n", "\xff)\xfe", " ", "))))"} {
		script := `mkfifo never; sh -c 'printf %s "$1" > /proc/$$/comm; echo $$ > named; read x < never' sh "$1" > said 2>&1 &
while ! test -s named; do sleep 0.01; done; cat named; rm never named`
		var out bytes.Buffer
		exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script, "sh", name}, Stdout: &out})
		if err != nil || exit.Code != 0 {
			t.Fatalf("%q: got %+v, %v", name, exit, err)
		}
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(out.String()) + "/stat")
		if left := string(stat[bytes.LastIndexByte(stat, ')')+1:]); err == nil && !strings.HasPrefix(left, " Z") {
			t.Errorf("TOOL-22 %q outlives its command: %q", name, stat)
		}
	}
}
