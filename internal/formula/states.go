package formula

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// settings are what a state may set for its agent alone in other programs.
var settings = []string{"harness", "max_steps", "sandbox", "autonomy", "budget", "tools", "model"}

// stateKeys are the keys that all states may have, and those of each type.
var (
	stateKeys = []string{"name", "id", "type", "transition", "next", "end", "resultPath", "output"}
	agentKeys = []string{"agent", "input", "prompt", "task", "agent_task", "agentTask", "critical", "accept", "child",
		"timeout", "retry"}
	keysOfType = map[string][]string{
		agentState: agentKeys, harnessState: agentKeys,
		parallelState: {"branches", "join"},
		switchState:   {"conditions", "defaultNext", "dataPath"},
		foreachState:  {"itemsPath", "itemName", "itemVariable", "maxConcurrency", "join", "iterator"},
		tryState:      {"try", "catch", "finally"},
		approvalState: {"message", "approval_title", "approvers", "timeout", "on_timeout", "escalate_to"},
		injectState:   {"data"}, transform: {"expression"},
		timerState: {"duration"}, waitState: {"duration", "signal", "timeout", "on_timeout"},
	}
)

// elsewhere are keys that no state has, with what to do instead.
func elsewhere() map[string]string {
	no := map[string]string{"onErrors": "put the state into a try with a catch",
		"session_id":        "set session_id of the workflow: all states share it",
		"outputAggregation": "leave it out: the outputs are a list",
		"inputPath":         "name the value in the input: {{ctx.KEY}}", "outputPath": "use resultPath"}
	for _, key := range settings {
		no[key] = "set it in a file of an agent of its own, and name that agent here"
	}
	return no
}

func (w *stateReader) state(n *node) *state {
	f := w.f
	kind := f.word(n.child("type"))
	if kind == "" {
		kind = agentState
		if n.child("branches") != nil {
			kind = parallelState
		}
	}
	s := &state{name: w.name(n), end: f.flag(n.child("end")), at: n.at, path: n.path, next: w.next(n)}
	if s.end && s.next.name != "" {
		f.wrong(n.child("end"), CodeValue, "leave one of them out", "a state that ends the workflow has no next one")
	}
	if in := n.child("input"); kind == "operation" && in != nil && in.kind == isMap &&
		f.word(in.child("task")) == "agent.run" {
		n, kind = operation(n, in), agentState
	}
	own, known := keysOfType[kind]
	if hint, no := refused[kind]; no {
		f.wrong(n.child("type"), CodeUnsupported, hint, "a state of type %s is not supported", kind)
		return s
	} else if !known {
		f.wrong(n.child("type"), CodeValue, types, "%s is no type of a state", shown(kind))
		return s
	}
	f.keys(n, slices.Concat(stateKeys, own), elsewhere())
	s.results = w.bindings(n)
	switch kind {
	case parallelState:
		w.parallel(s, n)
	case switchState:
		w.choice(s, n)
	case foreachState:
		w.foreach(s, n)
	case tryState:
		w.try(s, n)
	case approvalState:
		s.step = w.control(s, n, kindApproval, "timeout", "approvers", "on_timeout", "escalate_to")
		s.step.title = f.text(n.child("message"), w.dialect())
		if title := f.text(n.child("approval_title"), w.dialect()); !title.empty() {
			s.step.title = title.plus("\n\n", s.step.title)
		}
	case injectState, transform:
		w.value(s, n, kind)
	case timerState, waitState:
		s.step = w.control(s, n, kindWait, "duration", "signal", "timeout", "on_timeout")
	default:
		w.agent(s, n)
		s.step.byHarness = kind == agentState
	}
	return s
}

// operation is a state that says in its input which agent it is for, as a state of type agent says it.
func operation(n, in *node) *node {
	out := *n
	out.pairs = nil
	for _, p := range slices.Concat(n.pairs, in.pairs) {
		switch p.key {
		case "type", "input":
		case "task":
			if !slices.ContainsFunc(in.pairs, func(o pair) bool { return o == p }) {
				out.pairs = append(out.pairs, p)
			}
		default:
			out.pairs = append(out.pairs, p)
		}
	}
	return &out
}

