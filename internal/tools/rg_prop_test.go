package tools

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/backends"
	"github.com/inspan/inspan/pkg/tool"
	"pgregory.net/rapid"
)

// counting counts the commands of a sandbox.
type counting struct {
	sandbox.Sandbox
	ran int
}

func (c *counting) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Exit, error) {
	c.ran++
	return c.Sandbox.Exec(ctx, cmd)
}

func searchEnv(t testing.TB, dir string) (tool.Env, *counting) {
	t.Helper()
	backend, err := backends.Local("").Pick(t.Context(), sandbox.Host)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := backend.Open(t.Context(), sandbox.Config{ID: "test", Workspace: dir, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) }) // the directory is the test's
	c := &counting{Sandbox: sb}
	return tool.Env{Sandbox: c, MaxOutput: 1 << 20, Progress: func(string, []byte) {}}, c
}

func TestRipgrep(t *testing.T) {
	t.Parallel()
	has := true
	if _, err := exec.LookPath("rg"); err != nil {
		has = false // both ways are then the same one, which is what is to be shown too
	}
	root := t.TempDir()
	n, asked := 0, 0
	t.Run("TOOL-10 with ripgrep and without it grep finds the same", rapid.MakeCheck(func(r *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		plant(t, r, dir)
		env, sb := searchEnv(t, dir)
		s := grepArgs{Context: rapid.IntRange(0, 2).Draw(r, "context"), Limit: rapid.IntRange(1, 30).Draw(r, "limit"),
			Path: rapid.SampledFrom([]string{"", "a", "link", "a.go", ".git", "a/.git"}).Draw(r, "path"),
			Glob: rapid.SampledFrom([]string{"", "*.go", "a/**"}).Draw(r, "of"),
			Pattern: rapid.SampledFrom([]string{"needle", "(?i)NEEDLE", "needle|straße", "^nee", "le$", "(needle|other) x", "n(eed)+le", "need{1,3}le", `\d`, "e?", "(?i)kelvin", "\\x{fffd}x", "n.*e",
				"-needle", "needle\\n", "[n]eedle", "(?i:stra)ße"}).Draw(r, "pattern")}
		sb.ran = 0
		want, wantErr := grepMany(t.Context(), s, env, math.MaxInt)
		if sb.ran != 0 {
			r.Fatal("ripgrep was asked")
		}
		got, err := grepMany(t.Context(), s, env, 0)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			r.Fatalf("%+v with ripgrep (%v):\n%q, %v\nwithout:\n%q, %v", s, has, got.Output, err, want.Output, wantErr)
		}
		asked += sb.ran
	}))
	if asked == 0 {
		t.Error("ripgrep was never asked")
	}
	t.Run("TOOL-10 patterns without a text are searched without ripgrep", func(t *testing.T) {
		for pattern, want := range map[string]bool{"needle": true, "x": false, `\w+`: false, "(a|bcd)": false, "ab|cd": true, "(ab)?": false, "(ab)*c": false} {
			if got := literals(pattern) != nil; got != want {
				t.Errorf("%s: %v, want %v", pattern, got, want)
			}
		}
	})
}

// plant makes a tree with what searches stumble over.
func plant(t *testing.T, r *rapid.T, dir string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(dir, 0o755))
	for _, name := range slices.Compact(rapid.SliceOfN(rapid.SampledFrom([]string{"a.go", "a/b.go", "a/.hidden", "a/.git/x.go", ".git/x", "a b/c.go", ".ignored.go", "b\n.go", "b\xff.go", "c\xff/d.go", "a-b/x.go",
		"a/x/y/z.txt", "build/out.go", "b/.git", "straße.go"}), 1, 12).Draw(r, "names")) {
		at := filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(at), 0o755))
		text := rapid.SampledFrom([]string{"needle\n", "a\nneedle x\nb\nneedle", "NEEDLE\r\nother x\n", "bin\x00needle\n", "\xff\xfen\x00e\x00", "\xffx needle\n", "\xef\xbb\xbfneedle\n", "straße STRASSE\n", "\u212aelvin\n", "", "-needle 1\n"}).Draw(r, "text")
		must(os.WriteFile(at, []byte(text), 0o644))
	}
	for _, name := range []string{".gitignore", ".ignore", ".rgignore"} {
		must(os.WriteFile(filepath.Join(dir, name), []byte("build\n*.go\n"), 0o644))
	}
	must(os.Symlink("a", filepath.Join(dir, "link")))
	must(os.Symlink("/etc", filepath.Join(dir, "out")))
	must(syscall.Mkfifo(filepath.Join(dir, "pipe.go"), 0o644))
}
