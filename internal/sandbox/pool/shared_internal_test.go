package pool

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/gocache"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/workspace/workdir"
)

func TestMain(m *testing.M) {
	if _, asked := gocache.Main(os.Args); asked {
		return
	}
	m.Run()
}

// compiled is a workspace with a module of one file and its test.
func compiled(t *testing.T, root, name string) workdir.Dir {
	t.Helper()
	for file, text := range map[string]string{"go.mod": "module m\n", "m.go": "package m\n\nconst One = 1\n", "m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One != 1 {\n\t\tt.Fatal(One)\n\t}\n}\n"} {
		at := filepath.Join(root, name, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return workdir.Dir{Workspace: name, Path: name}
}

// names lists all files of a directory with their sizes and times.
func names(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		b.WriteString(path + info.ModTime().String() + info.Mode().String() + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSharedCache(t *testing.T) {
	t.Parallel()
	b := bwrap.New("", "")
	sandboxtest.Need(t, b)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	env, readOnly := goHere(t)
	shared := &Shared{Dir: filepath.Join(root, "shared"), Program: self}
	at, err := shared.place(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	o, err := NewOpener(Config{Root: filepath.Join(root, "work"), Cache: filepath.Join(root, "cache"), Default: sandbox.Bwrap, Env: env, ReadOnly: readOnly, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Bwrap: b}, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	exec := func(t *testing.T, dir workdir.Dir, script string) (string, int) { return execIn(t, o, dir, script) }
	shared.filling.Store(at, true) // no fill of its own in this test
	if err := os.WriteFile(filepath.Join(at, doneFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	first := compiled(t, filepath.Join(root, "work"), "run/first")
	if out, code := exec(t, first, "go version && ls "+at+"/"+doneFile+" && echo $GOCACHEPROG"); code != 0 || !strings.Contains(out, gocache.Word) {
		t.Fatalf("got %d, %s", code, out)
	}
	before := names(t, at)
	t.Run("a command cannot change what other runs read of the shared cache, whatever it tries", func(t *testing.T) {
		for _, script := range []string{"echo evil > " + at + "/x", "rm " + at + "/" + doneFile, "chmod 777 " + at, "mv " + at + " " + at + ".old",
			"ln " + at + "/" + doneFile + " hard && echo evil >> hard", "touch " + at + "/" + doneFile, "echo evil >> " + self} {
			if out, code := exec(t, first, script); code == 0 {
				t.Errorf("%s went through: %s", script, out)
			}
		}
		if now := names(t, at); now != before {
			t.Errorf("the shared cache was changed:\n%s", now)
		}
	})
	t.Run("another run finds nothing of the cache of the first", func(t *testing.T) {
		second := compiled(t, filepath.Join(root, "work"), "run/second")
		if out, code := exec(t, second, "ls "+filepath.Join(root, "cache/run/first")); code == 0 {
			t.Errorf("got %s", out)
		}
	})
}

// execIn carries out a script in a sandbox of its own.
func execIn(t *testing.T, o *Opener, dir workdir.Dir, script string) (string, int) {
	t.Helper()
	sb, err := o.Open(t.Context(), Request{Run: "r", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sb.Destroy(context.Background()) }()
	var out bytes.Buffer
	exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), exit.Code
}

// goHere is the environment and what is shown for the go command of this machine.
func goHere(t *testing.T) (env, readOnly []string) {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "go")); err == nil {
			bin := filepath.Dir(real)
			return []string{"PATH=" + bin + ":/usr/bin:/bin", "GOTOOLCHAIN=local", "CGO_ENABLED=0"}, []string{filepath.Dir(bin)}
		}
	}
	t.Fatal("no go command")
	return nil, nil
}
