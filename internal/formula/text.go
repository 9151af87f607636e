package formula

import (
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
)

// text is a text with templates, taken apart when its file is read. What takes the place of a template is never looked
// at again.
type text struct {
	parts []part
	at    place
	path  string
}

type partKind int

const (
	// literal text as it stands; the value of a variable; the output of a step; a value of a workflow's context.
	literal partKind = iota
	variable
	output
	context
)

type part struct {
	kind partKind
	s    string
	// written is the template as it stands in the file.
	written string
	// bare is set where the name may be one of the input, too.
	bare bool
}

func (t text) empty() bool { return len(t.parts) == 0 }

// dialect says how templates are written: the pattern of one, with its name as the first group that matched, and how it
// begins where it is not well formed.
type dialect struct {
	template pattern.Pattern
	// open are beginnings that are a template or a mistake.
	open []string
	// part is what a name stands for; ok is false for one that the dialect does not have.
	part func(name string) (p part, ok bool)
	hint string
}

// inTOML is {{name}} and {{steps.ID.output}}; a backslash keeps it as it is.
var inTOML = dialect{
	template: pattern.New(`\\?\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}`), open: []string{"{{"},
	part: func(name string) (part, bool) {
		id, ok := strings.CutPrefix(name, "steps.")
		if !ok {
			return part{kind: variable, s: name}, !strings.Contains(name, ".")
		}
		id, ok = strings.CutSuffix(id, ".output")
		return part{kind: output, s: id}, ok && id != ""
	},
	hint: `write {{name}} for a variable, {{steps.ID.output}} for the output of a step, or \{{ for these signs`,
}

// text reads a text with templates; empty where there is none.
func (f *faults) text(n *node, d dialect) text {
	if n == nil || !f.is(n, isText) {
		return text{}
	}
	if len(n.text) > MaxText {
		f.wrong(n, CodeLimit, "put long material in a file of the workspace, and name the file",
			"the text has %d bytes, the limit is %d",
			len(n.text), MaxText)
		return text{}
	}
	if strings.ContainsRune(n.text, 0) {
		f.wrong(n, CodeValue, "", "the text contains a NUL character")
		return text{}
	}
	t, rest := text{at: n.at, path: n.path}, n.text
	plain := func(s string) {
		for _, open := range d.open {
			s = strings.ReplaceAll(s, `\`+open, "\x00")
			if i := strings.Index(s, open); i >= 0 {
				hint := d.hint
				if next := s[i+len(open):]; strings.HasPrefix(next, "#") || strings.HasPrefix(next, "/") {
					hint = "a template has no conditions and loops: use when or for_each of a step"
				}
				f.add(n.at.find(s[i:min(len(s), i+8)]), n.path, CodeTemplate, hint,
					"the template at %s cannot be read", shown(s[i:]))
			}
			s = strings.ReplaceAll(s, "\x00", open)
		}
		t.literal(s)
	}
	for rest != "" {
		m := d.template.FindStringSubmatchIndex(rest)
		if m == nil {
			plain(rest)
			break
		}
		plain(rest[:m[0]])
		written := rest[m[0]:m[1]]
		if kept, ok := strings.CutPrefix(written, `\`); ok {
			t.literal(kept)
		} else {
			p, ok := d.part(nameIn(rest, m))
			if p.written = written; !ok {
				f.add(n.at.find(written), n.path, CodeTemplate, d.hint, "the template %s names nothing that there is",
					shown(written))
			}
			t.parts = append(t.parts, p)
		}
		rest = rest[m[1]:]
	}
	return t
}

// nameIn is the first group of a match that took part in it.
func nameIn(s string, m []int) string {
	for i := 2; i+1 < len(m); i += 2 {
		if m[i] >= 0 {
			return s[m[i]:m[i+1]]
		}
	}
	return ""
}

// literal adds text as it stands.
func (t *text) literal(s string) {
	if s == "" {
		return
	}
	if n := len(t.parts); n > 0 && t.parts[n-1].kind == literal {
		t.parts[n-1].s += s
		return
	}
	t.parts = append(t.parts, part{s: s})
}

// plus is a text with another one behind it.
func (t text) plus(between string, more text) text {
	if t.empty() {
		return more
	}
	if more.empty() {
		return t
	}
	out := text{at: t.at, path: t.path}
	out.parts = append(out.parts, t.parts...)
	out.literal(between)
	for _, p := range more.parts {
		if p.kind == literal {
			out.literal(p.s)
		} else {
			out.parts = append(out.parts, p)
		}
	}
	return out
}

// outputs are the steps whose output the text has.
func (t text) outputs() []ref {
	var out []ref
	for _, p := range t.parts {
		if p.kind == output {
			out = append(out, ref{p.s, t.at.find(p.written), t.path})
		}
	}
	return out
}

// fill is the text with values in place of templates. The output of a step is not known before the step was carried
// out: the agent finds it with its task, marked as data, and the text names it.
func (t text) fill(f *faults, vars map[string]string, known []string) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch p.kind {
		case literal:
			b.WriteString(p.s)
		case output, context:
			b.WriteString(`(the result of the step "` + p.s + `", which is given below)`)
		case variable:
			v, ok := vars[p.s]
			if !ok {
				f.add(t.at.find(p.written), t.path, CodeVariable, unresolved(p.s, known),
					"the variable %s has no value", shown(p.written))
			}
			b.WriteString(v)
		}
	}
	return b.String()
}

// unresolved says what to do about a variable without a value.
func unresolved(name string, known []string) string {
	for _, k := range known {
		if k == name {
			return "give it with --var " + name + "=VALUE, or give it a default"
		}
	}
	return didyoumean.Hint(name, known, "add [vars."+name+"] to the formula")
}
