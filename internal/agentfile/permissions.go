package agentfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/nearest"
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
			p.fail(&Error{Code: CodeDuplicate, Line: pr.line, Path: pr.value.path, Message: "a rule under guards has the id " + r.ID, Hint: "give that rule another id"})
		}
		out = append(out, r)
	}
	for _, pr := range all.pairs {
		switch {
		case pr.key == "ref":
			p.walk(pr.value, text(), inForce)
			p.warn(Warning{Code: CodeNoEffect, Line: pr.value.line, Path: pr.value.path, Message: "accepted, has no effect yet", Hint: "the rules it names are not loaded; write them under guards"})
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
			r := events.Rule{ID: fmt.Sprintf("%s-%d", id, i+1), Tool: pr.key, Match: events.Match{Glob: by.key}, Action: by.value.str()}
			switch {
			case strings.TrimSpace(by.key) == "" || len(by.key) > maxPattern:
				p.fail(&Error{Code: CodeValue, Line: by.line, Path: pr.value.path, Message: "the pattern is not permitted", Expected: fmt.Sprintf("1 to %d bytes", maxPattern), Actual: shown(by.key)})
			case slices.Contains(filed, pr.key):
				r.Match = events.Match{Path: by.key}
			case pr.key != "bash":
				p.fail(&Error{Code: CodeValue, Line: by.line, Path: pr.value.path, Message: "patterns go with bash and the file tools only", Expected: "allow, deny or ask for " + pr.key})
			}
			add(by, r)
		}
	}
	return out
}

// external is permissions.external_directory (GUARD-12): deny is always in force, and nothing else is given.
func (p *parsing) external(pr pair, action shape) {
	p.walk(pr.value, action, inForce)
	if pr.value.str() != "deny" {
		p.warn(Warning{Code: CodeNoEffect, Line: pr.value.line, Path: pr.value.path, Message: "accepted, has no effect yet", Hint: "paths outside of the workspace are never reachable for the file tools"})
	}
}

// guardable reports whether a key of permissions names a tool that the agent has.
func (p *parsing) guardable(root *node, pr pair) bool {
	known := root.child("tools").words()
	switch {
	case pr.key == "bash", slices.Contains(known, pr.key), strings.ContainsAny(pr.key, "*?{") && len(pr.key) <= maxPattern:
		return true
	}
	e := &Error{Code: CodeUnknown, Line: pr.line, Path: pr.value.path, Message: "the agent has no such tool", Expected: "a tool of the agent, a glob over tools, ref or external_directory", Actual: shown(pr.key)}
	if near := nearest.Word(pr.key, append(known, "bash", "external_directory", "ref")); near != "" {
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
