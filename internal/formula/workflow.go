package formula

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// inYAML is {{ctx.key}}, {{input.key}} and {{states.NAME.output}}, also as ${...}; a backslash keeps it as it is.
var inYAML = dialect{
	template: pattern.New(`\\?(?:\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}|\$\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\})`),
	open:     []string{"{{", "${"},
	part: func(name string) (part, bool) {
		first, rest, _ := strings.Cut(name, ".")
		switch first {
		case "input":
			return part{kind: variable, s: rest}, true // the whole input has no name
		case "workflow":
			name, ok := strings.CutPrefix(rest, "input.")
			return part{kind: variable, s: name}, ok
		case "ctx":
			return part{kind: context, s: rest}, rest != ""
		case "states":
			id, ok := strings.CutSuffix(rest, ".output")
			return part{kind: output, s: id}, ok && id != ""
		}
		return part{kind: context, s: name, bare: true}, true
	},
	hint: `write ${input.key} for the input, {{ctx.key}} for what a state before it gave, or a backslash before these signs`,
}

// Types of states that a workflow may have.
const (
	agentState    = "agent"
	harnessState  = "harness_agent"
	parallelState = "parallel"
	switchState   = "switch"
	foreachState  = "foreach"
	tryState      = "try"
	approvalState = "human_approval"
	injectState   = "inject"
	transform     = "transform"
	timerState    = "timer"
	waitState     = "wait"
)

// refused are the types of states that the format has and no run can carry out, with what to do instead.
var refused = map[string]string{
	"operation": "write type: agent with agent: NAME and input: TEXT; there are operations agent.run",
	"cron":      "leave the state out, and begin the workflow at a time with inspan formula run",
	"tool":      "let an agent that has the tool call it: type: agent",
	"subflow":   "write its states here",
	"event":     "wait for a signal: type: wait with signal: NAME",
}

// types are those that there are, in words.
const types = "there are agent, harness_agent, parallel, switch, foreach, try, human_approval, inject, transform, timer and wait"

// state of a workflow.
type state struct {
	name, next ref
	end        bool
	results    []result
	at         place
	path       string
	// step is nil for a state that has branches or blocks: each a list of states.
	step             *step
	branches         []block
	body, catch      *block
	finally          *block
	switched         []ref
	conditions       []condition
	otherwise, value *node
}

// block is a list of states and the name of the first.
type block struct {
	states []*state
	start  *node
}

// condition of a switch: where it holds the workflow goes on with next.
type condition struct {
	when *node
	next ref
}

// parseWorkflow reads a workflow file.
func parseWorkflow(src *source, root *node, f reader) *Formula {
	f.keys(root, []string{"id", "name", "description", "version", "input", "inputSchema", "git", "session_id", "start",
		"states"},
		map[string]string{
			"outputSchema": "set output in the agent's file, or check it: accept: {checks: [{kind: schema, schema: {...}}]}",
			"output":       "the output of the last states is that of the run",
			"timeout":      "inspan formula run --timeout bounds the whole run"})
	m := &Formula{Name: f.word(root.child("id")), Type: Workflow, src: src,
		description: f.text(root.child("description"), inYAML),
		Session:     f.word(root.child("session_id")), given: given(root)}
	if root.child("id") == nil {
		f.add(root.at, "id", CodeMissing, "add id: NAME", "the workflow has no id")
	}
	in := root.child("input")
	if other := root.child("inputSchema"); other != nil && in != nil {
		f.wrong(other, CodeDuplicate, "leave one of them out", "input and inputSchema say the same thing")
	} else if in == nil {
		in = other
	}
	m.Vars = f.input(in)
	if g := root.child("git"); g != nil {
		f.keys(g, []string{"repo", "url", "ref", "branch"}, nil)
		m.Git = &Git{Repo: f.address(g.child("repo")) + f.address(g.child("url")), Ref: f.address(g.child("ref")),
			Branch: f.address(g.child("branch"))}
	}
	if root.child("states") == nil {
		f.add(root.at, "states", CodeMissing, "add states: with name, type: agent, agent and input",
			"the workflow has no states")
		return m
	}
	r := &stateReader{f: f}
	states := r.states(root.child("states"))
	w := &flow{f: f, vars: m.Vars, results: map[string]value{}, switches: r.switches}
	w.follow(block{states, root.child("start")}, edge{})
	m.steps = w.steps
	w.settle()
	for _, s := range m.steps {
		s.body, s.title = w.bound(s.body, m.Vars), w.bound(s.title, m.Vars)
	}
	m.description = w.bound(m.description, m.Vars)
	return m
}

// address is a text of a git block.
func (f reader) address(n *node) string {
	if n == nil || !f.is(n, isText) {
		return ""
	}
	if len(n.text) > events.MaxAddress {
		f.wrong(n, CodeLimit, "", "the text has %d bytes, the limit is %d", len(n.text), events.MaxAddress)
		return ""
	}
	return n.text
}

