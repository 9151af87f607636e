package formula

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// What a formula is for.
const (
	Workflow  = "workflow"
	Convoy    = "convoy"
	Expansion = "expansion"
	Aspect    = "aspect"
)

// Formula is a formula or a workflow, with all that it extends put in.
type Formula struct {
	Name string
	Type string
	// Inline formulas are a checklist for one agent, others a plan of steps.
	Inline bool
	// Agent of the steps that name none; empty leaves it to whoever runs the formula.
	Agent string
	// Session that the run goes on in; empty for none. Git is where it works; nil for nowhere in particular.
	Session string
	Git     *Git
	Vars    []Var
	// Files that it is made of, its own first.
	Files []File

	description text
	steps       []*step
	// timeout and retry of the steps that have none of their own.
	timeout, retry *node
	pieces
	src *source
	// given are the keys that its own file has.
	given map[string]bool
}

// pieces are what a formula is made of beside its steps.
type pieces struct {
	extends, aspects []ref
	expansions       []expansion
	// template are the steps of an expansion, advice those of an aspect.
	template []*step
	advice   []advice
	points   []ref
}

// File is a file that a formula is made of.
type File struct {
	Name string `json:"name"`
	// Digest is the SHA-256 of its bytes, in hex.
	Digest string `json:"digest"`
}

// Git is the repository that a workflow names.
type Git struct{ Repo, Ref, Branch string }

// step of a formula, before it is part of a plan.
type step struct {
	id          string
	title, body text
	acceptance  text
	agent       string
	needs       []ref
	critical    bool
	child       string
	// byHarness is true for a state whose agent's file says whether it runs through the harness.
	byHarness bool
	accept    *events.Accept
	// synthesis is true for the step of a convoy that gets the results of all others; on is its list of them, if it has
	// one.
	synthesis bool
	on        *node
	at        place
	path      string
	// given are the keys that the file has for it, keys those of its control flow.
	given map[string]bool
	keys  map[string]*node
	// flow is what keys come to, uses the variables in its expressions.
	flow events.StepFlow
	uses []string
}

// description is what the agent is asked to do.
func (s *step) description() text {
	d := s.title.plus("\n\n", s.body)
	if s.acceptance.empty() {
		return d
	}
	return d.plus("\n\nDone when: ", s.acceptance)
}

// unsupported are keys of a step that the format has and no run can carry out.
var unsupported = map[string]string{
	"bond":      "write what is to be done with each item into the step that has for_each",
	"output":    "set output in the agent's file, or check it: accept = {checks = [{kind = \"schema\", schema = {...}}]}",
	"waits_for": "use needs",
	"gate":      "critical = true lets a person approve the step, kind = \"approval\" is a step that waits for one",
	"children":  "write them as steps that need this one",
	"condition": "write when = \"EXPRESSION\"",
}

var stepKeys = append([]string{"id", "title", "description", "message", "needs", "agent", "critical", "child",
	"accept", "acceptance"},
	flowKeys...)

// parse reads a formula without what it extends.
func parse(src *source, root *node, f reader) *Formula {
	f.keys(root, []string{"formula", "description", "type", "version", "tracking", "pour", "extends", "vars", "inputs",
		"defaults", "steps",
		"legs", "synthesis", "compose", "template", "advice", "pointcuts", "order", "session", "expect_digest"},
		map[string]string{
			"prompts": "write the prompt into the descriptions", "output": "set output in the agent's file",
			"squash":  "leave it out: a run keeps its whole log",
			"presets": "leave it out, and give legs a condition on a variable: when = \"vars.deep\""})
	m := &Formula{Name: f.word(root.child("formula")), src: src, description: f.text(root.child("description"), inTOML),
		Type: f.oneOf(root.child("type"), Workflow, Convoy, Expansion, Aspect), Session: f.word(root.child("session")),
		given: given(root)}
	if root.child("formula") == nil {
		f.add(root.at, "formula", CodeMissing, `begin with formula = "NAME"`, "the formula has no name")
	} else if m.Name != "" && !events.ValidID(m.Name) {
		f.wrong(root.child("formula"), CodeValue, "use A-Z a-z 0-9 _ and -, at most 64", "%s is no name of a formula",
			shown(m.Name))
	}
	f.version(root.child("version"))
	m.Inline = f.inline(root)
	m.extends = f.refs(root.child("extends"), MaxInherit)
	if d := root.child("defaults"); d != nil {
		f.keys(d, []string{"agent", "timeout", "retry"}, unsupported)
		m.Agent, m.timeout, m.retry = f.word(d.child("agent")), d.child("timeout"), d.child("retry")
	}
	m.Vars = append(f.variables(root.child("vars")), f.variables(root.child("inputs"))...)
	m.steps = f.steps(root.child("steps"))
	if f.oneOf(root.child("order"), "needs", "sequential") == "sequential" {
		inSequence(m.steps)
	}
	f.compose(m, root)
	f.convoy(m, root)
	if m.Type == "" {
		m.Type = inferred(m, root)
	}
	f.fits(m, root)
	return m
}

