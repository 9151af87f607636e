package tools_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/pkg/tool"
)

const four = `diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,3 @@
 one
-two
+2
+3
diff --git a/old.sh b/dir/new.sh
rename from old.sh
rename to dir/new.sh
--- a/old.sh
+++ b/dir/new.sh
@@ -1 +1 @@
-echo
+echo hi
--- /dev/null
+++ b/sub/made.txt
@@ -0,0 +1 @@
+made
--- a/gone.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-y
`

func patchBench(t *testing.T) *bench {
	b := newBench(t)
	b.put("a.txt", "one\ntwo\n")
	b.put("old.sh", "echo\n")
	b.put("gone.txt", "x\ny\n")
	if err := os.Chmod(filepath.Join(b.dir, "old.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) lacksFile(name string) {
	b.t.Helper()
	if _, err := os.Lstat(filepath.Join(b.dir, name)); !errors.Is(err, os.ErrNotExist) {
		b.t.Errorf("%s is there: %v", name, err)
	}
}

// untouched checks that nothing of four happened.
func (b *bench) untouched() {
	b.t.Helper()
	b.has("a.txt", "one\ntwo\n")
	b.has("old.sh", "echo\n")
	b.has("gone.txt", "x\ny\n")
	b.lacksFile("sub/made.txt")
	b.lacksFile("dir/new.sh")
}

// patched checks that all of four happened.
func (b *bench) patched() {
	b.t.Helper()
	b.has("a.txt", "one\n2\n3\n")
	b.has("dir/new.sh", "echo hi\n")
	b.has("sub/made.txt", "made\n")
	b.lacksFile("old.sh")
	b.lacksFile("gone.txt")
	if info, err := os.Stat(filepath.Join(b.dir, "dir/new.sh")); err != nil || info.Mode().Perm() != 0o755 {
		b.t.Errorf("the moved file has mode %v, %v", info.Mode(), err)
	}
}

// breaking is a sandbox that dies, or fails once, at the n-th change of a file.
type breaking struct {
	sandbox.Sandbox
	left int
	dies bool
}

var errBroken = errors.New("disk full")

func (b *breaking) broken() error {
	b.left--
	if b.left == 0 || b.dies && b.left < 0 {
		return errBroken
	}
	return nil
}

func (b *breaking) WriteFile(path string, data []byte) error {
	if err := b.broken(); err != nil {
		return err
	}
	return b.Sandbox.WriteFile(path, data)
}

func (b *breaking) Remove(path string) error {
	if err := b.broken(); err != nil {
		return err
	}
	return b.Sandbox.Remove(path)
}

func (b *breaking) Rename(from, to string) error {
	if err := b.broken(); err != nil {
		return err
	}
	return b.Sandbox.Rename(from, to)
}

func TestApplyPatch(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 apply_patch changes, moves, makes and deletes, and counts lines", func(t *testing.T) {
		t.Parallel()
		b := patchBench(t)
		want := "update a.txt | +2 -1\nmove old.sh -> dir/new.sh | +1 -1\ncreate sub/made.txt | +1 -0\ndelete gone.txt | +0 -2\n4 file(s) changed, 4 line(s) added, 4 removed"
		if got := b.good("apply_patch", args{"patch": four}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		b.patched()
		b.bad("apply_patch", args{"patch": four}, "no change")
	})
	for name, c := range map[string]struct{ spoil, patch, want string }{
		"a hunk that does not fit":       {"a.txt", four, "hunk 1 of 1 for a.txt does not fit: at line 1 the patch has\n  one\nand the file has\n  other"},
		"a deletion of more":             {"gone.txt", four, "hunk 1 of 1 for gone.txt"},
		"a new file that exists":         {"sub/made.txt", four, "exists already"},
		"a move to what exists":          {"dir/new.sh", four, "exists already"},
		"a file where a folder is to be": {"sub", four, "not a directory"},
		"no file":                        {"", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n" + four, `no such file "none"`},
		"no patch":                       {"", "hello", "names no file"},
	} {
		t.Run("TOOL-10 apply_patch refused for all files: "+name, func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			if c.spoil != "" {
				b.put(c.spoil, "other\n")
			}
			r := b.run("apply_patch", args{"patch": c.patch})
			if !r.Failed || !strings.Contains(strings.ToLower(r.Output), strings.ToLower(c.want)) {
				t.Errorf("failed %v %q, want %q", r.Failed, r.Output, c.want)
			}
			if c.spoil != "" {
				b.has(c.spoil, "other\n")
				if err := os.Remove(filepath.Join(b.dir, c.spoil)); err != nil {
					t.Fatal(err)
				}
				for file, text := range map[string]string{"a.txt": "one\ntwo\n", "gone.txt": "x\ny\n"} {
					if c.spoil == file {
						b.put(file, text)
					}
				}
			}
			b.untouched()
		})
	}
	t.Run("TOOL-10 apply_patch keeps line ends and refuses binary files", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("w.txt", "a\r\nb\r\n")
		b.put("bin", "a\x00\n")
		b.good("apply_patch", args{"patch": "*** Begin Patch\n*** Update File: w.txt\n a\n-b\n+c\n+d\n*** End Patch"})
		b.has("w.txt", "a\r\nc\r\nd\r\n")
		b.bad("apply_patch", args{"patch": "--- a/bin\n+++ b/bin\n@@ -1 +1 @@\n-a\n+b\n"}, "binary")
	})
}

