package formula

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/didyoumean"
)

// Endings of the files. What stands before them is the name.
const (
	TOML    = ".formula.toml"
	Overlay = ".overlay.toml"
)

// Workflows are the endings of workflow files.
func Workflows() []string { return []string{".workflow.yaml", ".workflow.yml"} }

// NameOf is the name of the formula or workflow in a file; empty for a file that is none.
func NameOf(file string) string {
	for _, end := range append([]string{TOML}, Workflows()...) {
		if name, ok := strings.CutSuffix(path.Base(file), end); ok {
			return name
		}
	}
	return ""
}

// Names are those of the formulas in the folder itself, in order.
func Names(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if name := NameOf(e.Name()); name != "" && !e.IsDir() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Load reads a formula or workflow and all that it is made of, and checks it. It is sound then but for the values of
// its variables.
func Load(fsys fs.FS, name string) (*Formula, error) {
	l := loader{fsys: fsys, f: &faults{}}
	m, err := l.load(ref{name: name})
	if err != nil {
		return nil, err
	}
	checker{l.f}.verify(m)
	if err := l.f.err(); err != nil {
		return nil, err
	}
	return m, nil
}

type loader struct {
	fsys fs.FS
	f    *faults
	// open are the formulas that are being read, each made of the next.
	open  []string
	files int
}

// load reads a formula with all that it extends and is composed of.
func (l *loader) load(r ref) (*Formula, error) {
	fail := func(code, hint, format string, args ...any) error {
		e := &Error{Code: code, Path: r.path, Message: fmt.Sprintf(format, args...), Hint: hint}
		r.at.into(e)
		return e
	}
	if slices.Contains(l.open, r.name) {
		return nil, fail(CodeCycle, "remove one of them", "formulas that are made of each other: %s",
			strings.Join(append(l.open, r.name), " -> "))
	}
	if len(l.open) >= MaxInherit {
		return nil, fail(CodeLimit, "join some of them", "formulas extend each other more than %d deep", MaxInherit)
	}
	src, err := l.find(r, fail)
	if err != nil {
		return nil, err
	}
	l.open = append(l.open, r.name)
	defer func() { l.open = l.open[:len(l.open)-1] }()
	m, err := l.parse(src)
	if err != nil {
		return nil, err
	}
	if m.Name != "" && m.Name != NameOf(src.name) {
		l.f.add(src.start(), "", CodeValue, "rename the file or the formula", "the file %s has the formula %s",
			src.name, shown(m.Name))
	}
	m.Files = []File{{src.name, digest(src.text)}}
	if m, err = l.inherit(m); err != nil {
		return nil, err
	}
	if err = l.overlay(m); err != nil {
		return nil, err
	}
	return m, l.composed(m)
}

func (l *loader) parse(src *source) (*Formula, error) {
	if strings.HasSuffix(src.name, ".toml") {
		root, err := readTOML(src)
		if err != nil {
			return nil, err
		}
		return parse(src, root, reader{l.f}), nil
	}
	root, err := readYAML(src)
	if err != nil {
		return nil, err
	}
	return parseWorkflow(src, root, reader{l.f}), nil
}

// find reads the file of a name.
func (l *loader) find(r ref, fail func(code, hint, format string, args ...any) error) (*source, error) {
	var found []*source
	for _, end := range append([]string{TOML}, Workflows()...) {
		if !fs.ValidPath(r.name) || strings.Contains(r.name, "/") {
			return nil, fail(CodeValue, "use the name of a formula in the same folder", "%s is no name of a formula",
				shown(r.name))
		}
		src, err := l.read(r.name + end)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, src)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return nil, fail(CodeDuplicate, "remove one of them", "there are two files of %s: %s and %s", shown(r.name),
			found[0].name, found[1].name)
	}
	names, err := Names(l.fsys)
	if err != nil {
		return nil, &Error{Code: CodeFile, Message: err.Error()}
	}
	hint := "the folder has no formula: write " + r.name + TOML
	if len(names) > 0 {
		hint = didyoumean.Hint(r.name, names, "there are: "+strings.Join(names[:min(len(names), 30)], ", "))
	}
	return nil, fail(CodeReference, hint, "there is no formula %s", shown(r.name))
}

