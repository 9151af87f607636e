package sandboxtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
)

func examExec(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	t.Run("stdout and stderr are apart and the exit code is told", func(t *testing.T) {
		out, errs, exit := p.sh(t, "echo said; echo cried >&2; exit 7")
		if out != "said\n" || errs != "cried\n" || exit.Code != 7 || exit.Signal != "" {
			t.Errorf("got %q, %q, %+v", out, errs, exit)
		}
		if exit.Wall <= 0 {
			t.Errorf("wall time: got %v", exit.Wall)
		}
	})
	t.Run("a signal is told", func(t *testing.T) {
		wants(t, b, Signals)
		if _, _, exit := p.sh(t, "kill -TERM $$"); exit.Signal != "SIGTERM" || exit.Code != 143 {
			t.Errorf("got %+v, want SIGTERM and 143", exit)
		}
	})
	t.Run("one writer for both streams keeps their order", func(t *testing.T) {
		var both safe
		script := "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
		_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &both, Stderr: &both})
		want := "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\nout 4\nerr 4\nout 5\nerr 5\n"
		if err != nil || both.String() != want {
			t.Errorf("got %q, %v", both.String(), err)
		}
	})
	t.Run("stdin reaches the command and nil is empty", func(t *testing.T) {
		var out safe
		in := strings.Repeat("0123456789", 100_000)
		_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"cat"}, Stdin: strings.NewReader(in), Stdout: &out})
		if err != nil || out.String() != in {
			t.Errorf("got %d bytes, %v, want %d", len(out.String()), err, len(in))
		}
		if got, _, exit := p.sh(t, "cat; echo end"); got != "end\n" || exit.Code != 0 {
			t.Errorf("without stdin: got %q, %+v", got, exit)
		}
	})
	t.Run("a command that does not read its stdin ends", func(t *testing.T) {
		in := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)))
		if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}, Stdin: in}); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-1 output comes while the command runs", func(t *testing.T) { streams(t, p) })
	t.Run("a failed Write does not hang the command", func(t *testing.T) {
		exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"head", "-c", "1000000", "/dev/zero"},
			Stdout: broken{}})
		if err != nil || exit.Code != 0 {
			t.Errorf("got %+v, %v", exit, err)
		}
	})
	t.Run("directory", func(t *testing.T) { directory(t, p) })
	t.Run("what cannot start is an error", func(t *testing.T) {
		for _, args := range [][]string{nil, {""}, {"no-such-program-here"}, {"/no/such/program"}, {"./nor-this"}} {
			if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: args}); err == nil {
				t.Errorf("args %q: got no error", args)
			}
		}
	})
	t.Run("many at once", func(t *testing.T) { concurrent(t, p) })
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no one listens") }

// streams answers only after it has received: without streaming both sides would wait for ever.
func streams(t *testing.T, p workdir) {
	question := listener("question")
	answer, say := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{
			Args: []string{"sh", "-c", `echo question; read a; test "$a" = answer`}, Stdin: answer, Stdout: question})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("exit code %d", exit.Code)
		}
		ended <- err
	}()
	select {
	case <-question.received:
		_, err := io.WriteString(say, "answer\n")
		must(t, err)
		must(t, say.Close())
		must(t, <-ended)
	case err := <-ended:
		t.Fatalf("ended before it was answered: %v", err)
	}
}

