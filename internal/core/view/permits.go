package view

import (
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Permit is a tool that an agent has, and the rules of its file about it: patterns of paths or commands by what happens
// to a call that matches. The pattern "*" stands for all that no other names. A tool without rules is allowed.
type Permit struct {
	Tool  string   `json:"tool"`
	Allow []string `json:"allow,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Permits lists the tools of an agent in the order of its file (ID-11). Rules over several tools are not in it.
func Permits(a events.Agent) []Permit {
	out := make([]Permit, 0, len(a.Tools))
	for _, name := range a.Tools {
		p := Permit{Tool: name}
		for _, r := range a.Guards {
			if r.Tool != name || r.Remove {
				continue
			}
			switch of := ruleOf(r); r.Action {
			case "allow":
				p.Allow = append(p.Allow, of)
			case "ask":
				p.Ask = append(p.Ask, of)
			case "deny":
				p.Deny = append(p.Deny, of)
			}
		}
		out = append(out, p)
	}
	return out
}

// ruleOf is what a rule is about, in one word or pattern.
func ruleOf(r events.Rule) string {
	switch m := r.Match; {
	case m.Path != "":
		return m.Path
	case m.Glob != "":
		return m.Glob
	case len(m.Argv) > 0:
		return strings.Join(m.Argv, " ")
	case m.PathOutside != "":
		return "outside of the " + m.PathOutside
	case len(m.FlagsAny) > 0:
		return strings.Join(m.FlagsAny, ",")
	case len(m.FlagsAll) > 0:
		return strings.Join(m.FlagsAll, " ")
	}
	return rest
}

const rest = "*"

// maxPattern is how much of a pattern a list shows.
const maxPattern = 24

// String is the permit in a list: the tool, and behind a colon what of it is permitted, in short.
func (p Permit) String() string {
	has := func(all []string) bool {
		for _, of := range all {
			if of == rest {
				return true
			}
		}
		return false
	}
	switch {
	case has(p.Deny) && len(p.Allow) == 1:
		return p.Tool + ":" + Clip(p.Allow[0], maxPattern)
	case has(p.Deny) && len(p.Allow) > 1:
		return p.Tool + ":some"
	case has(p.Deny):
		return p.Tool + ":no"
	case has(p.Ask):
		return p.Tool + ":asks"
	case len(p.Deny) > 0:
		return p.Tool + ":most"
	case len(p.Ask) > 0:
		return p.Tool + ":asks-some"
	}
	return p.Tool
}

// PermitsText is the permits of an agent in one line.
func PermitsText(a events.Agent) string {
	var words []string
	for _, p := range Permits(a) {
		words = append(words, p.String())
	}
	return strings.Join(words, " ")
}
