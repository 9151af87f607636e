package formula

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Compiled is what a formula gives with values for its variables.
type Compiled struct {
	Formula events.Formula `json:"formula"`
	Agent   string         `json:"agent,omitempty"`
	Session string         `json:"session_id,omitempty"`
	Git     *Git           `json:"git,omitempty"`
	Task    string         `json:"task"`
	// Plan is nil for a checklist, which stands in Task.
	Plan  *events.TaskPlan `json:"plan,omitempty"`
	Files []File           `json:"files"`
	// Variables are the values that were put in.
	Variables map[string]string `json:"variables,omitempty"`
}

// Digest is of all files that the formula is made of and of their names, in hex.
func (m *Formula) Digest() string {
	files := slices.Clone(m.Files)
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	var b strings.Builder
	b.WriteString("inspan formula 1\n")
	for _, x := range slices.Compact(files) {
		fmt.Fprintf(&b, "%q %s\n", x.Name, x.Digest)
	}
	return digest([]byte(b.String()))
}

// Description is what it is for, with the templates as they were written.
func (m *Formula) Description() string { return m.description.written() }

// Compile gives the plan for values of the variables. Equal values give equal plans.
func (m *Formula) Compile(given map[string]string) (*Compiled, error) {
	f := compiler{&faults{}}
	if m.Type == Expansion || m.Type == Aspect {
		f.add(m.src.start(), "", CodeValue, "use it in [compose] of another formula",
			"a formula of type %s has no plan of its own", m.Type)
		return nil, f.err()
	}
	vars := f.resolve(m.Vars, given, m.src.start())
	if f.found != nil { // no text is made of values that are refused
		return nil, f.err()
	}
	names := make([]string, len(m.Vars))
	for i, v := range m.Vars {
		names[i] = v.Name
	}
	c := &Compiled{Formula: events.Formula{Name: m.Name, Digest: m.Digest()}, Agent: m.Agent, Session: m.Session,
		Git:  m.Git,
		Task: m.description.fill(f.faults, vars, names), Files: m.Files, Variables: vars}
	if c.Task == "" {
		c.Task = "Carry out the formula " + m.Name + "."
	}
	plan := &events.TaskPlan{Steps: make([]events.TaskStep, 0, len(m.steps))}
	for _, s := range m.steps {
		st := events.TaskStep{ID: s.id, Description: s.description().fill(f.faults, vars, names), Agent: s.agent,
			Critical: s.critical, Child: s.child, ByHarness: s.byHarness && s.child == "",
			Accept: s.accept}
		if s.flow != (events.StepFlow{}) {
			flow := s.flow
			st.Flow = &flow
		}
		if st.Description == "" { // no agent reads it
			st.Description = strings.Join(s.summary(), ", ")
		}
		for _, r := range s.needs {
			st.Needs = append(st.Needs, r.name)
		}
		if len(st.Description) > events.MaxDescription {
			f.add(s.at, s.path, CodeLimit, "put long material in a file of the workspace, and name the file",
				"the description of step %s has %d bytes, the limit is %d", s.id, len(st.Description),
				events.MaxDescription)
		}
		plan.Steps = append(plan.Steps, st)
		plan.Vars = typed(plan.Vars, m.Vars, s.uses, vars)
	}
	if m.Inline {
		c.Task += "\n\n" + checklist(plan)
	} else {
		c.Plan = plan
	}
	f.size(m, c)
	if err := f.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// size refuses what a station would: a task that is too long, or a plan that no event has room for.
func (f compiler) size(m *Formula, c *Compiled) {
	if len(c.Task) > events.MaxTask {
		f.add(m.src.start(), "", CodeLimit, "put long material in a file of the workspace, and name the file",
			"the task has %d bytes, the limit is %d", len(c.Task), events.MaxTask)
	}
	whole, err := json.Marshal(c.Plan)
	if err == nil && len(whole) > MaxPlan {
		f.add(m.src.start(), "", CodeLimit, "shorten the descriptions, or split the formula",
			"the plan has %d bytes, the limit is %d", len(whole), MaxPlan)
	}
}

// checklist is a plan as text for the one agent that works it off.
func checklist(p *events.TaskPlan) string {
	var b strings.Builder
	b.WriteString("Work off this list, in this order:\n")
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "\n%d. [ ] %s: %s\n", i+1, s.ID, strings.ReplaceAll(s.Description, "\n", "\n   "))
	}
	return b.String()
}

// written is the text as its file has it.
func (t text) written() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.kind == literal {
			b.WriteString(p.s)
		}
		b.WriteString(p.written)
	}
	return b.String()
}