func directory(t *testing.T, p workdir) {
	must(t, os.MkdirAll(filepath.Join(p.workspace, "deep/er"), 0o755))
	must(t, os.Symlink(p.outside, filepath.Join(p.workspace, "leak")))
	must(t, os.WriteFile(filepath.Join(p.workspace, "file"), nil, 0o644))
	root := p.inside()
	if root == p.workspace {
		real, err := filepath.EvalSymlinks(root)
		must(t, err)
		root = real
	}
	for dir, want := range map[string]string{"": root, ".": root, "deep/er": root + "/deep/er", "deep/..": root} {
		var out safe
		_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", "pwd -P"}, Dir: dir, Stdout: &out})
		if got := strings.TrimSpace(out.String()); err != nil || got != want {
			t.Errorf("dir %q: got %q, %v, want %q", dir, got, err, want)
		}
	}
	for _, dir := range []string{"..", "deep/../..", "/", p.outside, "leak", "leak/../.."} {
		if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}, Dir: dir}); !errors.Is(err,
			sandbox.ErrOutside) {
			t.Errorf("dir %q: got %v, want ErrOutside", dir, err)
		}
	}
	for _, dir := range []string{"missing", "file"} {
		if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}, Dir: dir}); err == nil {
			t.Errorf("dir %q: got no error", dir)
		}
	}
}

func concurrent(t *testing.T, p workdir) {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			var out safe
			want := strings.Repeat(fmt.Sprintf("%d\n", i), 50)
			script := fmt.Sprintf("for n in $(seq 50); do echo %d; done", i)
			exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out})
			if err != nil || exit.Code != 0 || out.String() != want {
				t.Errorf("command %d: got %q, %+v, %v", i, out.String(), exit, err)
			}
		})
	}
	all.Wait()
}

func bigOutput(t *testing.T, b sandbox.Backend) {
	const size, most = 100_000_000, 20_000_000
	p := open(t, b)
	var before, after runtime.MemStats
	var out counter
	runtime.ReadMemStats(&before)
	exit, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"},
		Stdout: &out})
	runtime.ReadMemStats(&after)
	if err != nil || exit.Code != 0 || out.n != size {
		t.Fatalf("got %d bytes, %+v, %v, want %d", out.n, exit, err, size)
	}
	if grew := after.TotalAlloc - before.TotalAlloc; grew > most {
		t.Errorf("allocated %d bytes to pass on %d, at most %d", grew, size, most)
	}
}

func examEnvironment(t *testing.T, b sandbox.Backend) {
	p := open(t, b)
	t.Run("TOOL-17 only the fixed small environment", func(t *testing.T) {
		var out safe
		_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"env"}, Stdout: &out})
		must(t, err)
		// The GIT ones are set where the machine's configuration of git is for its own user alone.
		allowed := []string{"PATH", "HOME", "LANG", "TMPDIR", "TERM", "PWD", "INSPAN_SANDBOX_ID", "GIT_CONFIG_NOSYSTEM",
			"GIT_ATTR_NOSYSTEM"}
		seen := map[string]string{}
		for line := range strings.Lines(out.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			seen[name] = value
			if !slices.Contains(allowed, name) {
				t.Errorf("the command sees %s", name)
			}
		}
		for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR"} {
			if seen[name] == "" {
				t.Errorf("%s is missing", name)
			}
		}
		if home, ok := os.LookupEnv("HOME"); ok && seen["HOME"] == home {
			t.Errorf("HOME is the service's own: %s", home)
		}
	})
	t.Run("HOME and TMPDIR can be written, are empty at first and last", func(t *testing.T) {
		if out, errs, _ := p.sh(t, `ls -A "$HOME" "$TMPDIR" | grep -v : ; echo kept > "$TMPDIR/k"; echo kept > "$HOME/k"`); strings.TrimSpace(out) != "" || errs != "" {
			t.Errorf("at first: got %q, %q", out, errs)
		}
		if out, _, _ := p.sh(t, `cat "$TMPDIR/k" "$HOME/k"`); out != "kept\nkept\n" {
			t.Errorf("later: got %q", out)
		}
	})
	t.Run("environment of the command", func(t *testing.T) {
		var out safe
		_, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", `echo "$GIVEN|$LANG"`},
			Env: []string{"GIVEN=a b=c", "LANG=C"}, Stdout: &out})
		if err != nil || out.String() != "a b=c|C\n" {
			t.Errorf("got %q, %v", out.String(), err)
		}
		for _, bad := range []string{"NOVALUE", "=x", "A=\x00", "INSPAN_SANDBOX_ID=forged"} {
			if _, err := p.sandbox.Exec(within(t), sandbox.Cmd{Args: []string{"true"}, Env: []string{bad}}); err == nil {
				t.Errorf("entry %q: got no error", bad)
			}
		}
	})
	t.Run("no descriptor of the service is passed on", func(t *testing.T) {
		wants(t, b, Processes)
		if runtime.GOOS != "linux" {
			t.Skipf("NOT TESTED: descriptors are counted through /proc, this is %s", runtime.GOOS)
		}
		// 3 is the one through which the shell itself reads the directory.
		if out, _, _ := p.sh(t, "for f in /proc/$$/fd/*; do basename $f; done"); strings.TrimSuffix(out,
			"3\n") != "0\n1\n2\n" {
			t.Errorf("got %q, want 0, 1, 2", out)
		}
	})
}

