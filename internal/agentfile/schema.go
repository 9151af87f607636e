package agentfile

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/didyoumean"
)

// use says what becomes of a value.
type use int

const (
	// inForce values reach the agent.
	inForce use = iota
	// noEffect values are checked and reported: their capability does not exist yet.
	noEffect
	// forPeople values are notes of the author; nothing would ever act on them.
	forPeople
)

// shape is what a value must look like.
type shape struct {
	kinds []kind
	// fields of a mapping; nil leaves the keys free.
	fields map[string]field
	// each is the shape of the items of a list, or of the values of a mapping with free keys; nil leaves them free.
	each *shape
	// most items of a list or pairs of a mapping, or bytes of a text; 0 means the default.
	most int
	// check returns what is expected instead, or "".
	check func(n *node) string
}

type field struct {
	shape shape
	use   use
}

// Limits that a shape falls back to.
const (
	mostText  = 1 << 10
	mostItems = 256
)

// walk checks a value against its shape and reports unknown keys, wrong types and values without effect.
func (p *parsing) walk(n *node, s shape, u use) {
	if len(s.kinds) > 0 && !slices.Contains(s.kinds, n.kind) {
		p.wrongKind(n, s)
		return
	}
	most := s.most
	switch n.kind {
	case isText:
		if most == 0 {
			most = mostText
		}
		if len(n.text) > most {
			p.failAt(n, Error{Code: CodeLimit, Message: "the text is too long",
				Expected: fmt.Sprintf("at most %d bytes", most), Actual: fmt.Sprint(len(n.text))})
			return
		}
	case isList, isMap:
		if most == 0 {
			most = mostItems
		}
		if count := len(n.items) + len(n.pairs); count > most {
			p.failAt(n, Error{Code: CodeLimit, Message: "there are too many entries",
				Expected: fmt.Sprintf("at most %d", most), Actual: fmt.Sprint(count)})
			return
		}
	default: // of one size
	}
	if s.check != nil {
		if want := s.check(n); want != "" {
			p.failAt(n, Error{Code: CodeValue, Message: "the value is not permitted", Expected: want,
				Actual: actual(n)})
			return
		}
	}
	if s.each != nil {
		for _, item := range n.items {
			p.walk(item, *s.each, u)
		}
		for _, pr := range n.pairs {
			p.walk(pr.value, *s.each, u)
		}
	}
	if s.fields != nil {
		p.walkFields(n, s.fields, u)
	}
}

func (p *parsing) walkFields(n *node, fields map[string]field, u use) {
	for _, pr := range n.pairs {
		f, ok := fields[pr.key]
		if !ok {
			p.unknown(pr, fields)
			continue
		}
		under := u
		if under == inForce {
			under = f.use
		}
		before := len(p.errs)
		p.walk(pr.value, f.shape, under)
		if u == inForce && f.use == noEffect && len(p.errs) == before {
			p.warn(Warning{Code: CodeNoEffect, Line: pr.value.line, Path: pr.value.path, Message: "accepted, has no effect yet"})
		}
	}
}

// foreign keys belong to others: extensions and namespaces.
func foreign(key string) bool {
	return strings.HasPrefix(key, "x-") || strings.Contains(key, ".")
}

func (p *parsing) unknown(pr pair, fields map[string]field) {
	if foreign(pr.key) {
		return
	}
	known := make([]string, 0, len(fields))
	for k := range fields {
		known = append(known, k)
	}
	sort.Strings(known)
	e := &Error{Code: CodeUnknown, Line: pr.line, Path: pr.value.path, Message: "unknown key",
		Hint: "known keys: " + strings.Join(known, ", ")}
	if near := didyoumean.Word(pr.key, known); near != "" {
		e.Expected, e.Hint = near, "did you mean "+near+"? A key of your own begins with x-"
	}
	p.fail(e)
}

func (p *parsing) wrongKind(n *node, s shape) {
	want := make([]string, len(s.kinds))
	for i, k := range s.kinds {
		want[i] = string(k)
	}
	e := &Error{Code: CodeType, Line: n.line, Path: n.path, Message: "the value has the wrong type",
		Expected: strings.Join(want, " or "), Actual: string(n.kind)}
	switch {
	case n.kind == isNull:
		e.Hint = "give it a value or leave the key out"
	case slices.Contains(s.kinds, isText) && n.kind != isList && n.kind != isMap:
		e.Hint = "put it in quotes"
	}
	p.fail(e)
}

func actual(n *node) string {
	switch n.kind {
	case isText:
		return shown(n.text)
	case isInt, isFloat, isBool:
		return n.text
	default:
		return string(n.kind)
	}
}

// The shapes of values.

func text() shape { return shape{kinds: []kind{isText}} }

func textUpTo(most int) shape { return shape{kinds: []kind{isText}, most: most} }

func boolean() shape { return shape{kinds: []kind{isBool}} }

func anything() shape { return shape{most: maxNodes} }

func list(each shape, most int) shape { return shape{kinds: []kind{isList}, each: &each, most: most} }

func mapping(fields map[string]field) shape { return shape{kinds: []kind{isMap}, fields: fields} }

func whole(least, most int64) shape {
	return shape{kinds: []kind{isInt}, check: func(n *node) string {
		if v, err := strconv.ParseInt(n.text, 10, 64); err != nil || v < least || v > most {
			return fmt.Sprintf("%d to %d", least, most)
		}
		return ""
	}}
}

func number(least, most float64) shape {
	return shape{kinds: []kind{isInt, isFloat}, check: func(n *node) string {
		if v, err := strconv.ParseFloat(n.text, 64); err != nil || !(v >= least && v <= most) {
			return fmt.Sprintf("%v to %v", least, most)
		}
		return ""
	}}
}

func oneOf(words ...string) shape {
	return shape{kinds: []kind{isText}, check: func(n *node) string {
		if slices.Contains(words, n.text) {
			return ""
		}
		want := "one of " + strings.TrimPrefix(strings.Join(words, ", "), ", ")
		if near := didyoumean.Word(n.text, words); near != "" {
			want += "; nearest is " + near
		}
		return want
	}}
}

func duration(least, most time.Duration) shape {
	return shape{kinds: []kind{isText}, check: func(n *node) string {
		if d, err := time.ParseDuration(n.text); err != nil || d < least || d > most {
			return fmt.Sprintf("a duration of %v to %v such as 30s, 10m or 1h30m", least, most)
		}
		return ""
	}}
}
