package formula

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/starlark"
	"github.com/inspan/inspan/pkg/events"
)

// result is a name in the context that a state gives its output, or one field of it.
type result struct{ key, field string }

// value of the context: the output of the last of some steps that was carried out, or the list of all of them.
type value struct {
	steps    []string
	together bool
	field    string
}

// expression that gives the value.
func (v value) expression() string {
	of := func(id string) string {
		x := fmt.Sprintf("steps[%q].output", id)
		if v.field != "" {
			x += fmt.Sprintf("[%q]", v.field)
		}
		return x
	}
	if v.together {
		all := make([]string, len(v.steps))
		for i, id := range v.steps {
			all[i] = of(id)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	out := of(v.steps[0])
	for _, id := range v.steps[1:] {
		out = fmt.Sprintf("(%s if steps[%q].status == \"completed\" else %s)", of(id), id, out)
	}
	return out
}

// find is the value of a name in the context, and the field of it that is meant.
func (w *flow) find(name string) (v value, field string, ok bool) {
	if v, ok = w.results[name]; ok {
		return v, v.field, true
	}
	key, field, _ := strings.Cut(name, ".")
	v, ok = w.results[key]
	if ok && v.field != "" {
		field = v.field + "." + field
	}
	return v, field, ok && field != ""
}

// bindings are the names in the context that a state gives its output.
func (w *stateReader) bindings(n *node) (out []result) {
	if c := n.child("resultPath"); c != nil {
		name := w.f.word(c)
		for _, prefix := range []string{"$.", "ctx.", "steps."} {
			name = strings.TrimPrefix(name, prefix)
		}
		switch {
		case name == "ctx" && n.child("data") != nil && n.child("data").kind == isMap: // each key is a name
			for _, p := range n.child("data").pairs {
				out = append(out, result{p.key, p.key})
			}
		case name == "ctx" || name == "$":
			w.f.wrong(c, CodeUnsupported, "name the value: resultPath: KEY", "the context as a whole cannot be replaced")
		case name != "":
			out = append(out, result{key: name})
		}
	}
	for _, p := range pairsOf(w.f, n.child("output")) {
		text := w.f.word(p.value)
		if !slices.Contains([]string{"$", "$.result", "$.data", "$.branches", "$.iterations"}, text) && text != "" {
			w.f.wrong(p.value, CodeUnsupported, "write $.result, and name the field where it is used: {{ctx."+p.key+"}}",
				"a part of an output has no name in the context")
		}
		out = append(out, result{key: p.key})
	}
	return out
}

func pairsOf(f reader, n *node) []pair {
	if n == nil || !f.is(n, isMap) {
		return nil
	}
	return n.pairs
}

// value makes the step of a state that gives a value: its data, or what an expression comes to.
func (w *stateReader) value(s *state, n *node, kind string) {
	s.step = w.control(s, n, kindSet)
	key := "data"
	if kind == transform {
		key = "expression"
	}
	c := n.child(key)
	switch {
	case c == nil:
		w.f.add(n.at, join(n.path, key), CodeMissing, "add "+key+":", "the state %s gives nothing", shown(s.name.name))
	case kind == transform && w.f.is(c, isText):
		own := *c
		own.text = strings.TrimSpace(c.text)
		s.step.keys["value"] = &own
	case kind == injectState:
		text, ok := w.literal(c)
		if ok {
			s.step.put("value", text)
			s.step.keys["value"].at, s.step.keys["value"].path = c.at, c.path
		}
	}
}

// literal is a value of the file as an expression.
func (w *stateReader) literal(n *node) (string, bool) {
	switch n.kind {
	case isMap, isList:
		var all []string
		for _, p := range n.pairs {
			text, ok := w.literal(p.value)
			if !ok {
				return "", false
			}
			all = append(all, quoted(p.key)+": "+text)
		}
		for _, item := range n.items {
			text, ok := w.literal(item)
			if !ok {
				return "", false
			}
			all = append(all, text)
		}
		if n.kind == isMap {
			return "{" + strings.Join(all, ", ") + "}", true
		}
		return "[" + strings.Join(all, ", ") + "]", true
	case isNull:
		return "None", true
	case isBool:
		return strings.ToUpper(n.text[:1]) + n.text[1:], true
	case isInt, isNumber:
		return n.text, true
	case isText, isDate:
	}
	if path, ok := strings.CutPrefix(n.text, "$."); ok {
		if first, _, _ := strings.Cut(path, "."); !slices.Contains([]string{"input", "steps", "states", "workflow", "ctx"},
			first) {
			path = "ctx." + path
		}
		return path, true
	}
	if at, found := n.template(inYAML); found {
		w.f.add(at, n.path, CodeTemplate, "write the value as $.input.NAME or $.KEY, or use type: transform",
			"a template is not replaced in data")
		return "", false
	}
	return quoted(n.text), true
}

// quoted is a text as an expression has it.
func quoted(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q, `\v`, `\x0b`)
}

// settle puts the outputs of steps in the place of names of the context in all expressions, and makes the switches.
func (w *flow) settle() {
	for _, s := range w.switches {
		otherwise := "None"
		if s.otherwise != nil {
			otherwise = quoted(s.otherwise.text)
		}
		if s.value != nil {
			path := *s.value
			path.text, path.made = strings.TrimPrefix(path.text, "$."), true
			w.data = "(" + w.translated(&path).text + ")"
		}
		for _, c := range slices.Backward(s.conditions) {
			cond := w.translated(c.when)
			otherwise = fmt.Sprintf("%s if (%s) else (%s)", quoted(c.next.name), cond.text, otherwise)
		}
		w.data = ""
		if len(otherwise) > events.MaxExpression {
			w.f.add(s.at, s.path, CodeLimit, "use two switches", "the switch has %d bytes, the limit is %d", len(otherwise),
				events.MaxExpression)
			continue
		}
		s.step.put("value", otherwise)
	}
	for _, s := range w.steps {
		for _, key := range []string{"for_each", "value"} {
			if n := s.keys[key]; n != nil && !slices.ContainsFunc(w.switches, func(x *state) bool { return x.step == s }) {
				s.keys[key] = w.translated(n)
			}
		}
	}
}

// dataName is the name of what a switch looks at.
const dataName = "_value"

var identifier = pattern.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// translated is an expression over ctx, input and states as one over steps and vars.
func (w *flow) translated(n *node) *node {
	if n == nil || !w.f.is(n, isText) {
		return &node{kind: isText, text: "None", made: true}
	}
	names := []string{"ctx", "input", "workflow", "steps", "states"}
	for key := range w.results {
		if first, _, _ := strings.Cut(key, "."); identifier.MatchString(first) && !slices.Contains(names, first) {
			names = append(names, first)
		}
	}
	if w.data != "" {
		names = append(names, dataName)
	}
	slices.Sort(names)
	const hint = `write one Starlark expression over ctx.KEY, input.NAME and states.NAME.output; "FIELD" in ctx.KEY asks whether there is one`
	out := &node{kind: isText, at: n.at, path: n.path, made: true}
	e, err := starlark.Parse(n.text, names...)
	if bad, ok := err.(*starlark.Error); ok { //nolint:errorlint // Parse returns it as it is
		w.f.add(n.where(bad.Line, bad.Column), n.path, CodeSyntax, hint, "%s", bad.Text)
		out.text = "None"
		return out
	}
	paths := slices.Clone(e.Paths())
	sort.Slice(paths, func(i, j int) bool { // the last first
		return offsetIn(n.text, paths[i].Line, paths[i].Column) > offsetIn(n.text, paths[j].Line, paths[j].Column)
	})
	text := n.text
	for i, p := range paths {
		from := offsetIn(n.text, p.Line, p.Column)
		if i > 0 && offsetIn(n.text, paths[i-1].Line, paths[i-1].Column) == from {
			continue
		}
		with, used := w.meant(p.Names)
		old := strings.Join(p.Names[:used], ".")
		if used == 0 || !strings.HasPrefix(text[from:], old) {
			w.f.add(n.where(p.Line, p.Column), n.path, CodeReference, hint, "%s names nothing that there is",
				shown(strings.Join(p.Names, ".")))
			continue
		}
		text = text[:from] + with + text[from+len(old):]
	}
	out.text = text
	return out
}

// where is the place of a line and column of a text.
func (n *node) where(line, column int) place {
	if n.made {
		return n.at
	}
	p := n.at.find(firstLine(n.text))
	p.offset += offsetIn(n.text, line, column)
	return p
}

// meant is what the names of a path stand for, and how many of them that takes; 0 for names of nothing.
func (w *flow) meant(names []string) (with string, used int) {
	input := func(at int) (string, int) {
		if len(names) <= at || !slices.ContainsFunc(w.vars, func(v Var) bool { return v.Name == names[at] }) {
			return "", 0
		}
		return "vars." + names[at], at + 1
	}
	switch names[0] {
	case dataName:
		return w.data, 1
	case "input":
		return input(1)
	case "workflow":
		if len(names) > 1 && names[1] == "input" {
			return input(2)
		}
		return "", 0
	case "steps", "states":
		if len(names) > 1 && slices.ContainsFunc(w.steps, func(s *step) bool { return s.id == names[1] }) {
			return fmt.Sprintf("steps[%q]", names[1]), 2
		}
		return w.named(names[1:], 1)
	case "ctx":
		if len(names) > 2 && names[1] == "workflow" {
			with, used = w.meant(names[1:])
			return with, used + min(used, 1)
		}
		return w.named(names[1:], 1)
	}
	return w.named(names, 0)
}

// named is the value of the longest of some names that the context has.
func (w *flow) named(names []string, before int) (string, int) {
	for n := len(names); n > 0; n-- {
		if v, ok := w.results[strings.Join(names[:n], ".")]; ok && len(v.steps) > 0 {
			return v.expression(), n + before
		}
	}
	return "", 0
}
