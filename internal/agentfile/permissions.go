package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/pkg/events"
)

// filed are the tools whose patterns are about a path; those of bash are about a simple command.
var filed = []string{"read", "write", "edit", "apply_patch", "glob", "grep"}

// permissions turns the short form of guard rules into rules: for each tool one action, or actions by pattern. What
// would guard nothing is refused.
func (p *parsing) permissions(root *node, seen map[string]bool) []events.Rule {
	all := root.child("permissions")
	if all == nil || all.kind != isMap {
		return nil
	}
	action := oneOf("allow", "deny", "ask")
	var out []events.Rule
	add := func(pr pair, r events.Rule) {
		if seen[r.ID] {
			p.fail(&Error{Code: CodeDuplicate, Line: pr.line, Path: pr.value.path, Message: "a rule under guards has the id " +
				r.ID, Hint: "give that rule another id"})
		}
		out = append(out, r)
	}
	for _, pr := range all.pairs {
		switch {
		case pr.key == "ref":
			p.walk(pr.value, text(), inForce)
			p.warn(Warning{Code: CodeNoEffect, Line: pr.value.line, Path: pr.value.path, Message: "accepted, has no effect yet",
				Hint: "the rules it names are not loaded; write them under guards"})
			continue
		case pr.key == "external_directory":
			p.external(pr, action)
			continue
		case foreign(pr.key) || !p.guardable(root, pr):
			continue
		}
		id := "permissions-" + strings.Trim(strings.Map(idSign, pr.key), "-")
		if pr.value.kind == isText {
			p.walk(pr.value, action, inForce)
			add(pr, events.Rule{ID: id, Tool: pr.key, Action: pr.value.str()})
			continue
		}
		p.walk(pr.value, shape{kinds: []kind{isText, isMap}, each: &action, most: MaxRules}, inForce)
		for i, by := range pr.value.pairs {
			r := events.Rule{ID: fmt.Sprintf("%s-%d", id, i+1), Tool: pr.key, Match: about(pr.key, by.key),
				Action: by.value.str()}
			switch {
			case strings.TrimSpace(by.key) == "" || len(by.key) > maxPattern:
				p.fail(&Error{Code: CodeValue, Line: by.line, Path: pr.value.path, Message: "the pattern is not permitted",
					Expected: fmt.Sprintf("1 to %d bytes", maxPattern), Actual: shown(by.key)})
			case pr.key != "bash" && !slices.Contains(filed, pr.key):
				p.fail(&Error{Code: CodeValue, Line: by.line, Path: pr.value.path,
					Message: "patterns are allowed only for bash and the file tools", Expected: "allow, deny or ask for " + pr.key})
			case everything(by.key):
				r.Match, r.Except = events.Match{}, p.besides(pr, by)
			}
			add(by, r)
		}
	}
	return out
}

// about is what a pattern of a tool is a condition on.
func about(tool, pattern string) events.Match {
	if slices.Contains(filed, tool) {
		return events.Match{Path: pattern}
	}
	return events.Match{Glob: pattern}
}

// everything reports whether a pattern stands for all that no other one names.
func everything(pattern string) bool { return pattern != "" && strings.Trim(pattern, "*") == "" }

// besides is what a pattern that stands for everything leaves to the others of its tool: where one of these is less
// strict, it decides. Without that nothing could be permitted below a "*" that denies, because of two rules the
// stricter wins.
func (p *parsing) besides(tool, all pair) *events.Match {
	strict := func(action string) int { return slices.Index([]string{"allow", "ask", "deny"}, action) }
	var others []string
	for _, by := range tool.value.pairs {
		if !everything(by.key) && strict(by.value.str()) < strict(all.value.str()) {
			others = append(others, sealed(by.key))
		}
	}
	if len(others) == 0 {
		return nil
	}
	m := about(tool.key, "{"+strings.Join(others, ",")+"}")
	if n := max(len(m.Path), len(m.Glob)); n > maxPattern {
		p.fail(&Error{Code: CodeLimit, Line: all.line, Path: tool.value.path, Message: "the patterns for " + shown(all.key) +
			" are too long together", Expected: fmt.Sprintf("at most %d bytes", maxPattern), Actual: fmt.Sprint(n),
			Hint: "name folders instead of files, or write rules under guards"})
	}
	return &m
}

// sealed is a pattern that can stand between commas of braces: those of its own are no such commas.
func sealed(pattern string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			b.WriteByte(c)
			i++
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			b.WriteByte('\\')
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// external is permissions.external_directory (GUARD-12): deny is always in force, and nothing else is given.
func (p *parsing) external(pr pair, action shape) {
	p.walk(pr.value, action, inForce)
	if pr.value.str() != "deny" {
		p.warn(Warning{Code: CodeNoEffect, Line: pr.value.line, Path: pr.value.path, Message: "accepted, has no effect yet",
			Hint: "the file tools never reach paths outside the workspace"})
	}
}

// guardable reports whether a key of permissions names a tool that the agent has.
func (p *parsing) guardable(root *node, pr pair) bool {
	known := root.child("tools").words()
	switch {
	case pr.key == "bash", slices.Contains(known, pr.key), slices.Contains([]string{"edit", "write"}, pr.key) &&
		slices.Contains(known, "apply_patch"), strings.ContainsAny(pr.key, "*?{") && len(pr.key) <= maxPattern:
		return true
	}
	e := &Error{Code: CodeUnknown, Line: pr.line, Path: pr.value.path, Message: "the agent has no such tool",
		Expected: "a tool of the agent, a glob over tools, ref or external_directory", Actual: shown(pr.key)}
	if near := didyoumean.Word(pr.key, append(known, "bash", "external_directory", "ref")); near != "" {
		e.Hint = "did you mean " + near + "?"
	}
	p.fail(e)
	return false
}

// idSign keeps what an id may hold.
func idSign(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '-'
}
