package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/patch"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"git", "diff --git a/x y.go b/x y.go\nindex 1..2 100644\n--- a/x y.go\t\n+++ b/x y.go\t\n@@ -1 +1 @@ func\n-a\n+b\n", "update x y.go"},
		{"plain names", "--- x.go\t2020-01-01\n+++ x.go\t2020-01-02\n@@ -1 +1 @@\n-a\n+b\n", "update x.go"},
		{"new and deleted", "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "create n; delete o"},
		{"new and empty", "diff --git a/n b/n\nnew file mode 100644\nindex 0..e\n", "create n"},
		{"moved", "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n", "move o n"},
		{"quoted", "--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n", "update ä"},
		{"marked", "*** Begin Patch\n*** Add File: n\n+a\n*** Update File: u\n*** Move to: v\n@@ func\n-a\n+b\n*** End of File\n*** Delete File: d\n*** End Patch\n", "create n; move u v; delete d"},
		{"carriage returns", "--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "update x"},
		{"a mail around it", "From: a\nSubject: b\n---\n x | 2 +-\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.40\n", "update x"},
		{"a line like a head", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n c\n", "update x"},
	} {
		t.Run("TOOL-10 "+c.name, func(t *testing.T) {
			t.Parallel()
			files, err := patch.Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range files {
				got = append(got, string(f.Op)+" "+strings.Join(f.Paths(), " "))
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	for _, c := range []struct{ name, text, want string }{
		{"prose", "please change a to b", "names no file"},
		{"no change", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "no line with + or -"},
		{"no file", "@@ -1 +1 @@\n-a\n+b\n", "without a file name"},
		{"twice", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/./x\n+++ b/./x\n@@ -1 +1 @@\n-a\n+b\n", "twice"},
		{"no end", "*** Begin Patch\n*** Delete File: d\n", "is missing"},
		{"binary", "diff --git a/x b/x\nGIT binary patch\n", "binary"},
		{"mode only", "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "chmod"},
		{"copy", "diff --git a/x b/y\ncopy from x\ncopy to y\n", "copy"},
		{"a NUL", "--- a/x\x00\n+++ b/x\x00\n@@ -1 +1 @@\n-a\n+b\n", "is not a path"},
		{"many files", strings.Repeat("*** Begin Patch\n", 1) + strings.Repeat("*** Delete File: d\n", patch.MaxFiles+1) + "*** End Patch\n", "more than 200"},
		{"many hunks", "--- a/x\n+++ b/x\n" + strings.Repeat("@@\n-a\n+b\n", patch.MaxHunks+1), "more than 2000"},
		{"stray lines", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \nbye\n+c\n", "is not part of a hunk"},
	} {
		t.Run("SAFE-12 refused: "+c.name, func(t *testing.T) {
			t.Parallel()
			if files, err := patch.Parse(c.text); !errors.Is(err, patch.ErrNotPatch) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v, want it refused with %q", files, err, c.want)
			}
		})
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	apply := func(t *testing.T, hunks, content string) (string, error) {
		t.Helper()
		files, err := patch.Parse("--- a/f\n+++ b/f\n" + hunks)
		if err != nil {
			t.Fatal(err)
		}
		return files[0].Apply(content)
	}
	for _, c := range []struct{ name, hunks, content, want string }{
		{"at its line among equals", "@@ -3 +3 @@\n-a\n+b\n", "a\na\na\n", "a\na\nb\n"},
		{"elsewhere, where it stands once", "@@ -9,2 +9,2 @@\n x\n-a\n+b\n", "a\nx\na\n", "a\nx\nb\n"},
		{"without numbers", "@@\n x\n-a\n+b\n", "a\nx\na\n", "a\nx\nb\n"},
		{"line ends are kept", "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n", "a\r\nb\r\ne\r\n", "a\r\nc\r\nd\r\ne\r\n"},
		{"each kept line keeps its own", "@@ -1,3 +1,3 @@\n a\n-b\n+c\n e\n", "a\nb\r\ne\r\nf\r\n", "a\nc\r\ne\r\nf\r\n"},
		{"insertion", "@@ -1,0 +2 @@\n+b\n", "a\nc\n", "a\nb\nc\n"},
		{"into an empty file", "@@ -0,0 +1 @@\n+b\n", "", "b\n"},
		{"without an end", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "a", "b"},
		{"an end comes", "@@ -1 +1,2 @@\n a\n+b\n", "a", "a\nb\n"},
		{"blank lines without their space", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nb\n", "a\n\nc\n"},
	} {
		t.Run("TOOL-10 fits: "+c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := apply(t, c.hunks, c.content); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, hunks, content, want string }{
		{"another text", "@@ -2,2 +2,2 @@\n b\n-c\n+d\n", "a\nb\nx\n", "at line 3 the patch has\n  c\nand the file has\n  x\nThe file has:\n     2\tb\n     3\tx"},
		{"white space", "@@ -1 +1 @@\n-a b\n+c\n", "a  b\n", "white space"},
		{"several places", "@@ -9 +9 @@\n-a\n+b\n", "a\na\n", "at the lines 1, 2"},
		{"the end comes early", "@@ -2,2 +2,2 @@\n b\n-c\n+d\n", "a\nb\n", "the file ends after line 2"},
		{"behind the end", "@@ -7,0 +8 @@\n+b\n", "a\n", "the file has 1 lines"},
		{"an end that is not", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "a\n", "no newline at its end"},
		{"out of order", "@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+d\n", "a\nb\n", "hunk 2 of 2"},
		{"too much work", "@@ -99999 +1 @@\n" + strings.Repeat("-a\n", 20000) + "-b\n+c\n", strings.Repeat("a\n", 40000), "takes too long"},
	} {
		t.Run("TOOL-10 does not fit: "+c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := apply(t, c.hunks, c.content); !errors.Is(err, patch.ErrNoFit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	t.Run("TOOL-10 the marked form finds its place by a line", func(t *testing.T) {
		t.Parallel()
		files, err := patch.Parse("*** Begin Patch\n*** Update File: f\n@@ two\n-x\n+y\n*** End Patch")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := files[0].Apply("one\nx\n two\nx\n"); err != nil || got != "one\nx\n two\ny\n" {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := files[0].Apply("one\nx\n"); err == nil || !strings.Contains(err.Error(), `"two"`) {
			t.Errorf("err = %v", err)
		}
	})
}