// agent makes the step of a state that an agent carries out.
func (w *stateReader) agent(s *state, n *node) {
	f := w.f
	s.step = &step{id: s.name.name, agent: f.agentOf(n), body: w.task(n), critical: f.flag(n.child("critical")),
		accept: f.accept(n.child("accept"), inYAML), child: f.oneOf(n.child("child"), events.ChildOwn, events.ChildShared),
		at: n.at, path: n.path, given: given(n), keys: map[string]*node{}}
	for _, key := range []string{"timeout", "retry"} {
		if c := n.child(key); c != nil {
			s.step.keys[key] = c
		}
	}
}

// control makes a step that no agent carries out, with some keys of the state.
func (w *stateReader) control(s *state, n *node, kind string, keys ...string) *step {
	st := &step{id: s.name.name, at: n.at, path: n.path, given: given(n), keys: map[string]*node{}}
	st.put("kind", kind)
	for _, key := range keys {
		if c := n.child(key); c != nil {
			st.keys[key] = c
		}
	}
	return st
}

// put gives a step a key that no file has.
func (s *step) put(key, text string) {
	s.keys[key] = &node{kind: isText, text: text, at: s.at, path: s.path, made: true}
}

// dialect of texts, in which the item of a foreach has its name.
func (w *stateReader) dialect() dialect {
	d, item := inYAML, w.item
	if item == "" {
		return d
	}
	d.part = func(name string) (part, bool) {
		if first, rest, _ := strings.Cut(name, "."); first != item {
			return inYAML.part(name)
		} else if rest != "" {
			return part{kind: literal, s: `(the field "` + rest + `" of the item, which is given below)`}, true
		}
		return part{kind: literal, s: "(the item, which is given below)"}, true
	}
	return d
}

// task is what the agent of a state is asked to do: a text, or a mapping of texts.
func (w *stateReader) task(n *node) text {
	var in *node
	for _, key := range []string{"input", "prompt", "task", "agent_task", "agentTask"} {
		c := n.child(key)
		if c != nil && in != nil {
			w.f.wrong(c, CodeDuplicate, "write all of it as input", "there is an input already")
		} else if c != nil {
			in = c
		}
	}
	switch {
	case in == nil:
		w.f.add(n.at, join(n.path, "input"), CodeMissing, "say what the agent is to do", "the state has no input")
		return text{}
	case in.kind != isMap:
		return w.f.text(in, w.dialect())
	}
	t := text{at: in.at, path: in.path}
	for _, p := range in.pairs {
		name, isPath := strings.CutPrefix(p.value.text, "$.")
		switch {
		case p.value.kind != isText:
			if value, ok := w.f.scalar(p.value); ok {
				t.literal(p.key + ": " + value + "\n")
			}
			continue
		case isPath: // as a template would say it
			x, ok := w.dialect().part(name)
			if !ok {
				x = part{kind: context, s: name}
			}
			x.written = p.value.text
			t.literal(p.key + ": ")
			t.parts = append(t.parts, x)
		default:
			t.literal(p.key + ": ")
			t.add(w.f.text(p.value, w.dialect()))
		}
		t.literal("\n")
	}
	return t
}

// block reads a list of states, with the name of the first; nil where there is none.
func (w *stateReader) block(n *node) *block {
	if n == nil {
		return nil
	}
	if n.kind == isList {
		return &block{states: w.states(n)}
	}
	if !w.f.is(n, isMap) {
		return nil
	}
	w.f.keys(n, []string{"name", "id", "start", "states"}, nil)
	if n.child("states") == nil {
		w.f.add(n.at, join(n.path, "states"), CodeMissing, "add states:", "there are no states")
	}
	return &block{w.states(n.child("states")), n.child("start")}
}

// parallel reads branches: each is a state itself, or has states.
func (w *stateReader) parallel(s *state, n *node) {
	w.joins(n.child("join"))
	for _, b := range w.f.list(n.child("branches"), MaxSteps) {
		switch {
		case !w.f.is(b, isMap):
		case b.child("states") != nil:
			s.branches = append(s.branches, *w.block(b))
		default:
			s.branches = append(s.branches, block{states: []*state{w.state(b)}})
		}
	}
	if len(s.branches) == 0 {
		w.f.add(n.at, join(n.path, "branches"), CodeMissing, "add branches: with at least one state",
			"the state %s has no branches", shown(s.name.name))
	}
}

// joins refuses to go on before all branches have ended.
func (w *stateReader) joins(n *node) {
	if n != nil && n.kind == isMap {
		w.f.keys(n, []string{"mode"}, nil)
		n = n.child("mode")
	}
	if n != nil && w.f.word(n) != "all" {
		w.f.wrong(n, CodeUnsupported, "leave it out: a parallel state ends when all its branches have",
			"join goes with foreach")
	}
}

