package shell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/shell"
)

// slow is far above what any text within the limits needs; only work without a bound goes past it.
const slow = 10 * time.Second

// FuzzParse: strangers' texts never break the reader, keep it busy or exceed its limits, and a destructive command
// in front of them is never allowed.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a", "git push --force", "sh -c 'rm -rf /'", "$(", "`", "{a,b}{c,d}", "<<E\n$x\nE", "x() { x; }", "a $'\\x", "((", "case", "find -exec", "env -S", "git -c"} {
		f.Add(seed)
	}
	for _, form := range hostileForms(f) {
		f.Add(form.text)
	}
	set, err := guard.Build()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		begin := time.Now()
		got := shell.Parse(text)
		if took := time.Since(begin); took > slow {
			t.Errorf("took %s for %d bytes", took, len(text))
		}
		if strings.Contains(got.Unclear, "the parser failed") {
			t.Error(got.Unclear)
		}
		if len(got.Commands) > shell.MaxCommands {
			t.Errorf("%d commands", len(got.Commands))
		}
		for _, c := range got.Commands {
			if len(c) == 0 {
				t.Error("a command without a name")
			}
		}
		set.Judge(guard.Action{Tool: "bash", Commands: got.Commands, Loose: got.Loose, Unclear: got.Unclear})
		first := shell.Parse("git push --force\n" + text)
		if v := set.Judge(guard.Action{Tool: "bash", Commands: first.Commands, Loose: first.Loose, Unclear: first.Unclear}); v.Action == guard.Allow {
			t.Errorf("allowed with %q behind it", text)
		}
	})
}

func TestParseBoundedTime(t *testing.T) {
	t.Parallel()
	fill := func(piece string) string { return strings.Repeat(piece, shell.MaxText/len(piece)) }
	for _, piece := range []string{"(", "$(", "((", "{ ", "`", "a|", "f(){ ", "if a; then ", "<(", "\"$(", "env ", "sh -c a ", "find -exec ", "docker rm ", "${a:-", "{a,", "a{1,2} ", "alias a=b;", "\\", "'", "x=(", "[[ ", "git -c alias.a=b a;", "sudo -x rm ", "cp a b;", "cp /a b;b;", "x=a;((x));", "((a[", "x=$y;((x));", "echo a>b;sh b;", "ln -s /a b;", "unknown git push ", "sed s/a/b/;", "awk {|;", "env -S ", "\"a\" "} {
		t.Run("GUARD-5 bounded time: "+piece, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			shell.Parse(fill(piece))
			if took := time.Since(begin); took > slow {
				t.Errorf("took %s", took)
			}
		})
	}
}
