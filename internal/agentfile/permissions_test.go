package agentfile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
)

const permitted = `---
model: scripted/x
tools: [bash, read, write, edit, "mcp:github/search"]
permissions:
  external_directory: deny
  write: deny
  edit: {"docs/*": allow, "*.env": ask, "secret/**": deny}
  bash: {"make *": ask}
  "mcp:*": ask
---
Do it.
`

func TestPermissions(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-12 GUARD-13 permissions give each tool one action, or actions by pattern", func(t *testing.T) {
		t.Parallel()
		a, warnings, err := agentfile.Parse("x.prompt", []byte(permitted))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range warnings {
			if strings.HasPrefix(w.Path, "permissions") {
				t.Errorf("%s", w)
			}
		}
		set, err := guard.Build(a.Guards)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			act        guard.Action
			want, rule string
		}{
			{guard.Action{Tool: "write", Paths: []string{"x"}}, guard.Deny, "permissions-write"},
			{guard.Action{Tool: "edit", Paths: []string{"main.go"}}, guard.Allow, ""},
			{guard.Action{Tool: "edit", Paths: []string{"docs/a.md"}}, guard.Allow, "permissions-edit-1"},
			{guard.Action{Tool: "edit", Paths: []string{"./a/../.env"}}, guard.Ask, "permissions-edit-2"},
			{guard.Action{Tool: "edit", Paths: []string{"a/../secret/b/c"}}, guard.Deny, "permissions-edit-3"},
			{guard.Action{Tool: "edit", Paths: []string{"../x"}, Outside: []string{"../x"}}, guard.Deny, "outside-workspace"},
			{guard.Action{Tool: "read", Paths: []string{"secret/x"}}, guard.Allow, ""},
			{guard.Action{Tool: "bash", Commands: [][]string{{"make", "all"}}}, guard.Ask, "permissions-bash-1"},
			{guard.Action{Tool: "mcp:github/search"}, guard.Ask, "permissions-mcp"},
		} {
			if got := set.Judge(c.act); got.Action != c.want || got.Rule != c.rule {
				t.Errorf("%+v: %+v, want %s by %q", c.act, got, c.want, c.rule)
			}
		}
	})
	t.Run("GUARD-13 what would guard nothing is an error", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ line, code, word string }{
			{"wriet: deny", agentfile.CodeUnknown, "write"}, {"write: true", agentfile.CodeType, ""}, {"write: never", agentfile.CodeValue, "allow"},
			{`"mcp:github/search": {"x": deny}`, agentfile.CodeValue, "patterns"}, {`read: {"": deny}`, agentfile.CodeValue, "1 to"},
			{"external_directory: sometimes", agentfile.CodeValue, ""}, {"write: [deny]", agentfile.CodeType, ""},
		} {
			text := fmt.Sprintf("---\nmodel: scripted/x\ntools: [bash, read, write, \"mcp:github/search\"]\npermissions:\n  %s\n---\nDo it.\n", c.line)
			_, _, err := agentfile.Parse("x.prompt", []byte(text))
			if err == nil || !strings.Contains(err.Error(), c.word) || !hasCode(err, c.code) {
				t.Errorf("%s: %v", c.line, err)
			}
		}
	})
	t.Run("GUARD-2 bad input: hooks and policies that cannot be asked are errors with their place", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ policy, word string }{
			{"rules: []\n", "version"}, {"version: 2\n", "1 to 1"}, {"version: 1\nhook: []\n", "hooks"},
			{"version: 1\nhooks:\n  - {id: h, on: turn}\n", "exactly one"}, {"version: 1\nhooks:\n  - {on: turn, subject: x}\n", "id"},
			{"version: 1\nhooks:\n  - {id: h, on: whenever, subject: x}\n", "on"}, {"version: 1\nhooks:\n  - {id: h, on: turn, subject: x, timeout: 2h}\n", "duration"},
			{"version: 1\nhooks:\n  - {id: h, on: turn, subject: x}\n  - {id: h, on: turn, subject: y}\n", "twice"},
			{"version: 1\nrules:\n  - {id: a, action: deny}\n  - {id: a, action: deny}\n", "two rules"}, {"\x00", "UTF-8"},
		} {
			if _, _, err := agentfile.ParsePolicy("policy.yaml", []byte(c.policy)); err == nil || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), "policy.yaml") {
				t.Errorf("%q: %v", c.policy, err)
			}
		}
	})
}

// hasCode reports whether one of the joined errors has a code.
func hasCode(err error, code string) bool {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range all.Unwrap() {
		if one, ok := errors.AsType[*agentfile.Error](e); ok && one.Code == code {
			return true
		}
	}
	return false
}
