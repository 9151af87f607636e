package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const fixer = `turns:
  - when: {turn: 1}
    calls:
      - {name: write, input: {path: made.txt, content: "a\nb\nc\nd\ne\nf\ng\nh\ni\n"}}
      - {name: edit, input: {path: list.txt, old_string: "two", new_string: "TWO\u001b[2J"}}
      - {name: bash, input: {command: "echo by a command > other.txt"}}
  - when: {turn: 2}
    calls:
      - {name: write, input: {path: list.txt, content: "one\nthree\n"}}
      - {name: apply_patch, input: {patch: "--- a/made.txt\n+++ b/made.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n"}}
      - {name: edit, input: {path: list.txt, old_string: "none", new_string: "x"}}
  - when: {turn: 3}
    text: Fixed.
`

func TestDiffOfStep(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	putFile(t, filepath.Join(c.other, "agents/fixer.prompt"), strings.Replace(agent("fixer", "write, edit, apply_patch, bash"), "mode: host", "mode: auto", 1))
	putFile(t, filepath.Join(c.other, "scripts/fixer.yaml"), fixer)
	c.do(0, nil, "run", "fixer", "fix it", "--id", "fix1")
	t.Run("PLUS-14 inspan diff --step shows what the calls of a step changed, and names those that it cannot see", func(t *testing.T) {
		c.t = t
		s := c.do(0, []string{"+++ b/made.txt\n@@ -0,0 +1,9 @@\n+a\n", "\n-two\n+TWO", "\n-b\n+B\n", "What these calls of the step changed is in no event: 1 call of bash. Once the run has ended, ", "inspan diff fix1 shows all"},
			"diff", "fix1", "--step", "1")
		if strings.Contains(s.out, "none") || strings.Contains(s.out, "other.txt") || strings.Contains(s.err, "edit") {
			t.Errorf("%s%s", s.out, s.err)
		}
		var out struct {
			Step          string
			Calls, Unseen []struct{ Call, Tool, Diff string }
		}
		if err := json.Unmarshal([]byte(c.do(0, nil, "diff", "fix1", "--step", "1", "--json").out), &out); err != nil || len(out.Calls) != 4 || len(out.Unseen) != 1 || out.Unseen[0].Tool != "bash" {
			t.Errorf("%+v %v", out, err)
		}
		c.do(0, []string{"-two"}, "diff", "fix1", "--step", out.Step)
		c.do(2, []string{`run fix1 has no step "9": its steps are ` + out.Step}, "diff", "fix1", "--step", "9")
		c.do(2, []string{"leave out"}, "diff", "fix1", "--step", "1", "--stat")
	})
	t.Run("PLUS-14 the tree shows the beginning of each change, without what a terminal acts on", func(t *testing.T) {
		c.t = t
		s := c.do(0, []string{"write made.txt", "+9 -0", "+a\n", "… 4 more lines, inspan diff fix1 --step ", "-two\n", "+TWO<U+001B>[2J\n", "+B\n"}, "inspect", "fix1")
		if strings.ContainsRune(s.out, '\x1b') {
			t.Errorf("%q", s.out)
		}
	})
}
