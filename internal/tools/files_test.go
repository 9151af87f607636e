package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

func TestRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lines strings.Builder
	for i := 1; i <= 2001; i++ {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	b.put("long.txt", lines.String())
	b.put("exact.txt", strings.TrimSuffix(lines.String(), "line 2001\n"))
	b.put("empty.txt", "")
	b.put("bin", "ab\x00cd")
	b.put("wide.txt", strings.Repeat("é", 1001)+"\n"+strings.Repeat("x", 2000)+"\n")
	if err := os.Mkdir(filepath.Join(b.dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("TOOL-10a read numbers lines and stops at 2000", func(t *testing.T) {
		got := b.good("read", args{"path": "long.txt"})
		contains(t, got, "     1\tline 1\n", "  2000\tline 2000\n", "(lines 1-2000 of 2001; 1 more lines; continue with offset 2001)")
		lacks(t, got, "line 2001\n")
		lacks(t, b.good("read", args{"path": "exact.txt"}), "more lines")
	})
	t.Run("TOOL-10a read goes on with offset and limit", func(t *testing.T) {
		if got := b.good("read", args{"path": "long.txt", "offset": 10, "limit": 2}); got != "    10\tline 10\n    11\tline 11\n(lines 10-11 of 2001; 1990 more lines; continue with offset 12)\n" {
			t.Errorf("got %q", got)
		}
		if got := b.good("read", args{"path": "long.txt", "offset": 2001}); got != "  2001\tline 2001\n(lines 2001-2001 of 2001: the end)\n" {
			t.Errorf("got %q", got)
		}
		b.bad("read", args{"path": "long.txt", "offset": 2002}, "has 2001 lines")
	})
	t.Run("TOOL-10 read names what it cannot show", func(t *testing.T) {
		b.bad("read", args{"path": "bin"}, "binary file of 5 bytes")
		b.bad("read", args{"path": "none.txt"}, "no such file")
		b.bad("read", args{"path": "dir"}, "dir")
		b.bad("read", args{"path": "a\u0000b"}, "a")
		if got := b.good("read", args{"path": "empty.txt"}); got != "(the file is empty)" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("TOOL-10 read cuts lines above 2000 bytes between characters", func(t *testing.T) {
		got := b.good("read", args{"path": "wide.txt"})
		contains(t, got, strings.Repeat("é", 1000)+"... (2 bytes more in this line)\n", "\t"+strings.Repeat("x", 2000)+"\n")
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10b write makes folders and replaces, any number of times", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for range 2 {
			contains(t, b.good("write", args{"path": "a/b/c.txt", "content": "one\n"}), "wrote 4 bytes to a/b/c.txt")
			b.has("a/b/c.txt", "one\n")
		}
		b.good("write", args{"path": "a/b/c.txt", "content": ""})
		b.has("a/b/c.txt", "")
	})
	t.Run("PLUS-14 write shows what it replaces", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("old", "one\ntwo\n")
		b.put("bin", "\x00")
		b.put(".env", "KEY=hunter2\n")
		for _, c := range [][3]string{{"new", "x\n", "wrote 2 bytes to new, a new file"}, {"new", "x\n", "wrote 2 bytes to new, which it had already"},
			{"old", "one\n2\n", "wrote 6 bytes to old\n--- a/old\n+++ b/old\n@@ -1,2 +1,2 @@\n one\n-two\n+2"}, {"bin", "x", "wrote 1 bytes to bin, in place of other content"},
			{".env", "KEY=new\n", "wrote 8 bytes to .env"}, {"made/.env", "KEY=new\n", "wrote 8 bytes to made/.env"}} {
			if got := b.good("write", args{"path": c[0], "content": c[1]}); got != c[2] {
				t.Errorf("got %q, want %q", got, c[2])
			}
		}
	})
	t.Run("TOOL-10 write where a folder or a file is in the way fails and says so", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("d/f", "x")
		b.bad("write", args{"path": "d", "content": "y"}, "write")
		b.bad("write", args{"path": "d/f/g", "content": "y"}, "write")
		b.has("d/f", "x")
	})
}

func TestEdit(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10c edit replaces what stands there once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a.go", "one two\n\tthree\n")
		contains(t, b.good("edit", args{"path": "a.go", "old_string": "two\n\tthree", "new_string": "2"}), "replaced 1")
		b.has("a.go", "one 2\n")
	})
	t.Run("TOOL-10 edit refuses what is missing, twice there, or no change", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a.go", "x x\n")
		b.bad("edit", args{"path": "a.go", "old_string": "y", "new_string": "z"}, "does not occur")
		b.bad("edit", args{"path": "a.go", "old_string": "x", "new_string": "z"}, "occurs 2 times")
		b.bad("edit", args{"path": "a.go", "old_string": "x", "new_string": "x"}, "the same")
		b.bad("edit", args{"path": "none.go", "old_string": "x", "new_string": "y"}, "no such file")
		b.has("a.go", "x x\n")
		contains(t, b.good("edit", args{"path": "a.go", "old_string": "x", "new_string": "z", "replace_all": true}), "replaced 2")
		b.has("a.go", "z z\n")
	})
	for _, c := range []struct {
		name, file, old, new string
		done, unknown        bool
	}{
		{name: "before", file: "a old b", old: "old", new: "new"},
		{name: "after", file: "a new b", old: "old", new: "new", done: true},
		{name: "both stand there", file: "old new", old: "old", new: "new", unknown: true},
		{name: "neither stands there", file: "a b", old: "old", new: "new", unknown: true},
		{name: "a deletion before", file: "a old b", old: "old", new: ""},
		{name: "a deletion after cannot be told", file: "a b", old: "old", new: "", unknown: true},
		{name: "growing text before", file: "a old b", old: "old", new: "older"},
		{name: "growing text after cannot be told", file: "a older b", old: "old", new: "older", unknown: true},
		{name: "shrinking text before cannot be told", file: "a older b", old: "older", new: "old", unknown: true},
		{name: "shrinking text after", file: "a old b", old: "older", new: "old", done: true},
	} {
		t.Run("TOOL-10 Verify of an edit: "+c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put("f", c.file)
			tl, _ := b.tools.Get("edit")
			done, r, err := tl.(tool.Verifier).Verify(t.Context(), b.call("edit", args{"path": "f", "old_string": c.old, "new_string": c.new}))
			if done != c.done || (err != nil) != c.unknown || (r.Output != "") != c.done {
				t.Errorf("done %v, %q, %v", done, r.Output, err)
			}
			b.has("f", c.file)
		})
	}
	t.Run("TOOL-10 Verify of an edit of no file cannot be told", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		tl, _ := b.tools.Get("edit")
		if done, _, err := tl.(tool.Verifier).Verify(t.Context(), b.call("edit", args{"path": "f", "old_string": "a", "new_string": "b"})); done || err == nil {
			t.Errorf("done %v, %v", done, err)
		}
	})
}
