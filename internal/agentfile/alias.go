package agentfile

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// move is an accepted spelling of a key and the one it stands for.
type move struct{ from, to string }

// moves in the order in which they are made: those that fill harness first.
var moves = []move{
	{"harness.doom_loop_threshold", "harness.doom_loop.threshold"},
	{"harness_config.doom_loop_threshold", "harness.doom_loop.threshold"},
	{"harness_config", "harness"},
	{"harness.budget.wall_time", "harness.timeout"},
	{"metadata.max_steps", "harness.max_steps"},
	{"max_steps", "harness.max_steps"},
	{"station.max_steps", "harness.max_steps"},
	{"autonomy", "harness.autonomy"},
	{"harness.sandbox", "sandbox"},
	{"harness.workspace", "workspace"},
	{"harness.git", "git"},
	{"harness.permissions", "permissions"},
	{"sandbox.cpu", "sandbox.resources.cpu"},
	{"sandbox.vcpu", "sandbox.resources.vcpu"},
	{"sandbox.memory", "sandbox.resources.memory"},
	{"sandbox.disk", "sandbox.resources.disk"},
}

// agentic is the value of harness that stands for {enabled: true}.
const agentic = "agentic"

var toolAliases = map[string]string{"read_file": "read", "write_file": "write", "edit_file": "edit"}

// normalise rewrites the tree to the one form that the schema describes. It returns what the key harness says by being
// there (LOOP-1), whatever stands in it.
func (p *parsing) normalise(root *node) (word string) {
	word = p.harness(root)
	for _, above := range []*node{root, root.child("harness"), root.child("harness_config")} {
		if n := above.get("sandbox", "network"); n != nil && n.kind == isBool {
			wrap(n, "enabled")
		}
	}
	for _, m := range moves {
		p.move(root, m)
	}
	p.toolNames(root.child("tools"))
	return word
}

// harness brings the forms of the key harness to a mapping. Left empty it is off, with anything in it on; absent it
// says nothing.
func (p *parsing) harness(root *node) (word string) {
	h := root.child("harness")
	switch {
	case h == nil:
		return ""
	case h.kind == isNull, h.kind == isText && h.text == "":
		h.kind, h.text = isMap, ""
		return events.HarnessOff
	case h.kind == isText && h.text == agentic:
		wrap(h, "enabled")
		h.pairs[0].value.kind, h.pairs[0].value.text = isBool, "true"
	case h.kind == isText:
		p.failAt(h, Error{Code: CodeValue, Message: "the value is not permitted",
			Expected: `"agentic", nothing or a mapping`, Actual: shown(h.text)})
		h.kind, h.text = isMap, ""
	}
	return events.HarnessOn
}

// harnessOf says whether the harness is on for an agent: by what its file says of that in so many words, else by the
// key harness in it, else by the default of the station; "" where no one says.
func harnessOf(own *node, word string, either *node) string {
	if own == nil && word != "" {
		return word
	}
	switch {
	case either == nil || either.kind != isBool:
		return ""
	case either.yes():
		return events.HarnessOn
	}
	return events.HarnessOff
}

// wrap turns a scalar into a mapping with one key that holds it.
func wrap(n *node, key string) {
	inner := *n
	*n = node{kind: isMap, line: n.line, path: n.path, pairs: []pair{{key: key, line: n.line, value: &inner}}}
}

// move puts the value of an alias where it belongs. A value that cannot be moved stays, for the schema to refuse.
func (p *parsing) move(root *node, m move) {
	from, to := strings.Split(m.from, "."), strings.Split(m.to, ".")
	holder := root.get(from[:len(from)-1]...)
	last := from[len(from)-1]
	if holder == nil || holder.child(last) == nil {
		return
	}
	value := holder.child(last)
	if m.from == "harness_config" && value.kind != isMap {
		return
	}
	dest := root
	for _, key := range to[:len(to)-1] {
		next := dest.child(key)
		if next == nil {
			next = &node{kind: isMap, line: value.line, path: join(dest.path, key)}
			dest.pairs = append(dest.pairs, pair{key: key, line: value.line, value: next})
		}
		if next.kind != isMap {
			return
		}
		dest = next
	}
	holder.remove(last)
	if len(holder.pairs) == 0 && holder != root && len(from) > 1 && from[0] != "harness" && from[0] != "sandbox" {
		root.remove(from[0])
	}
	p.warn(Warning{Code: CodeAlias, Line: value.line, Path: value.path, Message: "is another spelling of " + m.to,
		Hint: "write " + m.to})
	p.merge(dest, pair{key: to[len(to)-1], line: value.line, value: value}, m.to)
}

func (n *node) remove(key string) {
	n.pairs = slices.DeleteFunc(n.pairs, func(p pair) bool { return p.key == key })
}

// merge adds one pair to a mapping. Mappings are merged key by key; other values must be equal to what is there.
func (p *parsing) merge(into *node, add pair, canonical string) {
	there := into.child(add.key)
	switch {
	case there == nil:
		into.pairs = append(into.pairs, add)
	case there.kind == isMap && add.value.kind == isMap:
		for _, pr := range add.value.pairs {
			p.merge(there, pr, canonical+"."+pr.key)
		}
	case !same(there, add.value):
		p.failAt(add.value, Error{Code: CodeConflict, Message: "two spellings of " +
			canonical + " have different values",
			Expected: actual(there) + " as in " + there.path, Actual: actual(add.value), Hint: "keep " + canonical + " only"})
	}
}

func same(a, b *node) bool {
	return a.kind == b.kind && a.text == b.text &&
		slices.EqualFunc(a.items, b.items, same) &&
		slices.EqualFunc(a.pairs, b.pairs, func(x, y pair) bool { return x.key == y.key && same(x.value, y.value) })
}

// toolNames replaces the long names of the file tools (C27).
func (p *parsing) toolNames(tools *node) {
	if tools == nil || tools.kind != isList {
		return
	}
	for _, t := range tools.items {
		if short, ok := toolAliases[t.text]; ok && t.kind == isText {
			p.warn(Warning{Code: CodeAlias, Line: t.line, Path: t.path, Message: t.text + " is another spelling of " + short,
				Hint: "write " + short})
			t.text = short
		}
	}
}
