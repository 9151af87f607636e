package agentfile

import (
	"errors"
	"maps"
	"sort"
	"strings"

	"github.com/inspan/inspan/internal/runtime"
)

// MaxSettings is the most bytes of a configuration file.
const MaxSettings = 64 << 10

// Form is what a setting must look like.
type Form string

// The forms of settings.
const (
	FormText     Form = "text"
	FormWhole    Form = "whole"
	FormBool     Form = "bool"
	FormDuration Form = "duration"
	FormList     Form = "list"
)

// harnessTop is the part of a configuration file with the defaults of agents.
const harnessTop = "harness"

// aside are the parts of it that stand beside harness in agent files.
var aside = []string{"sandbox", "workspace", "git"}

// Entry is one value of a configuration file.
type Entry struct {
	// Key is the whole path, such as "harness.max_steps".
	Key string
	// Value as it was written; the items of a list with commas between them.
	Value string
	Line  int
}

// Settings is a configuration file that was read.
type Settings struct {
	Entries []Entry
	// Defaults of agents, from below "harness".
	Defaults Defaults
}

// Defaults are harness settings of agents that do not say otherwise themselves (ID-12). The zero value has none.
type Defaults struct {
	root *node
	// runtimes are those that agents can name; nil means the presets.
	runtimes map[string]runtime.Entry
}

// HarnessKey is a default of agents that a configuration file may give.
type HarnessKey struct {
	// Key is the whole path, such as "harness.budget.tool_calls".
	Key string
	// Acts is false where it is accepted and nothing acts on it yet.
	Acts bool
}

// HarnessKeys lists them, sorted.
func HarnessKeys() []HarnessKey {
	var out []HarnessKey
	var walk func(path string, s shape, acting bool)
	walk = func(path string, s shape, acting bool) {
		if s.fields == nil {
			out = append(out, HarnessKey{Key: path, Acts: acting})
			return
		}
		for key, f := range s.fields {
			walk(path+"."+key, f.shape, acting && f.use == inForce)
		}
	}
	walk(harnessTop, defaultsShape(), true)
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

// defaultsShape is that of harness in an agent file, and of its parts that stand beside it there.
func defaultsShape() shape {
	all := agentShape().fields
	fields := maps.Clone(all[harnessTop].shape.fields)
	for _, key := range aside {
		fields[key] = all[key]
	}
	return mapping(fields)
}

// ReadSettings reads a configuration file, as strictly as Parse reads an agent. keys are the settings besides the
// defaults of agents, by their whole path; where both have a key, those of keys hold. name is for messages.
func ReadSettings(name string, data []byte, keys map[string]Form) (Settings, []Warning, error) {
	p := &parsing{file: name}
	s := p.settings(data, keys)
	warnings, err := p.found()
	if err != nil {
		return Settings{}, warnings, err
	}
	return s, warnings, nil
}

func (p *parsing) settings(data []byte, keys map[string]Form) Settings {
	root := p.yaml(data, MaxSettings)
	if root == nil {
		return Settings{}
	}
	all := mapping(map[string]field{harnessTop: acts(defaultsShape())})
	for key, form := range keys {
		plant(all, strings.Split(key, "."), form)
	}
	p.flat(root, all)
	p.walk(root, all, inForce)
	if len(p.errs) > 0 {
		return Settings{}
	}
	return Settings{Entries: leaves(root, nil), Defaults: defaultsOf(root, keys)}
}

// inSettings words an error of the YAML reader for a file that is nothing but YAML.
func inSettings(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Message = strings.ReplaceAll(e.Message, "the frontmatter", "the file")
	}
	return err
}

// plant puts a key into a tree of mappings that belongs to the caller.
func plant(s shape, path []string, form Form) {
	if len(path) == 1 {
		s.fields[path[0]] = acts(formShape(form))
		return
	}
	f, ok := s.fields[path[0]]
	if !ok || f.shape.fields == nil {
		f = acts(mapping(map[string]field{}))
		s.fields[path[0]] = f
	}
	plant(f.shape, path[1:], form)
}

func formShape(form Form) shape {
	switch form {
	case FormWhole:
		return whole(-1<<53, 1<<53)
	case FormBool:
		return boolean()
	case FormDuration:
		return duration(0, maxTimeout)
	case FormList:
		return list(shape{kinds: []kind{isText}, check: func(n *node) string {
			if strings.Contains(n.text, ",") {
				return "a text without a comma"
			}
			return ""
		}}, 0)
	case FormText:
	}
	return textUpTo(8 << 10)
}