// input reads the typed input, as a mapping of names or as a JSON Schema of an object.
func (f reader) input(n *node) []Var {
	if n == nil || !f.is(n, isMap) {
		return nil
	}
	properties := n.child("properties")
	if properties == nil || properties.kind != isMap {
		return f.variables(n)
	}
	f.keys(n, []string{"type", "properties", "required"}, nil)
	if t := f.word(n.child("type")); t != "" && t != "object" {
		f.wrong(n.child("type"), CodeValue, "write type: object", "%s has no properties", shown(t))
	}
	vars := f.variables(properties)
	for _, r := range f.refs(n.child("required"), MaxVars) {
		i := slices.IndexFunc(vars, func(v Var) bool { return v.Name == r.name })
		if i < 0 {
			f.add(r.at, r.path, CodeReference, "", "there is no property %s", shown(r.name))
			continue
		}
		vars[i].Required = vars[i].Default == nil
	}
	return vars
}

// stateReader reads states. item is the name of the item while those of a foreach are read.
type stateReader struct {
	f        reader
	item     string
	switches []*state
}

// flow turns states into steps.
type flow struct {
	f     reader
	vars  []Var
	steps []*step
	// results are the values of the context.
	results map[string]value
	// switches are settled once all values are known.
	switches []*state
	all      int
	// trying is set in a try with a catch, whose steps may fail.
	trying bool
	// data is the value that the switch looks at whose conditions are translated.
	data string
}

func (w *stateReader) states(n *node) []*state {
	var out []*state
	for _, item := range w.f.list(n, MaxSteps) {
		if w.f.is(item, isMap) {
			out = append(out, w.state(item))
		}
	}
	return out
}

// name is that of a state, which is the id of its step.
func (w *stateReader) name(n *node) ref {
	c := n.child("id")
	if c == nil {
		c = n.child("name")
	}
	if c == nil {
		w.f.add(n.at, join(n.path, "name"), CodeMissing, "add name: NAME", "the state has no name")
		return ref{at: n.at, path: n.path}
	}
	name := w.f.word(c)
	if name != "" && (!events.ValidID(name) || name == events.CheckoutStep || name == events.DeliverStep) {
		w.f.wrong(c, CodeValue, "use A-Z a-z 0-9 _ and -, at most 64, and not checkout or deliver",
			"%s is no name of a state", shown(name))
	}
	return ref{name, c.at, c.path}
}

// next is the state that a state names as the one after it.
func (w *stateReader) next(n *node) ref {
	t, x := n.child("transition"), n.child("next")
	if t != nil && x != nil {
		w.f.wrong(x, CodeDuplicate, "leave one of them out", "transition and next say the same thing")
	}
	if t == nil {
		t = x
	}
	if t != nil && t.kind == isMap {
		w.f.keys(t, []string{"nextState"}, nil)
		t = t.child("nextState")
	}
	if t == nil {
		return ref{}
	}
	return ref{w.f.word(t), t.at, t.path}
}

// bound puts the steps that give a value in place of its name in the context, and the names of all input in place of
// the whole of it.
func (w *flow) bound(t text, vars []Var) text {
	out := text{at: t.at, path: t.path}
	for _, p := range t.parts {
		switch {
		case p.kind == literal:
			out.literal(p.s)
		case p.kind == variable && p.s == "":
			w.input(&out, p, vars)
		case p.kind == context:
			v, field, ok := w.find(p.s)
			switch {
			case ok:
			case p.bare && slices.ContainsFunc(vars, func(v Var) bool { return v.Name == p.s }):
				out.parts = append(out.parts, part{kind: variable, s: p.s, written: p.written})
			case p.bare:
				w.f.add(t.at.find(p.written), t.path, CodeTemplate, inYAML.hint, "the template %s names nothing that there is",
					shown(p.written))
			default:
				w.f.add(t.at.find(p.written), t.path, CodeReference, "give a state before it resultPath: "+p.s,
					"no state gives %s", shown(p.written))
			}
			if field != "" {
				out.literal("the field " + field + " of ")
			}
			for i, id := range v.steps {
				if i > 0 {
					out.literal(" and ")
				}
				out.parts = append(out.parts, part{kind: output, s: id, written: p.written})
			}
		default:
			out.parts = append(out.parts, p)
		}
	}
	return out
}

// input is the whole input: the value of the only variable, else a line for each.
func (w *flow) input(out *text, p part, vars []Var) {
	if len(vars) == 0 {
		w.f.add(out.at.find(p.written), out.path, CodeReference, "add input: with a name for each value",
			"the workflow has no input")
	}
	for i, v := range vars {
		if len(vars) > 1 {
			if i > 0 {
				out.literal("\n")
			}
			out.literal(v.Name + ": ")
		}
		out.parts = append(out.parts, part{kind: variable, s: v.Name, written: p.written})
	}
}
