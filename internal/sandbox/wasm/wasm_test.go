package wasm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/sandbox/wasm"
	"github.com/inspan/inspan/internal/wasmbox/build"
)

// toolbox is where TestMain built the programs, made where the engine keeps what it compiled.
var toolbox, made string

// TestMain builds the toolbox once; the engine compiles it once.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wasm-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		toolbox, made = filepath.Join(dir, "programs"), filepath.Join(dir, "cache")
		if err := build.Toolbox(context.Background(), "../../..", toolbox); err != nil {
			fmt.Fprintln(os.Stderr, "build the toolbox:", err)
			return 1
		}
		return m.Run()
	}())
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

func TestExam(t *testing.T) {
	sandboxtest.Exam(t, backend(t),
		sandboxtest.Without{Part: sandboxtest.Processes, Why: "a program is one thread, starts no process and sees none"},
		sandboxtest.Without{Part: sandboxtest.Signals, Why: "a program can not catch a signal, and has nobody to send one to"})
}

func TestSwap(t *testing.T) { sandboxtest.Swap(t, backend(t)) }