// read reads a file within its limits.
func (l *loader) read(name string) (*source, error) {
	info, err := fs.Stat(l.fsys, name) // before it is opened, so that a pipe is never waited for
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, &Error{Code: CodeFile, File: name, Message: "the file is not a regular file",
			Hint: "replace it by what it stands for"}
	}
	file, err := l.fsys.Open(name)
	if l.files++; l.files > MaxFiles {
		return nil, &Error{Code: CodeLimit, File: name,
			Message: fmt.Sprintf("the formula is made of more than %d files", MaxFiles), Hint: "join some of them"}
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, MaxFile+1))
		err = errors.Join(err, file.Close())
	}
	e := &Error{Code: CodeFile, File: name, Line: 1, Column: 1}
	switch {
	case err != nil:
		e.Message = err.Error()
	case len(text) > MaxFile:
		e.Code, e.Message, e.Hint = CodeLimit, fmt.Sprintf("the file has more than %d bytes", MaxFile),
			"put long material in files of the workspace"
	case !utf8.Valid(text) || !isPlain(text):
		e.Message, e.Hint = "the file is not text (UTF-8)", "save it as UTF-8, without control characters"
	default:
		return &source{name, text}, nil
	}
	return nil, e
}

// start is the place where a file begins.
func (s *source) start() place { return place{in: s} }

// inherit puts a formula over those that it extends, in their order.
func (l *loader) inherit(m *Formula) (*Formula, error) {
	if len(m.extends) == 0 {
		return m, nil
	}
	base := &Formula{Name: m.Name, src: m.src, given: map[string]bool{}}
	for _, r := range m.extends {
		p, err := l.load(r)
		if err != nil {
			return nil, err
		}
		if p.Type == Expansion || p.Type == Aspect {
			l.f.add(r.at, r.path, CodeValue, "use it in [compose]", "%s is of type %s and cannot be extended",
				shown(r.name), p.Type)
		}
		p.over(base)
		m.Files = append(m.Files, p.Files...)
	}
	m.over(base)
	base.Files, base.pieces = m.Files, m.pieces
	return base, nil
}

// over puts what a formula has over another one: steps and variables by their names, new ones behind the others.
func (m *Formula) over(base *Formula) {
	base.Type, base.Git = m.Type, m.Git
	maps.Copy(base.given, m.given)
	if m.given["tracking"] || m.given["pour"] {
		base.Inline = m.Inline
	}
	for _, w := range [][2]*string{{&base.Agent, &m.Agent}, {&base.Session, &m.Session}} {
		if *w[1] != "" {
			*w[0] = *w[1]
		}
	}
	if m.timeout != nil {
		base.timeout = m.timeout
	}
	if m.retry != nil {
		base.retry = m.retry
	}
	if !m.description.empty() {
		base.description = m.description
	}
	for _, v := range m.Vars {
		if i := slices.IndexFunc(base.Vars, func(o Var) bool { return o.Name == v.Name }); i >= 0 {
			base.Vars[i] = v
		} else {
			base.Vars = append(base.Vars, v)
		}
	}
	was := len(base.steps)
	for _, s := range m.steps {
		i := slices.IndexFunc(base.steps[:was], func(o *step) bool { return o.id == s.id })
		if i < 0 {
			base.steps = append(base.steps, s)
			continue
		}
		base.steps[i] = s.over(base.steps[i])
	}
}

