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
		case "ctx":
			return part{kind: context, s: rest}, rest != ""
		case "states":
			id, ok := strings.CutSuffix(rest, ".output")
			return part{kind: output, s: id}, ok && id != ""
		}
		return part{kind: variable, s: name}, false
	},
	hint: `write ${input.key} for the input, {{ctx.key}} for what a state before it gave, or a backslash before these signs`,
}

// Types of states that a workflow may have.
const (
	agentState    = "agent"
	harnessState  = "harness_agent"
	parallelState = "parallel"
)

// refused are the types of states that the format has and no run can carry out.
var refused = []string{"switch", "foreach", "try", "human_approval", "inject", "timer", "tool", "transform", "subflow",
	"wait", "operation", "event"}

// state of a workflow.
type state struct {
	name, next ref
	end        bool
	result     string
	// step is nil for a parallel state, which has branches: each a list of states.
	step     *step
	branches [][]*state
}

// parseWorkflow reads a workflow file.
func parseWorkflow(src *source, root *node, f reader) *Formula {
	f.keys(root, []string{"id", "name", "description", "version", "input", "git", "session_id", "start", "states"},
		map[string]string{
			"output":  "the output of the last states is that of the run",
			"timeout": "inspan formula run --timeout bounds the whole run"})
	m := &Formula{Name: f.word(root.child("id")), Type: Workflow, src: src,
		description: f.text(root.child("description"), inYAML),
		Session:     f.word(root.child("session_id")), given: given(root)}
	if root.child("id") == nil {
		f.add(root.at, "id", CodeMissing, "add id: NAME", "the workflow has no id")
	}
	m.Vars = f.input(root.child("input"))
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
	w := &flow{f: f, results: map[string][]string{}}
	states := w.states(root.child("states"))
	w.follow(states, f.word(root.child("start")), root, nil)
	m.steps = w.steps
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

// flow turns states into steps.
type flow struct {
	f     reader
	steps []*step
	// results are the steps that give each value of the context.
	results map[string][]string
	all     int
}

func (w *flow) states(n *node) []*state {
	var out []*state
	for _, item := range w.f.list(n, MaxSteps) {
		if w.f.is(item, isMap) {
			out = append(out, w.state(item))
		}
	}
	return out
}

// settings are what a state may set for its agent alone in other programs.
var settings = []string{"harness", "max_steps", "timeout", "sandbox", "autonomy", "budget", "tools", "model"}

func (w *flow) state(n *node) *state {
	f := w.f
	no := map[string]string{"catch": "a run fails with its step", "retry": unsupported["retry"],
		"onErrors": "a run fails with its step",
		"output":   "use resultPath", "session_id": "set session_id of the workflow: all states share it"}
	for _, key := range settings {
		no[key] = "set it in a file of an agent of its own, and name that agent here"
	}
	f.keys(n, []string{"name", "id", "type", "agent", "input", "transition", "next", "end", "resultPath", "branches",
		"states", "critical", "accept", "child"}, no)
	s := &state{name: w.name(n), end: f.flag(n.child("end")),
		result: strings.TrimPrefix(strings.TrimPrefix(f.word(n.child("resultPath")), "$."), "ctx.")}
	s.next = w.next(n)
	if s.end && s.next.name != "" {
		f.wrong(n.child("end"), CodeValue, "leave one of them out", "a state that ends the workflow has no next one")
	}
	kind := f.word(n.child("type"))
	switch {
	case kind == parallelState || kind == "" && n.child("branches") != nil:
		w.parallel(s, n)
	case slices.Contains(refused, kind):
		f.wrong(n.child("type"), CodeUnsupported, "there are agent, harness_agent and parallel",
			"a state of type %s is not supported", kind)
	case kind != "" && kind != agentState && kind != harnessState:
		f.wrong(n.child("type"), CodeValue, "there are agent, harness_agent and parallel", "%s is no type of a state",
			shown(kind))
	default:
		if b := n.child("branches"); b != nil {
			f.wrong(b, CodeValue, "write type: parallel", "a state of type agent has no branches")
		}
		s.step = &step{id: s.name.name, agent: f.agentOf(n), body: w.task(n), critical: f.flag(n.child("critical")),
			accept: f.accept(n.child("accept"), inYAML),
			child:  f.oneOf(n.child("child"), events.ChildOwn, events.ChildShared), at: n.at, path: n.path,
			given: given(n)}
	}
	return s
}

// name is that of a state, which is the id of its step.
func (w *flow) name(n *node) ref {
	c := n.child("name")
	if c == nil {
		c = n.child("id")
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
func (w *flow) next(n *node) ref {
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

// task is what the agent of a state is asked to do: a text, or a mapping of texts.
func (w *flow) task(n *node) text {
	in := n.child("input")
	switch {
	case in == nil:
		w.f.add(n.at, join(n.path, "input"), CodeMissing, "say what the agent is to do", "the state has no input")
		return text{}
	case in.kind != isMap:
		return w.f.text(in, inYAML)
	}
	t := text{at: in.at, path: in.path}
	for _, p := range in.pairs {
		if p.value.kind != isText {
			if value, ok := w.f.scalar(p.value); ok {
				t.literal(p.key + ": " + value + "\n")
			}
			continue
		}
		t.literal(p.key + ": ")
		t.add(w.f.text(p.value, inYAML))
		t.literal("\n")
	}
	return t
}

// parallel reads branches: each is a state itself, or has states.
func (w *flow) parallel(s *state, n *node) {
	for _, b := range w.f.list(n.child("branches"), MaxSteps) {
		if !w.f.is(b, isMap) {
			continue
		}
		if list := b.child("states"); list != nil {
			w.f.keys(b, []string{"name", "states"}, nil)
			s.branches = append(s.branches, w.states(list))
		} else {
			s.branches = append(s.branches, []*state{w.state(b)})
		}
	}
	if len(s.branches) == 0 {
		w.f.add(n.at, join(n.path, "branches"), CodeMissing, "add branches: with at least one state",
			"the state %s has no branches", shown(s.name.name))
	}
}

// follow makes the steps of a list of states that begin after some steps, and returns the steps that it ends with. A
// state that names no next one goes on with the one behind it.
func (w *flow) follow(states []*state, start string, n *node, after []ref) []ref {
	seen := make([]bool, len(states))
	find := func(r ref) int {
		i := slices.IndexFunc(states, func(s *state) bool { return s.name.name == r.name })
		if i < 0 && r.name != "" {
			var names []string
			for _, s := range states {
				names = append(names, s.name.name)
			}
			w.f.add(r.at, r.path, CodeReference, near(r.name, names), "there is no state %s here", shown(r.name))
		}
		return i
	}
	i := 0
	if start != "" {
		i = find(ref{start, n.child("start").at, "start"})
	}
	for i >= 0 && i < len(states) {
		s := states[i]
		if seen[i] {
			w.f.add(s.name.at, s.name.path, CodeCycle, "a workflow has no loops",
				"the state %s comes again after itself", shown(s.name.name))
			return after
		}
		seen[i] = true
		after = w.enter(s, after)
		switch {
		case s.end:
			i = -1
		case s.next.name != "":
			i = find(s.next)
		default:
			i++
		}
	}
	for k, s := range states {
		if !seen[k] && len(w.f.found) == 0 {
			w.f.add(s.name.at, s.name.path, CodeReference, "name it as the next of another state, or remove it",
				"the state %s is never reached", shown(s.name.name))
		}
	}
	return after
}

// enter makes the steps of one state.
func (w *flow) enter(s *state, after []ref) []ref {
	var ends []ref
	if s.step != nil {
		s.step.needs = append(s.step.needs, after...)
		w.steps = append(w.steps, s.step)
		ends = []ref{s.name}
	}
	for _, branch := range s.branches {
		if w.all++; w.all > MaxSteps {
			return after
		}
		ends = append(ends, w.follow(branch, "", nil, after)...)
	}
	if len(ends) == 0 {
		return after
	}
	if s.result != "" {
		var names []string
		for _, r := range ends {
			names = append(names, r.name)
		}
		w.results[s.result] = names
	}
	return ends
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
			steps, ok := w.results[p.s]
			if !ok {
				w.f.add(t.at.find(p.written), t.path, CodeReference, "give a state before it resultPath: "+p.s,
					"no state gives %s", shown(p.written))
			}
			for i, id := range steps {
				if i > 0 {
					out.literal(" and ")
				}
				out.parts = append(out.parts, part{output, id, p.written})
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
		out.parts = append(out.parts, part{variable, v.Name, p.written})
	}
}