func (f reader) version(n *node) {
	if n != nil && f.is(n, isInt) && n.text != "1" && n.text != "2" {
		f.wrong(n, CodeValue, "it is that of the format: write version = 2, and the number of a revision as x-revision",
			"version %s is not known", shown(n.text))
	}
}

// inline reads whether the formula is a checklist.
func (f reader) inline(root *node) bool {
	inline := f.oneOf(root.child("tracking"), "persistent", "inline") == "inline"
	if p := root.child("pour"); p != nil {
		inline = !f.flag(p)
		if root.child("tracking") != nil {
			f.wrong(p, CodeDuplicate, "leave pour out", "pour and tracking say the same thing")
		}
	}
	return inline
}

func inferred(m *Formula, root *node) string {
	switch {
	case root.child("legs") != nil:
		return Convoy
	case root.child("template") != nil:
		return Expansion
	case root.child("advice") != nil:
		return Aspect
	}
	return Workflow
}

// fits refuses parts of a formula that do not go with its type.
func (f reader) fits(m *Formula, root *node) {
	goes := map[string][]string{"legs": {Convoy}, "synthesis": {Convoy}, "steps": {Workflow}, "compose": {Workflow,
		Convoy}, "order": {Workflow},
		"template": {Expansion}, "advice": {Aspect}, "pointcuts": {Aspect}, "extends": {Workflow, Convoy},
		"session": {Workflow, Convoy}}
	for _, p := range root.pairs {
		if types, ok := goes[p.key]; ok && !strings.Contains(strings.Join(types, " "), m.Type) {
			f.add(p.at, p.key, CodeValue, "it goes with type "+strings.Join(types, " or "),
				"a formula of type %s has no %s", m.Type, p.key)
		}
	}
}

// steps reads a list of tables of steps.
func (f reader) steps(n *node) []*step {
	var out []*step
	for _, item := range f.list(n, MaxSteps) {
		if f.is(item, isMap) {
			f.keys(item, stepKeys, unsupported)
			out = append(out, f.step(item, inTOML))
		}
	}
	return out
}

func (f reader) step(n *node, d dialect) *step {
	s := &step{id: f.id(n), title: f.text(n.child("title"), d), body: f.text(n.child("description"), d),
		acceptance: f.text(n.child("acceptance"), d), agent: f.agentOf(n),
		needs:    plainRefs(f.refs(n.child("needs"), MaxNeeds)),
		critical: f.flag(n.child("critical")),
		child:    f.oneOf(n.child("child"), events.ChildOwn, events.ChildWorktree, events.ChildShared),
		accept:   f.accept(n.child("accept"), d), at: n.at, path: n.path, given: given(n), keys: flowNodes(n)}
	if c := n.child("message"); c != nil {
		if s.given["title"] = true; !s.title.empty() {
			f.wrong(c, CodeDuplicate, "leave one of them out", "message and title say the same thing")
		}
		s.title = f.text(c, d)
	}
	return s
}

// given are the keys of a table.
func given(n *node) map[string]bool {
	keys := make(map[string]bool, len(n.pairs))
	for _, p := range n.pairs {
		keys[p.key] = true
	}
	return keys
}

// id is that of a step, a leg or a state.
func (f reader) id(n *node) string {
	c := n.child("id")
	if c == nil {
		f.add(n.at, join(n.path, "id"), CodeMissing, `add id = "NAME"`, "the step has no id")
		return ""
	}
	id := plain(f.word(c))
	if bare := targets.Replace(id); id != "" && (!events.ValidID(bare) || id == events.CheckoutStep ||
		id == events.DeliverStep) {
		f.wrong(c, CodeValue, "use A-Z a-z 0-9 _ and -, at most 64, and not checkout or deliver",
			"%s is no id of a step", shown(id))
	}
	return id
}

// plain is an id without dots, which are written as "-" so that an expression can name the step.
func plain(id string) string {
	const of = "{step.id}"
	parts := strings.Split(id, of)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], ".", "-")
	}
	return strings.Join(parts, of)
}

// plainRefs are references to steps, as plain.
func plainRefs(all []ref) []ref {
	for i := range all {
		all[i].name = plain(all[i].name)
	}
	return all
}

