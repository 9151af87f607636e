package agentfile

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// rule reads one entry of guards. What cannot be enforced is refused here and not merely reported: a rule that an
// author relies on and no one applies would be an open door.
func (p *parsing) rule(n *node) (events.Rule, bool) {
	if n.kind != isMap {
		return events.Rule{}, false
	}
	r := events.Rule{ID: n.child("id").str(), Tool: n.child("tool").str(), Match: matchOf(n.child("match")),
		Action: n.child("action").str(),
		Reason: n.child("reason").str(), Locked: n.child("locked").yes(), Remove: n.child("remove").yes(),
		Gate: termsOf(n.child("gate"))}
	if e := n.child("except"); e != nil {
		m := matchOf(e)
		r.Except = &m
	}
	before := len(p.errs)
	p.ruleHead(n, r)
	p.conditions(n.child("match"))
	p.conditions(n.child("except"))
	if e := n.child("except"); e != nil && e.kind == isMap && len(e.pairs) == 0 {
		p.failAt(e, Error{Code: CodeValue, Message: "an exception without conditions disables the whole rule",
			Hint: "remove except, or the rule"})
	}
	return r, len(p.errs) == before
}

func (p *parsing) ruleHead(n *node, r events.Rule) {
	const ids = "1 to 64 characters of A-Z a-z 0-9 _ and -"
	switch id := n.child("id"); {
	case id == nil:
		p.fail(&Error{Code: CodeMissing, Line: n.line, Path: join(n.path, "id"), Message: "the key is missing",
			Expected: ids})
	case id.kind == isText && !events.ValidID(r.ID):
		p.failAt(id, Error{Code: CodeValue, Message: "the value is not an id", Expected: ids, Actual: shown(r.ID)})
	}
	if n.child("action") == nil && !r.Remove {
		p.fail(&Error{Code: CodeMissing, Line: n.line, Path: join(n.path, "action"), Message: "the key is missing",
			Expected: "allow, deny or ask"})
	}
	if r.Remove {
		for _, pr := range n.pairs {
			if pr.key != "id" && pr.key != "remove" && !foreign(pr.key) {
				p.fail(&Error{Code: CodeConflict, Line: pr.line, Path: pr.value.path, Message: "a rule with remove has only an id",
					Hint: "to replace a rule omit remove"})
			}
		}
	}
	if g := n.child("gate"); g != nil && r.Action != "ask" {
		p.failAt(g, Error{Code: CodeConflict, Message: "only a rule that asks opens a gate", Expected: "action: ask",
			Hint: "remove gate, or set action: ask"})
	}
	if t := n.child("tool"); t != nil && t.kind == isText && t.text == "" {
		p.failAt(t, Error{Code: CodeValue, Message: "the glob over tools is empty",
			Hint: `leave the key out or write "*"`})
	}
	if on := n.child("on"); on != nil && on.str() != "pre_tool" {
		p.failAt(on, Error{Code: CodeValue, Message: "rules are applied before a call only", Expected: "pre_tool",
			Actual: actual(on), Hint: "declare a hook for it; the rule would have no effect"})
	}
	if roles := n.child("roles"); roles != nil && roles.kind == isList && !slices.Equal(roles.words(), []string{"*"}) {
		p.failAt(roles, Error{Code: CodeValue, Message: "a rule of an agent file applies to this agent in every role",
			Expected: `["*"]`, Hint: "leave roles out"})
	}
	if run := n.child("run"); run != nil {
		p.failAt(run, Error{Code: CodeValue, Message: "a guard rule cannot run a command",
			Hint: "declare it under hooks, with on: pre_tool and the command"})
	}
}

func (p *parsing) conditions(m *node) {
	if m == nil || m.kind != isMap {
		return
	}
	for _, pr := range m.pairs {
		v := pr.value
		empty := v.kind == isList && (len(v.items) == 0 || slices.Contains(v.words(), "")) || v.kind == isText && v.text == ""
		if empty {
			p.failAt(v, Error{Code: CodeValue, Message: "the condition is empty", Hint: "leave the key out"})
		}
	}
}

func matchOf(n *node) events.Match {
	if n == nil || n.kind != isMap {
		return events.Match{}
	}
	return events.Match{Argv: n.child("argv").words(), FlagsAny: n.child("flags_any").words(),
		FlagsAll:     n.child("flags_all").words(),
		RefspecForce: n.child("refspec_force").yes(), Glob: n.child("glob").str(), PathOutside: n.child("path_outside").str(),
		Path: n.child("path").str()}
}