// over is a step with what its file has for it in place of what another one has.
func (s *step) over(base *step) *step {
	c := *s
	keep := func(key string, take func()) {
		if !s.given[key] {
			take()
		}
	}
	keep("title", func() { c.title = base.title })
	if !s.given["description"] && !s.given["focus"] {
		c.body = base.body
	}
	keep("acceptance", func() { c.acceptance = base.acceptance })
	keep("agent", func() { c.agent = base.agent })
	keep("critical", func() { c.critical = base.critical })
	keep("child", func() { c.child = base.child })
	keep("accept", func() { c.accept = base.accept })
	if !s.given["needs"] && !s.given["depends_on"] {
		c.needs, c.on = append(slices.Clone(base.needs), s.needs...), base.on
	}
	c.synthesis = s.synthesis || base.synthesis
	c.overFlow(base)
	return &c
}

// overlay changes steps as a file beside the formula says.
func (l *loader) overlay(m *Formula) error {
	src, err := l.read(NameOf(m.src.name) + Overlay)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	root, err := readTOML(src)
	if err != nil {
		return err
	}
	l.f.keys(root, []string{"expect_digest", "step-overrides"}, nil)
	if d := root.child("expect_digest"); d != nil && l.f.is(d, isText) && strings.TrimPrefix(d.text,
		"sha256:") != m.Files[0].Digest {
		l.f.wrong(d, CodeDigest, "look at what changed, then write expect_digest = \""+m.Files[0].Digest+"\"",
			"%s is not the file that this overlay was made for", m.src.name)
	}
	m.Files = append(m.Files, File{src.name, digest(src.text)})
	for _, n := range l.f.list(root.child("step-overrides"), MaxSteps) {
		composer{l.f}.override(m, n)
	}
	return nil
}

// override changes one step.
func (f composer) override(m *Formula, n *node) {
	f.keys(n, []string{"step_id", "mode", "description", "title"}, nil)
	id := f.named(n, "step_id")
	i := slices.IndexFunc(m.steps, func(s *step) bool { return s.id == id.name })
	if i < 0 {
		if id.name != "" {
			f.add(id.at, id.path, CodeReference, near(id.name, ids(m.steps)), "there is no step %s in %s",
				shown(id.name), m.src.name)
		}
		return
	}
	c := *m.steps[i]
	title, body := f.text(n.child("title"), inTOML), f.text(n.child("description"), inTOML)
	mode := f.oneOf(n.child("mode"), "replace", "append", "skip")
	switch {
	case mode == "skip":
		m.steps = slices.Delete(slices.Clone(m.steps), i, i+1)
		instead(m.steps, c.id, c.needs)
		return
	case body.empty() && title.empty():
		f.add(n.at, n.path, CodeMissing, "add a description", "the override of step %s changes nothing", shown(c.id))
	case mode == "append":
		c.body = c.body.plus("\n\n", body)
	case !body.empty():
		c.body = body
	}
	if !title.empty() {
		c.title = title
	}
	m.steps[i] = &c
}

// composed puts expansions and aspects in.
func (l *loader) composed(m *Formula) error {
	use := func(r ref, want string) (*Formula, error) {
		with, err := l.load(r)
		if err != nil {
			return nil, err
		}
		if with.Type != want {
			l.f.add(r.at, r.path, CodeValue, "", "%s is of type %s, want %s", shown(r.name), with.Type, want)
		}
		m.Files = append(m.Files, with.Files...)
		for _, v := range with.Vars {
			if !slices.ContainsFunc(m.Vars, func(o Var) bool { return o.Name == v.Name }) {
				m.Vars = append(m.Vars, v)
			}
		}
		return with, nil
	}
	composer{l.f}.synthesize(m)
	for _, x := range m.expansions {
		with, err := use(x.with, Expansion)
		if err != nil {
			return err
		}
		composer{l.f}.expand(m, x, with)
	}
	for _, r := range m.aspects {
		with, err := use(r, Aspect)
		if err != nil {
			return err
		}
		composer{l.f}.advise(m, with)
	}
	return nil
}

// near is what to do about a name that names nothing.
func near(name string, known []string) string {
	if len(known) == 0 {
		return "there are none"
	}
	return didyoumean.Hint(name, known, "there are: "+strings.Join(known[:min(len(known), 30)], ", "))
}
