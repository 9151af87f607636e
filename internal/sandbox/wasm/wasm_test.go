package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/sandbox/wasm"
	"github.com/inspan/inspan/internal/wasmbox/wasmboxtest"
)

// toolbox and hostile are where TestMain built programs, made where the engine keeps what it compiled.
var toolbox, hostile, made string

// TestMain builds the toolbox and the hostile program once; the engine compiles each once, where they are not as they were
// in an earlier test program.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wasm-test-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	toolbox, hostile = filepath.Join(dir, "programs"), filepath.Join(dir, "hostile")
	if made, err = wasmboxtest.Toolbox(context.Background(), "../../..", toolbox); err != nil {
		panic(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(hostile, "hostile.wasm"), "./testdata/hostile")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Errorf("build the hostile program: %w\n%s", err, said))
	}
	if err := compileAll(); err != nil {
		panic(err)
	}
	m.Run()
}

// compileAll has the engine compile what the tests use before any of them looks at the time.
func compileAll() error {
	ctx := context.Background()
	b := wasm.New(wasm.Config{Dirs: []string{hostile, toolbox}, Cache: made})
	sb, err := b.Open(ctx, sandbox.Config{ID: "first", Workspace: hostile})
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"true"}, {"js", "-e", ""}, {"hostile", "sockets"}} {
		_, failed := sb.Exec(ctx, sandbox.Cmd{Args: args})
		err = errors.Join(err, failed)
	}
	return errors.Join(err, sb.Destroy(ctx), b.Close(ctx))
}

// backend is one with the toolbox, and further directories before it.
func backend(t testing.TB, dirs ...string) *wasm.Backend {
	t.Helper()
	b := wasm.New(wasm.Config{Dirs: append(dirs, toolbox), Cache: made, Base: ""})
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// nature is what programs are not.
func nature() []sandboxtest.Without {
	return []sandboxtest.Without{
		{Part: sandboxtest.Processes, Why: "a program is one thread, starts no process and sees none"},
		{Part: sandboxtest.Signals, Why: "a program cannot catch a signal, and has no one to send one to"},
	}
}

func TestExam(t *testing.T) {
	b := backend(t)
	warm(t, b) // the exam measures what is allocated, and to compile allocates much
	sandboxtest.Exam(t, b, nature()...)
}

func TestSwap(t *testing.T) { sandboxtest.Swap(t, backend(t)) }

// warm compiles the toolbox.
func warm(t testing.TB, b *wasm.Backend) {
	t.Helper()
	sb := open(t, b, sandbox.Config{})
	if exit, err := sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"true"}}); err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
}

// open opens a sandbox on a workspace of its own, unless one is named.
func open(t testing.TB, b *wasm.Backend, cfg sandbox.Config) sandbox.Sandbox {
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

// patience bounds a command of a test. Nothing waits for it unless something is broken.
const patience = 5 * time.Minute

// said runs a command that ends by itself and returns all it says.
func said(t testing.TB, sb sandbox.Sandbox, args ...string) (string, sandbox.Exit, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	exit, err := sb.Exec(ctx, sandbox.Cmd{Args: args, Stdout: &out, Stderr: &out})
	return out.String(), exit, err
}
