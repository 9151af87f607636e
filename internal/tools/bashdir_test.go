package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/tool"
)

// shell runs a text in the folder that the calls before it left.
func (b *bench) shell(text string) tool.Result {
	b.t.Helper()
	r := b.run("bash", args{"command": text})
	if r.Dir != "" {
		b.env.Dir = func() string { return r.Dir }
	}
	return r
}

func TestBashDir(t *testing.T) {
	t.Parallel()
	t.Run("TOOL-10 a folder holds for the next call", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("a b/c/x.txt", "x")
		b.shell("cd 'a b'")
		if r := b.shell("ls; cd c"); r.Output != "c\n" || r.Dir != "a b/c" {
			t.Errorf("%+v", r)
		}
		if r := b.shell("ls; cd nowhere; exit 4"); !strings.HasPrefix(r.Output, "x.txt\n[stderr]\n") || *r.ExitCode != 4 || r.Dir != "" {
			t.Errorf("%+v", r)
		}
		if r := b.shell(`cd "$OLDPWD/../.." && pwd`); r.Dir != "" && r.Dir != "." {
			t.Errorf("%+v", r)
		}
		if r := b.shell("cd ../..; ls"); r.Output != "a b\n" || r.Dir != "." {
			t.Errorf("%+v", r)
		}
	})
	for name, c := range map[string]struct{ text, out, dir string }{
		"failing":                   {"cd d; false", "[exit status 1]", "d"},
		"exit on error":             {"set -e; cd d; false; cd ..", "[exit status 1]", "d"},
		"traced":                    {"set -x; cd d", "[stderr]\n++ cd d\n", "d"},
		"standard error in a file":  {"exec 2>log; cd d; echo e >&2; cat ../log", "e\n", "d"},
		"standard error closed":     {"exec 2>&-; cd d; echo o", "o\n", "d"},
		"a trap of its own":         {"trap 'echo bye' EXIT; cd d", "bye\n", ""},
		"another program":           {"cd d; exec echo hi", "hi\n", ""},
		"in a subshell":             {"(cd d; ls)", "[exit status 0]", ""},
		"arguments are none":        {`echo "$#$1$2" "$0"; cd d`, "0 bash\n", "d"},
		"a wrong text":              {"cd d\nfi", "[stderr]\nbash: eval: line 2: syntax error near unexpected token `fi'\nbash: eval: line 2: `fi'\n[exit status 2]", "d"},
		"a text for the next lines": {"cat <<E\nx\nE\ncd d", "x\n", "d"},
		"a name like a line":        {"mkdir $'n\\nm'; cd $'n\\nm'", "[exit status 0]", "n\nm"},
	} {
		t.Run("TOOL-16 the folder and the output of a shell: "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if err := os.Mkdir(filepath.Join(b.dir, "d"), 0o755); err != nil {
				t.Fatal(err)
			}
			r := b.shell(c.text)
			if r.Output != c.out || r.Dir != c.dir {
				t.Errorf("output %q, dir %q, want %q and %q", r.Output, r.Dir, c.out, c.dir)
			}
			lacks(t, b.seen["stderr"], "inspan-dir-")
		})
	}
	t.Run("WS-12 TOOL-17 a folder outside does not hold, and it is said", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("d/x", "")
		if err := os.Symlink("..", filepath.Join(b.dir, "up")); err != nil {
			t.Fatal(err)
		}
		b.shell("cd d")
		for _, text := range []string{"cd /", "cd ../up", "cd ../.."} {
			if r := b.shell(text); r.Dir != "" || !strings.Contains(r.Output, "the next call starts in d again]") {
				t.Errorf("%s: %+v", text, r)
			}
		}
		b.env.Dir = func() string { return "../.." }
		if r := b.shell("ls"); !strings.Contains(r.Output, "is missing: the command ran in the workspace") || r.Dir != "." {
			t.Errorf("%+v", r)
		}
	})
	t.Run("TOOL-10 a folder that is gone is the workspace again", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.put("d/x", "")
		b.shell("cd d; rm -r ../d")
		if r := b.shell("pwd"); r.Failed || !strings.Contains(r.Output, filepath.Base(b.dir)+"\n") {
			t.Errorf("%+v", r)
		}
		b.env.Dir = func() string { return "d" }
		if r := b.shell("ls -a"); !strings.Contains(r.Output, "[the folder d is missing: the command ran in the workspace]") || r.Dir != "." {
			t.Errorf("%+v", r)
		}
	})
	t.Run("SAFE-12 a shell that fakes its mark gains nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		r := b.shell(`printf '%s/etc\0' "$INSPAN_MARK" >&2; echo hidden >&2`)
		if r.Dir != "" || r.Failed {
			t.Errorf("%+v", r)
		}
		if r := b.shell("printf inspan-dir- >&2"); !strings.Contains(r.Output, "inspan-dir-") {
			t.Errorf("held back: %+v", r)
		}
	})
}