// flat refuses a key such as "harness.max_steps: 5" at the top, which would otherwise be left to others in silence.
func (p *parsing) flat(root *node, all shape) {
	for _, pr := range root.pairs {
		s, known := all, true
		for word := range strings.SplitSeq(pr.key, ".") {
			f, ok := s.fields[word]
			known, s = known && ok, f.shape
		}
		if known && strings.Contains(pr.key, ".") {
			p.fail(&Error{Code: CodeUnknown, Line: pr.line, Path: pr.value.path,
				Message: "a key of the tree is written in one line",
				Hint:    "write each part as a key of its own, one below the other"})
		}
	}
}

func leaves(n *node, into []Entry) []Entry {
	for _, pr := range n.pairs {
		switch {
		case foreign(pr.key):
		case pr.value.kind == isMap:
			into = leaves(pr.value, into)
		case pr.value.kind == isList:
			into = append(into, Entry{Key: pr.value.path, Value: strings.Join(pr.value.words(), ","), Line: pr.line})
		default:
			into = append(into, Entry{Key: pr.value.path, Value: pr.value.text, Line: pr.line})
		}
	}
	return into
}

// defaultsOf arranges what stands below harness as an agent file has it, without the settings of keys.
func defaultsOf(root *node, keys map[string]Form) Defaults {
	h := root.child(harnessTop)
	if h == nil {
		return Defaults{}
	}
	own := without(h, keys)
	top := &node{kind: isMap}
	for _, key := range aside {
		if part := own.child(key); part != nil {
			own.remove(key)
			top.pairs = append(top.pairs, pair{key: key, line: part.line, value: part})
		}
	}
	top.pairs = append(top.pairs, pair{key: harnessTop, line: h.line, value: own})
	oneMode(top)
	return Defaults{root: top}
}

// oneMode says workspace.mode as sandbox.mode, as an agent file would have it (C26).
func oneMode(top *node) {
	ws := top.child("workspace")
	mode := ws.child("mode")
	if mode == nil {
		return
	}
	ws.remove("mode")
	set := *mode
	if mode.text == "sandbox" {
		set.text = "bwrap"
	}
	sb := top.child("sandbox")
	if sb == nil {
		sb = &node{kind: isMap, line: ws.line}
		top.pairs = append(top.pairs, pair{key: "sandbox", line: ws.line, value: sb})
	}
	sb.pairs = append(sb.pairs, pair{key: "mode", line: set.line, value: &set})
}

// without copies a tree and leaves out keys and the mappings that they leave empty.
func without(n *node, keys map[string]Form) *node {
	out := *n
	out.pairs = nil
	for _, pr := range n.pairs {
		if _, taken := keys[pr.value.path]; taken {
			continue
		}
		if pr.value.kind == isMap {
			pr.value = without(pr.value, keys)
			if len(pr.value.pairs) == 0 {
				continue
			}
		}
		out.pairs = append(out.pairs, pr)
	}
	return &out
}

// Over lets d win over others, key by key.
func (d Defaults) Over(others Defaults) Defaults {
	if d.root == nil {
		return others
	}
	out := Defaults{root: without(d.root, nil)}
	others.under(out.root)
	return out
}

// under gives a tree what it does not say itself.
func (d Defaults) under(root *node) {
	if d.root == nil || root.kind != isMap {
		return
	}
	fill(root, d.root, root.get("sandbox", "mode") != nil || root.get("workspace", "mode") != nil)
}

// fill adds what is missing. boxed says that the tree picks its sandbox itself, in one of the two ways there are.
func fill(into, from *node, boxed bool) {
	for _, pr := range from.pairs {
		there := into.child(pr.key)
		switch {
		case boxed && pr.key == "mode":
		case there == nil && pr.value.kind == isMap:
			fresh := &node{kind: isMap, line: pr.value.line, path: pr.value.path}
			fill(fresh, pr.value, boxed)
			into.pairs = append(into.pairs, pair{key: pr.key, line: pr.line, value: fresh})
		case there == nil:
			into.pairs = append(into.pairs, pr)
		case there.kind == isMap && pr.value.kind == isMap:
			fill(there, pr.value, boxed)
		}
	}
}