func (f reader) agentOf(n *node) string {
	a := f.word(n.child("agent"))
	if a != "" && !events.ValidID(a) {
		f.wrong(n.child("agent"), CodeValue, "use the name of an agent file", "%s is no name of an agent", shown(a))
	}
	return a
}

// accept reads the checks of a step. Nothing in them is a template: what stands for a value of outside must not become
// part of a command.
func (f reader) accept(n *node, d dialect) *events.Accept {
	if n == nil {
		return nil
	}
	if at, found := n.template(d); found {
		f.add(at, n.path, CodeTemplate, "write the command itself: a value of outside must not become part of it",
			"a template is not replaced in checks")
		return nil
	}
	a := &events.Accept{}
	if err := json.Unmarshal(n.document(), a); err != nil {
		f.wrong(n, CodeValue, "docs/checks.md lists what a check may have", "%v", err)
		return nil
	}
	if fault := a.Fault(); fault != "" {
		f.wrong(n, CodeValue, "docs/checks.md lists what a check may have", "%s", fault)
	}
	return a
}

// template finds a template in any text below a value.
func (n *node) template(d dialect) (place, bool) {
	if m := d.template.FindStringIndex(n.text); m != nil && n.kind == isText {
		return n.at.find(n.text[m[0]:m[1]]), true
	}
	for _, item := range n.items {
		if at, ok := item.template(d); ok {
			return at, true
		}
	}
	for _, p := range n.pairs {
		if at, ok := p.value.template(d); ok {
			return at, true
		}
	}
	return place{}, false
}

// inSequence has each step need the one before it.
func inSequence(steps []*step) {
	for i, s := range steps {
		if i > 0 {
			s.needs = append(s.needs, ref{steps[i-1].id, s.at, s.path})
		}
	}
}

// convoy makes steps of legs and the synthesis of their results.
func (f reader) convoy(m *Formula, root *node) {
	legs := f.list(root.child("legs"), MaxSteps-1)
	for _, n := range legs {
		if !f.is(n, isMap) {
			continue
		}
		f.keys(n, append([]string{"focus"}, stepKeys...), unsupported)
		s := f.step(n, inTOML)
		s.body = s.body.plus("\n\nFocus: ", f.text(n.child("focus"), inTOML))
		m.steps = append(m.steps, s)
	}
	n := root.child("synthesis")
	if n == nil {
		if root.child("legs") != nil && !m.given["extends"] {
			f.add(root.child("legs").at, "synthesis", CodeMissing, "add [synthesis] with a description",
				"a convoy has no synthesis of its legs")
		}
		return
	}
	if !f.is(n, isMap) {
		return
	}
	if n.child("id") == nil {
		n.pairs = append(n.pairs, pair{"id", n.at, &node{kind: isText, text: "synthesis", at: n.at, path: join(n.path,
			"id")}})
	}
	f.keys(n, append([]string{"depends_on"}, stepKeys...), unsupported)
	s := f.step(n, inTOML)
	s.synthesis, s.on = true, n.child("depends_on")
	s.needs = append(s.needs, plainRefs(f.refs(s.on, MaxSteps))...)
	m.steps = append(m.steps, s)
}

// synthesize has the synthesis of a convoy need all legs. A list that leaves out a leg of its own file is refused. A
// step that an extension adds behind the synthesis is no leg.
func (f composer) synthesize(m *Formula) {
	for _, s := range m.steps {
		if !s.synthesis {
			continue
		}
		behind := after(m.steps, s.id)
		for _, leg := range m.steps {
			switch {
			case leg.synthesis || behind[leg.id] || hasRef(s.needs, leg.id):
			case s.on != nil && s.on.at.in == leg.at.in:
				f.wrong(s.on, CodeValue, "add it, or leave depends_on out: the synthesis gets the results of all legs",
					"the leg %s is left out",
					shown(leg.id))
			default:
				s.needs = append(s.needs, ref{leg.id, s.at, s.path})
			}
		}
	}
}

// after are the steps that come after one, because of what they need or whose output they are given.
func after(steps []*step, id string) map[string]bool {
	next := map[string][]string{}
	for _, s := range steps {
		for _, r := range slices.Concat(s.needs, s.description().outputs()) {
			next[r.name] = append(next[r.name], s.id)
		}
	}
	found, look := map[string]bool{}, next[id]
	for len(look) > 0 {
		last := look[len(look)-1]
		if look = look[:len(look)-1]; !found[last] {
			found[last] = true
			look = append(look, next[last]...)
		}
	}
	return found
}

func hasRef(list []ref, name string) bool {
	for _, r := range list {
		if r.name == name {
			return true
		}
	}
	return false
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
