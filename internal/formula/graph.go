package formula

import (
	"fmt"
	"strings"
)

// Step is a step of a formula as people are shown it.
type Step struct {
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Needs are the steps that come before it. Wave is 1 for a step that needs none, else one more than the highest of
	// these: steps of one wave can run at the same time.
	Needs    []string `json:"needs"`
	Wave     int      `json:"wave"`
	Critical bool     `json:"critical,omitempty"`
	Child    string   `json:"child,omitempty"`
	// Checks decide that it is done; Commands are those of them that run one.
	Checks   int      `json:"checks,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Flow says when and how often it is carried out; empty for once.
	Flow []string `json:"flow,omitempty"`
	// File and Line are where it stands.
	File string `json:"file"`
	Line int    `json:"line"`
}

// Steps are those of the formula, each behind those that it needs.
func (m *Formula) Steps() []Step {
	out := make([]Step, 0, len(m.steps))
	waves := map[string]int{}
	for _, s := range m.steps {
		var at Error
		s.at.into(&at)
		v := Step{ID: s.id, Title: s.title.written(), Agent: s.agent, Needs: []string{}, Wave: 1, Critical: s.critical,
			Child: s.child, Flow: s.summary(),
			File: at.File, Line: at.Line}
		if v.Title == "" {
			v.Title, _, _ = strings.Cut(s.body.written(), "\n")
		}
		if v.Agent == "" && (!s.flow.Controls() && !s.flow.Check || s.flow.Wake != nil) {
			v.Agent = m.Agent
		}
		for _, r := range s.needs {
			v.Needs = append(v.Needs, r.name)
			v.Wave = max(v.Wave, waves[r.name]+1)
		}
		if s.accept != nil {
			v.Checks = len(s.accept.Checks)
			for _, c := range s.accept.Checks {
				if c.Run != "" {
					v.Commands = append(v.Commands, c.Run)
				}
			}
		}
		waves[s.id] = v.Wave
		out = append(out, v)
	}
	return out
}

// DOT is the graph of the steps in the language of Graphviz. What stands in it is quoted.
func (m *Formula) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotted(m.Name))
	for _, s := range m.Steps() {
		label := s.ID
		if s.Agent != "" {
			label += "\n" + s.Agent
		}
		style := ""
		if s.Critical {
			style = ", peripheries=2"
		}
		fmt.Fprintf(&b, "  %s [label=%s%s];\n", dotted(s.ID), dotted(label), style)
	}
	for _, s := range m.Steps() {
		for _, need := range s.Needs {
			fmt.Fprintf(&b, "  %s -> %s;\n", dotted(need), dotted(s.ID))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// dotted is a text as a quoted string of the language.
func dotted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