func examConfig(t *testing.T, b sandbox.Backend) {
	good := sandbox.Config{ID: "config", Workspace: t.TempDir(), Network: true}
	for name, spoil := range map[string]func(c *sandbox.Config){
		"no id":              func(c *sandbox.Config) { c.ID = "" },
		"relative workspace": func(c *sandbox.Config) { c.Workspace = "ws" },
		"missing workspace":  func(c *sandbox.Config) { c.Workspace += "/missing" },
		"root workspace":     func(c *sandbox.Config) { c.Workspace = "/" },
		"root writable":      func(c *sandbox.Config) { c.Writable = []string{"/"} },
		"relative read-only": func(c *sandbox.Config) { c.ReadOnly = []string{"usr"} },
		"bad environment":    func(c *sandbox.Config) { c.Env = []string{"NOVALUE"} },
	} {
		c := good
		spoil(&c)
		if sb, err := b.Open(t.Context(), c); err == nil {
			t.Errorf("%s: got no error", name)
			must(t, sb.Destroy(t.Context()))
		}
	}
	if away(b) {
		t.Run("SBX-20 paths of this machine are refused where commands run on another", func(t *testing.T) {
			for _, spoil := range []func(c *sandbox.Config){
				func(c *sandbox.Config) { c.ReadOnly = []string{t.TempDir()} },
				func(c *sandbox.Config) { c.Writable = []string{t.TempDir()} },
			} {
				c := good
				spoil(&c)
				if _, err := b.Open(t.Context(), c); !errors.Is(err, sandbox.ErrNotEnforced) {
					t.Errorf("got %v, want ErrNotEnforced", err)
				}
			}
		})
		return
	}
	t.Run("ReadOnly and Writable are shown", func(t *testing.T) {
		c := good
		read, write := t.TempDir(), t.TempDir()
		c.ReadOnly, c.Writable, c.Env = []string{read}, []string{write}, []string{"GIVEN=config"}
		must(t, os.WriteFile(read+"/f", []byte("shown\n"), 0o644))
		sb, err := b.Open(t.Context(), c)
		must(t, err)
		defer func() { must(t, sb.Destroy(t.Context())) }()
		var out safe
		script := fmt.Sprintf(`cat %s/f && echo written > %s/g && echo $GIVEN`, read, write)
		exit, err := sb.Exec(within(t), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
		if err != nil || exit.Code != 0 || out.String() != "shown\nconfig\n" {
			t.Errorf("got %q, %+v, %v", out.String(), exit, err)
		}
		if data, err := os.ReadFile(write + "/g"); err != nil || string(data) != "written\n" {
			t.Errorf("writable: got %q, %v", data, err)
		}
		if sb.ID() != "config" || sb.Mode() != b.Mode() || sb.Workspace() != c.Workspace {
			t.Errorf("got %s, %s, %s", sb.ID(), sb.Mode(), sb.Workspace())
		}
	})
}