// choice reads a switch, which becomes the name of the state that it chooses.
func (w *stateReader) choice(s *state, n *node) {
	f := w.f
	s.step = w.control(s, n, kindSet)
	if s.next.name != "" || s.end {
		f.wrong(n, CodeValue, "name the states in conditions and defaultNext", "a switch has no next state of its own")
	}
	target := func(c *node, key string) ref {
		t := c.child(key)
		if t != nil && t.kind == isMap {
			t = t.child("nextState")
		}
		if t == nil {
			return ref{}
		}
		return ref{f.word(t), t.at, t.path}
	}
	for _, c := range f.list(n.child("conditions"), events.MaxParts) {
		if !f.is(c, isMap) {
			continue
		}
		f.keys(c, []string{"if", "next"}, nil)
		cond := condition{c.child("if"), target(c, "next")}
		if cond.when == nil || cond.next.name == "" {
			f.wrong(c, CodeMissing, `write {if: "EXPRESSION", next: STATE}`, "a condition has no if, or no next")
			continue
		}
		s.conditions = append(s.conditions, cond)
		s.switched = append(s.switched, cond.next)
	}
	if len(s.conditions) == 0 {
		f.add(n.at, join(n.path, "conditions"), CodeMissing, `add conditions: [{if: "EXPRESSION", next: STATE}]`,
			"the switch %s has no conditions", shown(s.name.name))
	}
	if d := target(n, "defaultNext"); d.name != "" {
		s.otherwise = &node{kind: isText, text: d.name, at: d.at, path: d.path}
		s.switched = append(s.switched, d)
	}
	s.value = n.child("dataPath")
	w.switches = append(w.switches, s)
}

// foreach reads a state that carries out another one for each item of a list.
func (w *stateReader) foreach(s *state, n *node) {
	f, outer := w.f, w.item
	for _, key := range []string{"itemName", "itemVariable"} {
		if c := n.child(key); c != nil {
			w.item = f.word(c)
		}
	}
	if w.item == outer {
		w.item = "item"
	}
	body := w.block(n.child("iterator"))
	w.item = outer
	switch {
	case body == nil || len(body.states) == 0:
		f.add(n.at, join(n.path, "iterator"), CodeMissing, "add iterator: {states: [...]} with one state of an agent",
			"the state %s says nothing of what is done with each item", shown(s.name.name))
		return
	case len(body.states) > 1 || body.states[0].step == nil || body.states[0].step.keys["kind"] != nil:
		at := body.states[min(1, len(body.states)-1)]
		f.add(at.name.at, at.name.path, CodeUnsupported,
			"let one agent do all of it for an item, with child: own where that is much",
			"the iterator of a foreach has more than one state of an agent")
		return
	case n.child("itemsPath") == nil:
		f.add(n.at, join(n.path, "itemsPath"), CodeMissing, "add itemsPath: ctx.KEY or input.NAME",
			"the state %s has no list", shown(s.name.name))
		return
	}
	inner := body.states[0]
	if inner.next.name != "" {
		f.add(inner.next.at, inner.next.path, CodeReference, "leave it out", "there is no state %s here",
			shown(inner.next.name))
	}
	s.step = inner.step
	s.step.id, s.results = s.name.name, append(s.results, inner.results...)
	list := *n.child("itemsPath")
	if list.text = strings.TrimPrefix(list.text, "$."); list.text != n.child("itemsPath").text {
		list.made = true
	}
	s.step.keys["for_each"] = &list
	for key, from := range map[string]string{"max_concurrency": "maxConcurrency", "join": "join"} {
		if c := n.child(from); c != nil {
			s.step.keys[key] = c
		}
	}
}

// try reads a state whose steps may fail, and what is done then and afterwards.
func (w *stateReader) try(s *state, n *node) {
	s.body, s.catch, s.finally = w.block(n.child("try")), w.block(n.child("catch")), w.block(n.child("finally"))
	if s.body == nil || len(s.body.states) == 0 {
		w.f.add(n.at, join(n.path, "try"), CodeMissing, "add try: {states: [...]}", "the state %s has nothing to try",
			shown(s.name.name))
		s.body = nil
	}
	if s.catch == nil && s.finally == nil {
		w.f.add(n.at, n.path, CodeMissing, "add catch: or finally:", "the try %s has neither catch nor finally",
			shown(s.name.name))
	}
}
