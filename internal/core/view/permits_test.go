package view_test

import (
	"testing"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

func TestPermits(t *testing.T) {
	t.Parallel()
	rule := func(tool, action string, m events.Match) events.Rule {
		return events.Rule{ID: "r", Tool: tool, Action: action, Match: m}
	}
	path := func(p string) events.Match { return events.Match{Path: p} }
	for want, a := range map[string]events.Agent{
		"read write": {Tools: []string{"read", "write"}},
		"read write:review.md": {Tools: []string{"read", "write"}, Guards: []events.Rule{rule("write", "allow", path("review.md")),
			rule("write", "deny", events.Match{})}},
		"edit:some": {Tools: []string{"edit"}, Guards: []events.Rule{rule("edit", "allow", path("a")), rule("edit", "allow", path("b")),
			rule("edit", "deny", events.Match{})}},
		"edit:most": {Tools: []string{"edit"}, Guards: []events.Rule{rule("edit", "deny", path("*_test.go")), rule("edit", "allow", events.Match{})}},
		"write:no":  {Tools: []string{"write"}, Guards: []events.Rule{rule("write", "deny", events.Match{})}},
		"bash:asks": {Tools: []string{"bash"}, Guards: []events.Rule{rule("bash", "allow", events.Match{Glob: "go test *"}),
			rule("bash", "ask", events.Match{})}},
		"bash:asks-some": {Tools: []string{"bash"}, Guards: []events.Rule{rule("bash", "ask", events.Match{Argv: []string{"curl", "**"}}),
			rule("*", "deny", events.Match{}), {Tool: "bash", ID: "x", Remove: true}}},
	} {
		t.Run("ID-11 "+want, func(t *testing.T) {
			t.Parallel()
			if got := view.PermitsText(a); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	t.Run("ID-11 the rules of a tool are listed by what happens", func(t *testing.T) {
		t.Parallel()
		got := view.Permits(events.Agent{Tools: []string{"bash"}, Guards: []events.Rule{rule("bash", "ask", events.Match{Argv: []string{"git", "**", "push"}}),
			rule("bash", "deny", events.Match{FlagsAny: []string{"-f", "--force"}})}})
		if len(got) != 1 || got[0].Ask[0] != "git ** push" || got[0].Deny[0] != "-f,--force" || got[0].Allow != nil {
			t.Errorf("%+v", got)
		}
	})
}
