package formula

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// expansion puts the steps of another formula in the place of one step.
type expansion struct{ target, with ref }

// advice are steps around those whose ids match a pattern.
type advice struct {
	target        ref
	before, after []*step
}

// targets are what a template of an expansion or an aspect has for the step that it is used for.
var targets = strings.NewReplacer("{target}", "t", "{step.id}", "t")

// compose reads what a formula is put together from, and what an expansion or an aspect gives to others.
func (f reader) compose(m *Formula, root *node) {
	if c := root.child("compose"); c != nil {
		f.keys(c, []string{"expand", "aspects"}, map[string]string{"map": "write one [[compose.expand]] for each step"})
		m.aspects = f.refs(c.child("aspects"), MaxFiles)
		for _, n := range f.list(c.child("expand"), MaxFiles) {
			f.keys(n, []string{"target", "with"}, nil)
			m.expansions = append(m.expansions, expansion{f.named(n, "target"), f.named(n, "with")})
		}
	}
	m.template = f.steps(root.child("template"))
	for _, n := range f.list(root.child("pointcuts"), MaxSteps) {
		f.keys(n, []string{"glob"}, map[string]string{"type": "use glob", "label": "use glob"})
		m.points = append(m.points, f.glob(n, "glob"))
	}
	for _, n := range f.list(root.child("advice"), MaxSteps) {
		f.keys(n, []string{"target", "before", "after", "around"}, nil)
		a := advice{before: f.steps(n.child("before")), after: f.steps(n.child("after"))}
		if n.child("target") != nil {
			a.target = f.glob(n, "target")
		}
		if around := n.child("around"); around != nil {
			f.keys(around, []string{"before", "after"}, nil)
			a.before = append(a.before, f.steps(around.child("before"))...)
			a.after = append(a.after, f.steps(around.child("after"))...)
		}
		m.advice = append(m.advice, a)
	}
}

// named is a name that must be there.
func (f *faults) named(n *node, key string) ref {
	c := n.child(key)
	if c == nil {
		f.add(n.at, join(n.path, key), CodeMissing, "add "+key+` = "NAME"`, "%s is missing", key)
		return ref{at: n.at, path: n.path}
	}
	return ref{f.word(c), c.at, c.path}
}

func (f reader) glob(n *node, key string) ref {
	r := f.named(n, key)
	if _, err := path.Match(r.name, ""); err != nil {
		f.add(r.at, r.path, CodeValue, `write a pattern such as "implement*"`, "%s is no pattern", shown(r.name))
	}
	return r
}

// copyFor is a step of a template for the step that it is used for. It stands where the template stands.
func (s *step) copyFor(t *step) *step {
	names := strings.NewReplacer("{target}", t.id, "{step.id}", t.id)
	c := *s
	c.id, c.given = names.Replace(s.id), maps.Clone(s.given)
	c.needs = slices.Clone(s.needs)
	for i := range c.needs {
		c.needs[i].name = names.Replace(c.needs[i].name)
	}
	c.title, c.body, c.acceptance = s.title.about(t, names), s.body.about(t, names), s.acceptance.about(t, names)
	if c.agent == "" {
		c.agent = t.agent
	}
	return &c
}

// about puts what a template says of its target into a text.
func (t text) about(target *step, names *strings.Replacer) text {
	out := text{at: t.at, path: t.path}
	for _, p := range t.parts {
		if p.kind != literal {
			p.s = names.Replace(p.s)
			out.parts = append(out.parts, p)
			continue
		}
		for rest := p.s; rest != ""; {
			i, found := len(rest), ""
			for _, name := range []string{"{target.title}", "{target.description}", "{step.title}",
				"{step.description}"} {
				if k := strings.Index(rest, name); k >= 0 && k < i {
					i, found = k, name
				}
			}
			out.literal(names.Replace(rest[:i]))
			rest = rest[i+len(found):]
			switch {
			case strings.HasSuffix(found, "title}"):
				out.add(target.title)
			case found != "":
				out.add(target.body)
			}
		}
	}
	return out
}

func (t *text) add(more text) {
	for _, p := range more.parts {
		if p.kind == literal {
			t.literal(p.s)
		} else {
			t.parts = append(t.parts, p)
		}
	}
}

