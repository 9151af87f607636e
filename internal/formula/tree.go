package formula

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/didyoumean"
)

// source is a file that was read.
type source struct {
	name string
	text []byte
}

// place is where something stands in a file.
type place struct {
	in     *source
	offset int
}

// into says the place in an error.
func (p place) into(e *Error) {
	if p.in == nil {
		return
	}
	before := p.in.text[:min(p.offset, len(p.in.text))]
	e.File, e.Line = p.in.name, bytes.Count(before, []byte("\n"))+1
	e.Column = len(before) - bytes.LastIndexByte(before, '\n')
}

// find is the place of the first occurrence of a text from p on, or p itself.
func (p place) find(text string) place {
	if i := bytes.Index(p.in.text[min(p.offset, len(p.in.text)):], []byte(text)); i >= 0 {
		p.offset += i
	}
	return p
}

type kind string

const (
	isNull   kind = "nothing"
	isText   kind = "a text"
	isInt    kind = "a whole number"
	isNumber kind = "a number"
	isBool   kind = "true or false"
	isDate   kind = "a date"
	isList   kind = "a list"
	isMap    kind = "a table"
)

// node is a value of a file and where it stands.
type node struct {
	kind kind
	// text of a scalar; numbers as written.
	text  string
	at    place
	path  string
	items []*node
	pairs []pair
	// made is set where the text is not the one of the file, so that only the place as a whole is known.
	made bool
}

type pair struct {
	key   string
	at    place
	value *node
}

func (n *node) child(key string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.pairs {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

func join(path, key string) string {
	if len(key) > maxKey {
		key = key[:maxKey]
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// wrong adds a fault of a value.
func (f *faults) wrong(n *node, code, hint, format string, args ...any) {
	f.add(n.at, n.path, code, hint, format, args...)
}

// keys refuses the keys of a table that no one knows, and those that no run can carry out.
func (f *faults) keys(n *node, known []string, unsupported map[string]string) {
	if n == nil || !f.is(n, isMap) {
		return
	}
	for _, p := range n.pairs {
		if strings.HasPrefix(p.key, "x-") {
			continue // for other programs
		}
		why, refused := unsupported[p.key]
		switch {
		case refused:
			f.add(p.at, join(n.path, p.key), CodeUnsupported, why, "%s is not supported", p.key)
		case !slices.Contains(known, p.key):
			f.add(p.at, join(n.path, p.key), CodeUnknown,
				didyoumean.Hint(p.key, known, "known here: "+strings.Join(known, ", ")), "unknown key %s", shown(p.key))
		}
	}
}

// is reports whether a value is of a kind, and adds a fault where not.
func (f *faults) is(n *node, want kind) bool {
	if n.kind == want {
		return true
	}
	f.wrong(n, CodeType, "", "want %s, got %s", want, n.kind)
	return false
}

// word is a short text without templates, such as a name; empty where there is none.
func (f *faults) word(n *node) string {
	if n == nil || !f.is(n, isText) {
		return ""
	}
	switch {
	case n.text == "":
		f.wrong(n, CodeValue, "leave the key out, or give it a value", "the text is empty")
	case len(n.text) > maxName:
		f.wrong(n, CodeLimit, "", "the text has %d bytes, the limit is %d", len(n.text), maxName)
	case strings.Contains(n.text, "{{"):
		f.wrong(n, CodeTemplate, "write the value itself; templates are for titles and descriptions",
			"a template is not replaced here")
	default:
		return n.text
	}
	return ""
}

// oneOf is a word out of a few.
func (f *faults) oneOf(n *node, want ...string) string {
	w := f.word(n)
	if w != "" && !slices.Contains(want, w) {
		f.wrong(n, CodeValue, didyoumean.Hint(w, want, ""), "%s is none of %s", shown(w), strings.Join(want, ", "))
		return ""
	}
	return w
}

func (f *faults) flag(n *node) bool { return n != nil && f.is(n, isBool) && n.text == "true" }

// list are the items of a list; nil where there is none. A single value counts as a list of one where one is given.
func (f *faults) list(n *node, most int) []*node {
	if n == nil || !f.is(n, isList) {
		return nil
	}
	if len(n.items) > most {
		f.wrong(n, CodeLimit, "", "the list has %d items, the limit is %d", len(n.items), most)
		return nil
	}
	return n.items
}

// ref is a name that stands for something else, and where it stands.
type ref struct {
	name string
	at   place
	path string
}

// refs are the names of a list.
func (f *faults) refs(n *node, most int) []ref {
	var out []ref
	for _, item := range f.list(n, most) {
		if w := f.word(item); w != "" {
			out = append(out, ref{w, item.at, item.path})
		}
	}
	return out
}

// document is a value as JSON.
func (n *node) document() json.RawMessage {
	var v func(n *node) any
	v = func(n *node) any {
		switch n.kind {
		case isMap:
			m := make(map[string]any, len(n.pairs))
			for _, p := range n.pairs {
				m[p.key] = v(p.value)
			}
			return m
		case isList:
			l := make([]any, len(n.items))
			for i, item := range n.items {
				l[i] = v(item)
			}
			return l
		case isInt, isNumber:
			if num := strings.ReplaceAll(n.text, "_", ""); json.Valid([]byte(num)) {
				return json.RawMessage(num)
			}
			return n.text
		case isBool:
			return n.text == "true"
		case isNull:
			return nil
		case isText, isDate:
		}
		return n.text
	}
	b, err := json.Marshal(v(n))
	if err != nil {
		return json.RawMessage(fmt.Sprintf("%q", err))
	}
	return b
}
