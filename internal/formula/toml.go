package formula

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// readTOML parses a file. The library decides what TOML is, tables that are defined twice included; the tree adds where
// each value stands.
func readTOML(src *source) (*node, error) {
	root := &node{kind: isMap, at: place{in: src}}
	if err := toml.Unmarshal(src.text, new(map[string]any)); err != nil {
		e := &Error{Code: CodeSyntax, File: src.name, Line: 1, Column: 1,
			Message: "the file is not TOML: " + err.Error()}
		if d, ok := errors.AsType[*toml.DecodeError](err); ok {
			e.Line, e.Column = d.Position()
		}
		return nil, e
	}
	r := tomlReader{src: src}
	r.p.Reset(src.text)
	here := root
	for r.p.NextExpression() {
		x := r.p.Expression()
		var err error
		switch x.Kind {
		case unstable.KeyValue:
			err = r.pair(here, x, 1)
		case unstable.Table, unstable.ArrayTable:
			here, err = r.table(root, x)
		default:
		}
		if err != nil {
			return nil, err
		}
	}
	if err := r.p.Error(); err != nil {
		return nil, &Error{Code: CodeSyntax, File: src.name, Line: 1, Column: 1,
			Message: "the file is not TOML: " + err.Error()}
	}
	return root, nil
}

type tomlReader struct {
	p     unstable.Parser
	src   *source
	nodes int
}

func (r *tomlReader) count(at place, depth int) error {
	r.nodes++
	e := &Error{Code: CodeLimit}
	switch {
	case r.nodes > maxNodes:
		e.Message = fmt.Sprintf("the file has more than %d values", maxNodes)
	case depth > maxDepth:
		e.Message = fmt.Sprintf("values are nested more than %d levels deep", maxDepth)
	default:
		return nil
	}
	at.into(e)
	return e
}

// table finds or makes the table of a header, and adds an item where it is one of a list of tables.
func (r *tomlReader) table(root *node, x *unstable.Node) (*node, error) {
	here, depth := root, 0
	for it := x.Key(); it.Next(); {
		key := it.Node()
		depth++
		at := place{r.src, int(key.Raw.Offset)}
		next, err := r.below(here, key, at, depth)
		if err != nil {
			return nil, err
		}
		if x.Kind == unstable.ArrayTable && it.IsLast() {
			next.kind = isList
			item := &node{kind: isMap, at: at, path: fmt.Sprintf("%s[%d]", next.path, len(next.items))}
			next.items = append(next.items, item)
			next = item
		} else if next.kind == isList && len(next.items) > 0 {
			next = next.items[len(next.items)-1]
		}
		here = next
	}
	return here, nil
}

// below is the value of a key of a table, which is made where it is not there.
func (r *tomlReader) below(n *node, key *unstable.Node, at place, depth int) (*node, error) {
	if err := r.count(at, depth); err != nil {
		return nil, err
	}
	name := string(key.Data)
	if c := n.child(name); c != nil {
		return c, nil
	}
	if len(n.pairs) == maxKeys {
		e := &Error{Code: CodeLimit, Path: n.path, Message: fmt.Sprintf("the table has more than %d keys", maxKeys)}
		at.into(e)
		return nil, e
	}
	c := &node{kind: isMap, at: at, path: join(n.path, name)}
	n.pairs = append(n.pairs, pair{name, at, c})
	return c, nil
}

func (r *tomlReader) pair(n *node, x *unstable.Node, depth int) error {
	for it := x.Key(); it.Next(); depth++ {
		key := it.Node()
		at := place{r.src, int(key.Raw.Offset)}
		var err error
		if n, err = r.below(n, key, at, depth); err != nil {
			return err
		}
		if it.IsLast() {
			return r.value(n, x.Value(), depth)
		}
	}
	return nil
}

// value reads x into n, whose place is that of its key until something better is known.
func (r *tomlReader) value(n *node, x *unstable.Node, depth int) error {
	if x.Raw.Length > 0 {
		n.at.offset = int(x.Raw.Offset)
	}
	if err := r.count(n.at, depth); err != nil {
		return err
	}
	n.text = string(x.Data)
	switch x.Kind {
	case unstable.String:
		n.kind = isText
	case unstable.Integer:
		n.kind = isInt
	case unstable.Float:
		n.kind = isNumber
	case unstable.Bool:
		n.kind = isBool
	case unstable.Array:
		n.kind = isList
		for it := x.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			item := &node{at: n.at, path: fmt.Sprintf("%s[%d]", n.path, len(n.items))}
			n.items = append(n.items, item)
			if err := r.value(item, it.Node(), depth+1); err != nil {
				return err
			}
		}
	case unstable.InlineTable:
		n.kind, n.text = isMap, ""
		for it := x.Children(); it.Next(); {
			if it.Node().Kind != unstable.KeyValue {
				continue
			}
			if err := r.pair(n, it.Node(), depth+1); err != nil {
				return err
			}
		}
	default:
		n.kind = isDate
	}
	return nil
}

// isPlain reports whether bytes are text without control characters.
func isPlain(b []byte) bool {
	return bytes.IndexFunc(b, func(c rune) bool {
		return c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f ||
			c == 0xfffd
	}) < 0
}
