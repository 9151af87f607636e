package patch_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/patch"
	"pgregory.net/rapid"
)

// content draws a text of few different lines, with one kind of line end, maybe without the last one.
func content(t *rapid.T, label, eol string) string {
	l := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "-- x", "++ y", "@@ z", " d", "*** e", "\\ f"}), 0, 30).Draw(t, label)
	if len(l) == 0 {
		return ""
	}
	return strings.Join(l, eol) + rapid.SampledFrom([]string{"", eol}).Draw(t, label+" end")
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 what differs between two texts makes the one of the other, and back", rapid.MakeCheck(func(t *rapid.T) {
		eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")
		old, want := content(t, "old", eol), content(t, "new", eol)
		diff := patch.Unified("dir/f.txt", old, want)
		if old == want {
			if diff != "" {
				t.Fatalf("same texts differ: %q", diff)
			}
			return
		}
		files, err := patch.Parse(diff)
		if err != nil || len(files) != 1 || files[0].From != "dir/f.txt" || files[0].Op != patch.Update {
			t.Fatalf("%+v, %v of\n%s", files, err, diff)
		}
		if got, err := files[0].Apply(old); err != nil || got != want {
			t.Fatalf("Apply gives %q, %v, want %q\n%s", got, err, want, diff)
		}
		if got, err := files[0].Undo(want); err != nil || got != old {
			t.Fatalf("Undo gives %q, %v, want %q\n%s", got, err, old, diff)
		}
	}))
	t.Run("SAFE-12 any text is parsed or refused, and its paths are those of its files", rapid.MakeCheck(func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"--- a/x\n", "+++ b/x\n", "--- /dev/null\n", "+++ /dev/null\n", "@@ -1 +1 @@\n", "@@\n", "+a\n", "-b\n", " c\n", "\n",
			"\\ No newline\n", "diff --git a/x b/x\n", "rename from x\n", "rename to y\n", "*** Begin Patch\n", "*** Add File: z\n", "*** Update File: q\n", "*** End Patch\n", "\r\n", "@@ -0,0 +9 @@\n"})).Draw(t, "parts")
		text := strings.Join(parts, "") + rapid.String().Draw(t, "rest")
		files, err := patch.Parse(text)
		if (err == nil) != (len(files) > 0) {
			t.Fatalf("%d files, %v", len(files), err)
		}
		n := 0
		for _, f := range files {
			n += len(f.Paths())
			_, _ = f.Apply("a\nb\nc\n")
			_, _ = f.Undo("a\nb\nc\n")
		}
		if len(patch.Paths(text)) != n {
			t.Fatalf("Paths misses one of %+v", files)
		}
	}))
}