// expand puts the steps of an expansion in the place of a step: those that need none of the others need what it needed,
// and what needed it needs those that none of the others needs.
func (f composer) expand(m *Formula, x expansion, with *Formula) {
	i := slices.IndexFunc(m.steps, func(s *step) bool { return s.id == x.target.name })
	if i < 0 {
		f.add(x.target.at, x.target.path, CodeReference, near(x.target.name, ids(m.steps)), "there is no step %s",
			shown(x.target.name))
		return
	}
	if len(with.template) == 0 || len(m.steps)+len(with.template) > MaxSteps+1 {
		f.add(x.with.at, x.with.path, CodeLimit, "", "the expansion has %d steps, want 1 to %d with all others",
			len(with.template), MaxSteps)
		return
	}
	target := m.steps[i]
	fresh := make([]*step, len(with.template))
	needed := map[string]bool{}
	for k, s := range with.template {
		fresh[k] = s.copyFor(target)
		for _, r := range append(fresh[k].needs, fresh[k].description().outputs()...) {
			needed[r.name] = true
		}
	}
	var last []ref
	names := ids(fresh)
	for _, s := range fresh {
		if !slices.ContainsFunc(s.needs, func(r ref) bool { return slices.Contains(names, r.name) }) {
			s.needs = append(s.needs, target.needs...)
		}
		if !needed[s.id] {
			last = append(last, ref{s.id, x.target.at, x.target.path})
		}
	}
	m.steps = slices.Concat(m.steps[:i:i], fresh, m.steps[i+1:])
	instead(m.steps, target.id, last)
	for _, s := range m.steps {
		for _, t := range []*text{&s.title, &s.body, &s.acceptance} {
			*t = t.instead(target.id, last)
		}
	}
}

// instead is the text with the outputs of other steps in place of that of one.
func (t text) instead(id string, others []ref) text {
	out := text{at: t.at, path: t.path}
	for _, p := range t.parts {
		if p.kind != output || p.s != id {
			out.add(text{parts: []part{p}})
			continue
		}
		for i, o := range others {
			if i > 0 {
				out.literal(" and ")
			}
			out.parts = append(out.parts, part{kind: output, s: o.name, written: p.written})
		}
	}
	return out
}

// instead has all steps that need one need others in its place.
func instead(steps []*step, id string, others []ref) {
	for _, s := range steps {
		var needs []ref
		for _, r := range s.needs {
			if r.name != id {
				needs = append(needs, r)
				continue
			}
			for _, o := range others {
				if o.name != s.id && !hasRef(needs, o.name) {
					needs = append(needs, ref{o.name, r.at, r.path})
				}
			}
		}
		s.needs = needs
	}
}

// advise puts the steps of an aspect around the steps that it is about.
func (f composer) advise(m, aspect *Formula) {
	there := slices.Clone(m.steps)
	matches := func(r ref) bool {
		hit := slices.ContainsFunc(there, func(s *step) bool { return fits(r.name, s.id) })
		if !hit {
			f.add(r.at, r.path, CodeReference, "steps: "+strings.Join(ids(there), ", "), "no step of %s matches %s",
				m.Name, shown(r.name))
		}
		return hit
	}
	for _, p := range aspect.points {
		matches(p)
	}
	for _, a := range aspect.advice {
		if a.target.name != "" && !matches(a.target) {
			continue
		}
		for _, s := range there {
			if (a.target.name == "" || fits(a.target.name, s.id)) && aspect.points == nil ||
				slices.ContainsFunc(aspect.points, func(p ref) bool {
					return fits(p.name, s.id) &&
						(a.target.name == "" || fits(a.target.name, s.id))
				}) {
				m.around(s, a)
			}
		}
	}
	if len(m.steps) > MaxSteps {
		f.add(aspect.src.start(), "advice", CodeLimit, "", "with the steps of the aspect there are %d, the limit is %d",
			len(m.steps), MaxSteps)
	}
}

func fits(glob, id string) bool {
	ok, err := path.Match(glob, id)
	return err == nil && ok
}

// around puts steps before and after one. What needed it needs those after it, too.
func (m *Formula) around(s *step, a advice) {
	if len(m.steps) > MaxSteps {
		return
	}
	var before, after []*step
	for _, b := range a.before {
		c := b.copyFor(s)
		c.needs = append(c.needs, s.needs...)
		before = append(before, c)
	}
	both := []ref{{s.id, s.at, s.path}}
	for _, b := range a.after {
		c := b.copyFor(s)
		after = append(after, c)
		both = append(both, ref{c.id, c.at, c.path})
	}
	instead(m.steps, s.id, both)
	for _, c := range after {
		c.needs = append(c.needs, both[0])
	}
	for _, c := range before {
		s.needs = append(s.needs, ref{c.id, c.at, c.path})
	}
	i := slices.Index(m.steps, s)
	m.steps = slices.Concat(m.steps[:i:i], before, []*step{s}, after, m.steps[i+1:])
}

func ids(steps []*step) []string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = s.id
	}
	return out
}