func TestApplyPatchBreaks(t *testing.T) {
	t.Parallel()
	// The patch makes five changes: a write, a rename and a write, a write, a removal.
	for n := 1; n <= 5; n++ {
		t.Run("TOOL-10 a change that fails takes back the others", func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			b.env.Sandbox = &breaking{Sandbox: b.env.Sandbox, left: n}
			if r, err := b.try(t.Context(), "apply_patch", args{"patch": four}); err == nil && !r.Failed {
				t.Fatalf("change %d: got %+v", n, r)
			}
			b.untouched()
		})
		t.Run("TOOL-10 REC a lost attempt is told apart and made whole", func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			sb := b.env.Sandbox
			b.env.Sandbox = &breaking{Sandbox: sb, left: n, dies: true}
			if _, err := b.try(t.Context(), "apply_patch", args{"patch": four}); err == nil {
				t.Fatalf("change %d: no error", n)
			}
			b.env.Sandbox = sb
			v := b.tool("apply_patch").(tool.Verifier)
			if done, _, err := v.Verify(t.Context(), b.call("apply_patch", args{"patch": four})); done || err != nil {
				t.Fatalf("change %d: done %v, %v, want it to be made again", n, done, err)
			}
			b.good("apply_patch", args{"patch": four})
			b.patched()
			if done, r, err := v.Verify(t.Context(), b.call("apply_patch", args{"patch": four})); !done || err != nil || !strings.Contains(r.Output, "4 file(s) changed") {
				t.Errorf("change %d: done %v, %q, %v", n, done, r.Output, err)
			}
		})
	}
	t.Run("TOOL-10 Verify of a patch that could be either cannot be told", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("f", "a\na\n")
		_, _, err := b.tool("apply_patch").(tool.Verifier).Verify(t.Context(), b.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n+a\n"}))
		if err == nil || !strings.Contains(err.Error(), "does not show") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("TOOL-10 Verify of a patch that never fitted is an error", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if done, _, err := b.tool("apply_patch").(tool.Verifier).Verify(t.Context(), b.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n a\n+a\n"})); done || err == nil {
			t.Errorf("done %v, %v", done, err)
		}
	})
}

func TestPreviewOfPatch(t *testing.T) {
	t.Parallel()
	show := func(b *bench, text string) (string, error) {
		input, err := json.Marshal(args{"patch": text})
		if err != nil {
			b.t.Fatal(err)
		}
		return b.tool("apply_patch").(tool.Previewer).Preview(b.t.Context(), input, tool.View{Read: func(path string) ([]byte, error) {
			return os.ReadFile(filepath.Join(b.dir, path))
		}})
	}
	t.Run("PLUS-14 a preview of apply_patch is a patch that does the same, and does nothing itself", func(t *testing.T) {
		t.Parallel()
		b := patchBench(t)
		diff, err := show(b, four)
		if err != nil || !strings.Contains(diff, "rename from old.sh\nrename to dir/new.sh\n--- a/old.sh\n+++ b/dir/new.sh\n@@ -1,1 +1,1 @@\n-echo\n+echo hi\n") ||
			!strings.Contains(diff, "--- a/gone.txt\n+++ /dev/null\n") || !strings.Contains(diff, "--- /dev/null\n+++ b/sub/made.txt\n") {
			t.Fatalf("%v\n%s", err, diff)
		}
		b.untouched()
		b.good("apply_patch", args{"patch": strings.Replace(diff, "rename from", "diff --git a/old.sh b/dir/new.sh\nrename from", 1)})
		b.patched()
		if diff, err := show(b, four); diff != "" || err != nil {
			t.Errorf("of a patch that was applied: %v\n%s", err, diff)
		}
	})
	for name, c := range map[string]struct{ file, text, patch, want string }{
		"one that does not fit":       {"a.txt", "other\n", four, "does not apply to the files as they are now: hunk 1 of 1 for a.txt does not fit"},
		"one of a file that is there": {"sub/made.txt", "x", four, "exists already"},
		"one of a missing file":       {"x", "x", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", "no such file"},
		"no patch":                    {"x", "x", "hello", "names no file"},
	} {
		t.Run("PLUS-14 a preview of a patch says why it cannot be applied: "+name, func(t *testing.T) {
			t.Parallel()
			b := patchBench(t)
			b.put(c.file, c.text)
			if diff, err := show(b, c.patch); diff != "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want %q", diff, err, c.want)
			}
		})
	}
}
