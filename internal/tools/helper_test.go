package tools_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/internal/tools"
	"github.com/inspan/inspan/pkg/tool"
)

// bench is a workspace with the built-in tools over a real host sandbox.
type bench struct {
	t     *testing.T
	dir   string
	env   tool.Env
	tools *tool.Registry
	mu    sync.Mutex
	// seen is what Progress was told, by stream; guarded by mu.
	seen map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: filepath.Join(t.TempDir(), "ws"), seen: map[string]string{}}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	backend, err := backends.Local("").Pick(t.Context(), sandbox.Host)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := backend.Open(t.Context(), sandbox.Config{ID: "test", Workspace: b.dir, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if b.tools, err = tool.NewRegistry(tools.Builtin()...); err != nil {
		t.Fatal(err)
	}
	b.env = tool.Env{Sandbox: sb, MaxOutput: 1 << 20, Progress: func(stream string, chunk []byte) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen[stream] += string(chunk)
	}}
	return b
}

type args = map[string]any

func (b *bench) call(name string, a args) tool.Call {
	b.t.Helper()
	input, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.tools.Check(name, input); err != nil {
		b.t.Fatalf("%s: the arguments do not fit: %v", name, err)
	}
	return tool.Call{ID: "c", Key: "k", Input: input, Env: b.env}
}

func (b *bench) try(ctx context.Context, name string, a args) (tool.Result, error) {
	b.t.Helper()
	tl, ok := b.tools.Get(name)
	if !ok {
		b.t.Fatalf("no tool %s", name)
	}
	return tl.Run(ctx, b.call(name, a))
}

// run is try that wants no error.
func (b *bench) run(name string, a args) tool.Result {
	b.t.Helper()
	r, err := b.try(b.t.Context(), name, a)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, a, err)
	}
	return r
}

// good is run that wants success and returns the output.
func (b *bench) good(name string, a args) string {
	b.t.Helper()
	r := b.run(name, a)
	if r.Failed {
		b.t.Fatalf("%s %v failed: %s", name, a, r.Output)
	}
	return r.Output
}

// bad is run that wants a failed result that says something.
func (b *bench) bad(name string, a args, want string) {
	b.t.Helper()
	if r := b.run(name, a); !r.Failed || !strings.Contains(r.Output, want) {
		b.t.Errorf("%s %v = failed %v %q, want it to fail with %q", name, a, r.Failed, r.Output, want)
	}
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) has(name, want string) {
	b.t.Helper()
	got, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil || string(got) != want {
		b.t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
	}
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is not in:\n%.2000s", w, got)
		}
	}
}

func lacks(t *testing.T, got string, bad ...string) {
	t.Helper()
	for _, w := range bad {
		if strings.Contains(got, w) {
			t.Errorf("%q is in:\n%.2000s", w, got)
		}
	}
}
