package tools_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, name := range []string{"z.go", "a.go", "sub/m.go", "sub/deep/n.go", "sub/deep/n.txt", ".git/config.go", "sub/.hidden.go"} {
		b.put(name, "x\n")
	}
	t.Run("TOOL-10e glob finds files by **, sorted, without git's own", func(t *testing.T) {
		if got := b.good("glob", args{"pattern": "**/*.go"}); got != "a.go\nsub/.hidden.go\nsub/deep/n.go\nsub/m.go\nz.go" {
			t.Errorf("got %q", got)
		}
		if got := b.good("glob", args{"pattern": "./sub/*/n.{go,txt}"}); got != "sub/deep/n.go\nsub/deep/n.txt" {
			t.Errorf("got %q", got)
		}
		if got := b.good("glob", args{"pattern": "*.go"}); got != "a.go\nz.go" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("TOOL-10 glob stops at its limit and says so", func(t *testing.T) {
		if got := b.good("glob", args{"pattern": "**/*.go", "limit": 2}); got != "a.go\nsub/.hidden.go\n(truncated: 2 of 5 files)" {
			t.Errorf("got %q", got)
		}
		if got := b.good("glob", args{"pattern": "**/*.go", "limit": 5}); strings.Contains(got, "truncated") {
			t.Errorf("got %q", got)
		}
		many := newBench(t)
		for i := range 501 {
			many.put(fmt.Sprintf("f%03d", i), "")
		}
		contains(t, many.good("glob", args{"pattern": "*"}), "f499\n(truncated: 500 of 501 files)")
	})
	t.Run("TOOL-10 glob that finds nothing or is no pattern says so", func(t *testing.T) {
		contains(t, b.good("glob", args{"pattern": "*.rs"}), "no file matches *.rs")
		b.bad("glob", args{"pattern": "[a"}, "invalid pattern")
	})
}

func TestGrep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("a.go", "one\ntwo\nneedle 1\nfour\nneedle 2\nsix\n")
	b.put("sub/b.txt", "needle 3\n")
	b.put("single", "needle 4")
	b.put("bin", "needle\x00\n")
	b.put(".git/x", "needle\n")
	b.put("wide", strings.Repeat("x", 3000)+"needle\n")
	t.Run("TOOL-10f grep shows path, line and text, and passes binary and git's own files over", func(t *testing.T) {
		got := b.good("grep", args{"pattern": `needle \d`})
		if got != "a.go:3:needle 1\na.go:5:needle 2\nsingle:1:needle 4\nsub/b.txt:1:needle 3\n" {
			t.Errorf("got %q", got)
		}
		contains(t, b.good("grep", args{"pattern": "needle$"}), "wide:1:xxx", "(1006 bytes more in this line)")
	})
	t.Run("TOOL-10 grep shows lines around, each once", func(t *testing.T) {
		got := b.good("grep", args{"pattern": "needle", "path": "a.go", "context": 1})
		if got != "a.go-2-two\na.go:3:needle 1\na.go-4-four\na.go:5:needle 2\na.go-6-six\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("TOOL-10 grep keeps to a folder, a glob of names or of paths", func(t *testing.T) {
		for _, a := range []args{{"path": "sub"}, {"path": "./sub/"}, {"path": "sub/b.txt"}, {"glob": "*.txt"}, {"glob": "sub/**"}} {
			a["pattern"] = `needle \d`
			if got := b.good("grep", a); got != "sub/b.txt:1:needle 3\n" {
				t.Errorf("%v = %q", a, got)
			}
		}
	})
	t.Run("TOOL-10 grep stops at its limit and says so", func(t *testing.T) {
		got := b.good("grep", args{"pattern": `needle \d`, "limit": 3})
		if strings.Count(got, "needle") != 3 || !strings.Contains(got, "truncated") {
			t.Errorf("got %q", got)
		}
		lacks(t, b.good("grep", args{"pattern": `needle \d`, "limit": 4}), "truncated")
	})
	t.Run("TOOL-10 grep says what is wrong", func(t *testing.T) {
		b.bad("grep", args{"pattern": "("}, "invalid regular expression")
		b.bad("grep", args{"pattern": "x", "glob": "[a"}, "invalid glob")
		b.bad("grep", args{"pattern": "x", "path": "none"}, "no such file")
		contains(t, b.good("grep", args{"pattern": "nowhere"}), "no line matches")
	})
	t.Run("SAFE-12 a pipe in the workspace blocks neither grep nor read", func(t *testing.T) {
		if err := syscall.Mkfifo(b.dir+"/pipe", 0o600); err != nil {
			t.Fatal(err)
		}
		contains(t, b.good("grep", args{"pattern": "needle 3"}), "sub/b.txt")
		b.bad("read", args{"path": "pipe"}, "pipe")
	})
}

func TestGrepOfMany(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 among more files than are searched at once each is searched once, in order", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		var want strings.Builder
		for i := range 350 {
			name, text := fmt.Sprintf("d%d/f%03d.txt", i/50, i), "nothing\n"
			if i%7 == 0 {
				text = "a needle\n"
				fmt.Fprintf(&want, "%s:1:a needle\n", name)
			}
			b.put(name, text)
		}
		for _, pattern := range []string{"needle", "n[e]{2}dle", `\w+ needle$`} {
			if got := b.good("grep", args{"pattern": pattern}); got != want.String() {
				t.Errorf("%s: %q", pattern, got)
			}
		}
		if got := b.good("grep", args{"pattern": "needle", "limit": 20}); strings.Count(got, "\n") != 21 || !strings.HasPrefix(want.String(), strings.Join(strings.SplitAfter(got, "\n")[:20], "")) {
			t.Errorf("with a limit: %q", got)
		}
	})
	t.Run("SAFE-14 SAFE-12 a tree deeper than folders are held open is searched to its end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		deep := strings.Repeat("d/", 200) + "f.txt"
		b.put(deep, "needle\n")
		contains(t, b.good("grep", args{"pattern": "needle"}), deep+":1:needle")
		contains(t, b.good("glob", args{"pattern": "**/f.txt"}), deep)
	})
}
