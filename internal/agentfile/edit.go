package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// ErrByHand means that a configuration file is written in a way that only a person can change without losing something.
var ErrByHand = errors.New("the layout of the file cannot be edited automatically: edit it by hand")

// Edit is one change of a configuration file.
type Edit struct {
	// Key is the whole path of a setting, such as "harness.max_steps".
	Key string
	// Value in words: a list with commas between its items, a mapping as YAML in one line. With Unset the key goes
	// instead.
	Value string
	Unset bool
}

// EditSettings returns the text of a configuration file with one key changed. All other lines stay byte for byte,
// comments too; of a value in braces the mapping around it is written anew. keys are as for ReadSettings, whose rules
// the caller has to ask about the result. An Edit that changes nothing returns the text as it is. It returns ErrByHand,
// wrapped, rather than a text in which anything else has changed.
func EditSettings(name string, data []byte, keys map[string]Form, e Edit) ([]byte, error) {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	root, err := readTree(text, 1)
	if err == nil && len(data) > MaxSettings {
		err = &Error{Code: CodeLimit, Message: "the file is too large", Expected: fmt.Sprintf("at most %d bytes",
			MaxSettings)}
	}
	if err != nil {
		return nil, named(name, inSettings(err))
	}
	d := editor{lines: slices.Collect(strings.Lines(text)), path: strings.Split(e.Key, ".")}
	if n := len(d.lines); n > 0 {
		d.lines[n-1] = strings.TrimSuffix(d.lines[n-1], "\n") + "\n"
	}
	want := map[string]string{}
	for _, l := range leaves(root, nil) {
		want[l.Key] = l.Value
	}
	if e.Unset {
		if root.get(d.path...) == nil {
			return data, nil
		}
		maps.DeleteFunc(want, func(key, _ string) bool { return key == e.Key || strings.HasPrefix(key, e.Key+".") })
		err = d.unset(root)
	} else {
		value := valueFor(shapeAt(keys, d.path), e.Value)
		value.move(e.Key)
		if old := root.get(d.path...); old != nil && old.kind == value.kind && flowText(old) == flowText(value) {
			return data, nil
		}
		err = d.set(root, value)
		maps.DeleteFunc(want, func(key, _ string) bool { return strings.HasPrefix(e.Key, key+".") }) // a part without a value
		for _, l := range leaves(&node{kind: isMap, pairs: []pair{{key: d.path[len(d.path)-1], value: value}}}, nil) {
			want[l.Key] = l.Value
		}
	}
	if err != nil {
		return nil, named(name, err)
	}
	out := strings.Join(d.lines, "")
	after, err := readTree(out, 1)
	if err != nil {
		return nil, named(name, ErrByHand)
	}
	got := map[string]string{}
	for _, l := range leaves(after, nil) {
		got[l.Key] = l.Value
	}
	if !maps.Equal(got, want) {
		return nil, named(name, ErrByHand)
	}
	if strings.Contains(string(data), "\r\n") {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return []byte(out), nil
}

// move gives a node and what is in it the paths that they have below another one.
func (n *node) move(path string) {
	n.path = path
	for _, p := range n.pairs {
		p.value.move(path + "." + p.key)
	}
}

func named(name string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.File == "" {
		e.File = name
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// editor changes lines; each ends with a line break.
type editor struct {
	lines []string
	path  []string
}

// spot is a pair and what it stands in.
type spot struct {
	pair
	// braces says that it is written inside of { }.
	braces bool
}

// chain returns the pairs along the path as far as there are any.
func (d *editor) chain(root *node) (out []spot) {
	for n, i := root, 0; n != nil && i < len(d.path); i++ {
		at := slices.IndexFunc(n.pairs, func(p pair) bool { return p.key == d.path[i] })
		if at < 0 {
			return out
		}
		p := n.pairs[at]
		begins := strings.HasPrefix(strings.TrimLeft(d.lines[p.line-1], `"' `), p.key)
		out = append(out, spot{p, !begins || i > 0 && (out[i-1].braces || out[i-1].line == p.line)})
		n = p.value
	}
	return out
}

// set gives the path a value.
func (d *editor) set(root, value *node) error {
	if d.lines == nil || len(root.pairs) == 0 {
		d.insert(len(d.lines), 0, d.path, value)
		return nil
	}
	chain := d.chain(root)
	for i, s := range chain {
		last := i == len(chain)-1
		switch {
		case s.braces: // in a root that is one
			return ErrByHand
		case s.value.kind != isMap && i < len(d.path)-1 && s.value.kind != isNull:
			return &Error{Code: CodeType, Line: s.line, Path: s.value.path, Message: "the value has the wrong type",
				Expected: string(isMap), Actual: string(s.value.kind)}
		case last && i == len(d.path)-1:
			return d.replace(s, flowText(value))
		case last && d.inBraces(s), !last && chain[i+1].braces:
			return d.replace(s, flowText(grown(s.value, d.path[i+1:], value)))
		case last:
			begin := s.line - 1
			indent := indentOf(d.lines[begin]) + 2
			if len(s.value.pairs) > 0 {
				indent = indentOf(d.lines[s.value.pairs[0].line-1])
			}
			d.insert(d.end(begin), indent, d.path[i+1:], value)
			return nil
		}
	}
	first := d.lines[root.pairs[0].line-1]
	if strings.HasPrefix(strings.TrimSpace(first), "{") {
		return ErrByHand
	}
	end := len(d.lines)
	if strings.HasPrefix(d.lines[end-1], "...") {
		return ErrByHand
	}
	d.insert(end, indentOf(first), d.path, value)
	return nil
}

// inBraces reports whether the value of a pair is a mapping in braces, or the word null.
func (d *editor) inBraces(s spot) bool {
	if s.value.kind == isNull {
		_, rest, _ := strings.Cut(strings.TrimSpace(d.lines[s.line-1]), ":")
		rest = strings.TrimSpace(rest)
		return rest != "" && !strings.HasPrefix(rest, "#")
	}
	return s.value.kind == isMap && (len(s.value.pairs) == 0 || s.value.pairs[0].line == s.line ||
		strings.HasPrefix(strings.TrimSpace(d.lines[s.value.line-1]), "{"))
}

// grown is a mapping with a value below a path.
func grown(n *node, path []string, value *node) *node {
	if len(path) == 0 {
		return value
	}
	out := &node{kind: isMap, pairs: slices.Clone(n.pairs)}
	if i := slices.IndexFunc(out.pairs, func(p pair) bool { return p.key == path[0] }); i >= 0 {
		out.pairs[i].value = grown(out.pairs[i].value, path[1:], value)
		return out
	}
	out.pairs = append(out.pairs, pair{key: path[0], value: grown(&node{}, path[1:], value)})
	return out
}

// replace writes the value of a pair anew, in one line. What is said behind it stays.
func (d *editor) replace(s spot, text string) error {
	begin := s.line - 1
	end := d.end(begin)
	line := strings.TrimRight(d.lines[begin], "\n")
	key, old, ok := strings.Cut(line, ":")
	comment := strings.LastIndex(old, " #")
	switch {
	case !ok, comment >= 0 && strings.Contains(s.value.text, " #"):
		return ErrByHand
	case slices.ContainsFunc(d.lines[begin+1:end], func(l string) bool {
		return strings.HasPrefix(strings.TrimSpace(l),
			"#") || strings.Contains(l, " #")
	}):
		return ErrByHand // a comment between the lines of the value
	case comment >= 0:
		text += old[len(strings.TrimRight(old[:comment], " ")):]
	}
	d.lines = slices.Replace(d.lines, begin, end, key+": "+text+"\n")
	return nil
}

// unset takes the pair of the path away, and the mappings that it leaves empty.
func (d *editor) unset(root *node) error {
	chain := d.chain(root)
	at := len(chain) - 1
	for at > 0 && len(chain[at-1].value.pairs) == 1 {
		at--
	}
	if s := chain[at]; !s.braces {
		d.lines = slices.Delete(d.lines, s.line-1, d.end(s.line-1))
		return nil
	}
	for i := at - 1; i >= 0; i-- {
		if !chain[i].braces {
			return d.replace(chain[i], flowText(shrunk(chain[i].value, d.path[i+1:at+1])))
		}
	}
	return ErrByHand
}

// shrunk is a mapping without the pair at a path.
func shrunk(n *node, path []string) *node {
	out := &node{kind: isMap}
	for _, p := range n.pairs {
		switch {
		case p.key != path[0]:
			out.pairs = append(out.pairs, p)
		case len(path) > 1:
			p.value = shrunk(p.value, path[1:])
			out.pairs = append(out.pairs, p)
		}
	}
	return out
}

// end is the line behind a pair that begins at a line: what stands further in belongs to it, and the items of a list.
func (d *editor) end(begin int) int {
	indent, end := indentOf(d.lines[begin]), begin+1
	for i := begin + 1; i < len(d.lines); i++ {
		line := strings.TrimSpace(d.lines[i])
		if line == "" {
			continue
		}
		in := indentOf(d.lines[i])
		if in < indent || in == indent && !strings.HasPrefix(line, "- ") {
			break
		}
		end = i + 1
	}
	return end
}

// insert writes a value below a path, at a line and behind an indent.
func (d *editor) insert(at, indent int, path []string, value *node) {
	var fresh []string
	for i, key := range path {
		line := strings.Repeat(" ", indent+2*i) + key + ":"
		if i == len(path)-1 {
			line += " " + flowText(value)
		}
		fresh = append(fresh, line+"\n")
	}
	d.lines = slices.Insert(d.lines, at, fresh...)
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// shapeAt is what a setting must look like; anything where it is not known.
func shapeAt(keys map[string]Form, path []string) shape {
	if form, ok := keys[strings.Join(path, ".")]; ok {
		return formShape(form)
	}
	s := mapping(map[string]field{harnessTop: acts(defaultsShape())})
	for _, word := range path {
		s = s.fields[word].shape
	}
	return s
}

// valueFor reads a value as the shape wants it: as YAML where that gives a kind that is permitted, else as a text or as
// a list of texts.
func valueFor(s shape, text string) *node {
	read := &node{kind: isText, text: text}
	if !strings.ContainsAny(text, "\n\r") {
		if root, err := readTree("v: "+text, 1); err == nil && len(root.pairs) == 1 && root.pairs[0].value.kind != isNull {
			read = root.pairs[0].value
		}
	}
	switch {
	case slices.Contains(s.kinds, read.kind) && read.kind != isText:
		return read
	case slices.Contains(s.kinds, isText):
		return &node{kind: isText, text: text}
	case slices.Contains(s.kinds, isList):
		list := &node{kind: isList}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list.items = append(list.items, &node{kind: isText, text: item})
			}
		}
		return list
	}
	return read
}

// flowText is a value in one line of YAML.
func flowText(n *node) string {
	switch n.kind {
	case isText:
		return quoted(n.text)
	case isList:
		var items []string
		for _, item := range n.items {
			items = append(items, flowText(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case isMap:
		var pairs []string
		for _, p := range n.pairs {
			pairs = append(pairs, quoted(p.key)+": "+flowText(p.value))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case isNull:
		return "null"
	case isInt, isFloat, isBool:
	}
	return n.text
}

// quoted is a text as YAML: as it is where it is read as the same text everywhere.
func quoted(text string) string {
	root, err := readTree("v: ["+text+"]", 1)
	if err == nil && len(root.pairs) == 1 && !strings.ContainsAny(text, "#{}[]") && !strings.ContainsFunc(text,
		unicode.IsControl) && !strings.Contains(text+" ", ": ") && strings.TrimSpace(text) == text {
		if items := root.pairs[0].value.items; len(items) == 1 && items[0].kind == isText && items[0].text == text {
			return text
		}
	}
	b, err := json.Marshal(text)
	if err != nil { // a string always has a form
		return `""`
	}
	return string(b)
}
