package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/shell"
)

// corpus reads the lines of a file that are no comments; \n in a line is a line's end.
func corpus(t testing.TB, name string, atLeast int) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.SplitSeq(string(b), "\n") {
		if line != "" && !strings.HasPrefix(line, "# ") {
			lines = append(lines, line)
		}
	}
	if len(lines) < atLeast {
		t.Fatalf("%s: %d lines, want at least %d", name, len(lines), atLeast)
	}
	return lines
}

func judge(t *testing.T, text string) (guard.Verdict, shell.Result) {
	t.Helper()
	set, err := guard.Build()
	if err != nil {
		t.Fatal(err)
	}
	parsed := shell.Parse(text)
	return set.Judge(guard.Action{Tool: "bash", Commands: parsed.Commands, Loose: parsed.Loose, Unclear: parsed.Unclear}), parsed
}

func TestBypasses(t *testing.T) {
	t.Parallel()
	for i, line := range corpus(t, "bypasses.txt", 120) {
		action, rest, _ := strings.Cut(line, " ")
		rule, text, _ := strings.Cut(rest, " ")
		text = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text)
		t.Run(fmt.Sprintf("GUARD-5 GUARD-7 way around %d: %s", i, text), func(t *testing.T) {
			t.Parallel()
			got, parsed := judge(t, text)
			if got.Action != action || rule != "-" && got.Rule != rule {
				t.Errorf("got %s by %q (%s), want %s by %q\ncommands %q\nunclear %q", got.Action, got.Rule, got.Reason, action, rule, parsed.Commands, parsed.Unclear)
			}
			if got.Reason == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestHarmless(t *testing.T) {
	t.Parallel()
	for i, line := range corpus(t, "harmless.txt", 60) {
		text := strings.ReplaceAll(line, `\n`, "\n")
		t.Run(fmt.Sprintf("GUARD-5 GUARD-10 harmless %d: %s", i, text), func(t *testing.T) {
			t.Parallel()
			if got, parsed := judge(t, text); got.Action != guard.Allow {
				t.Errorf("got %s by %q (%s)\ncommands %q", got.Action, got.Rule, got.Reason, parsed.Commands)
			}
		})
	}
}

func TestPullRequests(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-8 a pull request outside of the flow that is meant for it is denied, and may be looked at", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{"gh pr create --fill": guard.Deny, "cd x && gh -R a/b pr new": guard.Deny, "gh pr merge 3": guard.Deny, "glab mr create": guard.Deny,
			"sh -c 'hub pull-request'": guard.Deny, "gh pr view 3": guard.Allow, "glab mr list": guard.Allow} {
			if got, _ := judge(t, text); got.Action != want {
				t.Errorf("%s: %+v, want %s", text, got, want)
			}
		}
	})
}
