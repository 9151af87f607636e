package formula

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML parses a file: one document of mappings, lists and scalars.
func readYAML(src *source) (root *node, err error) {
	fail := func(at place, code, hint, format string, args ...any) error {
		e := &Error{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}
		at.into(e)
		return e
	}
	// The parser is somebody else's and the bytes are a stranger's: a panic in it must not end the process.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fail(src.start(), CodeSyntax, "simplify it", "the file cannot be parsed")
		}
	}()
	r := yamlReader{src: src, fail: fail, starts: []int{0}}
	for i, c := range src.text {
		if c == '\n' {
			r.starts = append(r.starts, i+1)
		}
	}
	tokens := lexer.Tokenize(string(src.text))
	if err := r.nesting(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if y, ok := errors.AsType[yaml.Error](err); ok {
		return nil, fail(r.place(y.GetToken()), CodeSyntax, "", "the file is not YAML: %s", y.GetMessage())
	}
	if err != nil {
		return nil, fail(src.start(), CodeSyntax, "", "the file is not YAML: %v", err)
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) != 1 {
		return nil, fail(src.start(), CodeSyntax, "", "the file has %d YAML documents, want one", len(docs))
	}
	root = &node{at: src.start()}
	if err := r.read(root, docs[0], 0); err != nil {
		return nil, err
	}
	if root.kind != isMap {
		return nil, fail(root.at, CodeType, "begin with id: NAME", "the file is %s, want keys and values", root.kind)
	}
	return root, nil
}

type yamlReader struct {
	src    *source
	fail   func(at place, code, hint, format string, args ...any) error
	starts []int
	nodes  int
}

// place is where a token stands; the parser counts lines and columns from 1.
func (r *yamlReader) place(t *token.Token) place {
	p := r.src.start()
	if t == nil || t.Position == nil || t.Position.Line < 1 || t.Position.Line > len(r.starts) {
		return p
	}
	p.offset = min(r.starts[t.Position.Line-1]+max(t.Position.Column-1, 0), len(r.src.text))
	return p
}

// nesting bounds the depth before the recursive parser sees the tokens. Blocks are bounded by the size of the file:
// each level costs a column on every line below it.
func (r *yamlReader) nesting(tokens token.Tokens) error {
	flow, entries, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		default:
		}
		if flow > maxDepth || entries > maxDepth || t.Position.Column > maxColumn {
			return r.fail(r.place(t), CodeLimit, "", "values are nested more than %d levels deep", maxDepth)
		}
	}
	return nil
}

// maxColumn bounds where a token begins, and so how deep blocks are.
const maxColumn = 4096

func (r *yamlReader) read(n *node, a ast.Node, depth int) error {
	if t := a.GetToken(); t != nil {
		n.at = r.place(t)
	}
	if r.nodes++; r.nodes > maxNodes || depth > maxDepth {
		return r.fail(n.at, CodeLimit, "",
			"the file has more than %d values, or they are nested more than %d levels deep", maxNodes, maxDepth)
	}
	switch a := a.(type) {
	case *ast.NullNode:
		n.kind = isNull
	case *ast.StringNode:
		n.kind, n.text = isText, a.Value
	case *ast.LiteralNode:
		n.kind, n.text = isText, a.Value.Value
	case *ast.IntegerNode:
		n.kind, n.text = isInt, fmt.Sprint(a.Value)
	case *ast.FloatNode:
		n.kind, n.text = isNumber, fmt.Sprint(a.Value)
	case *ast.BoolNode:
		n.kind, n.text = isBool, fmt.Sprint(a.Value)
	case *ast.SequenceNode:
		n.kind = isList
		for i, v := range a.Values {
			item := &node{path: fmt.Sprintf("%s[%d]", n.path, i)}
			n.items = append(n.items, item)
			if err := r.read(item, v, depth+1); err != nil {
				return err
			}
		}
	case *ast.MappingNode:
		return r.pairs(n, a.Values, depth)
	case *ast.MappingValueNode:
		return r.pairs(n, []*ast.MappingValueNode{a}, depth)
	default:
		return r.fail(n.at, CodeSyntax, `a text that begins with *, & or ! must be quoted: "*"`,
			"anchors, aliases, tags and merge keys are not accepted")
	}
	return nil
}

func (r *yamlReader) pairs(n *node, values []*ast.MappingValueNode, depth int) error {
	n.kind = isMap
	for i, v := range values {
		at := r.place(v.Key.GetToken())
		if i == 0 {
			n.at = at
		}
		switch v.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		default:
			return r.fail(at, CodeSyntax, "quote a key that begins with *, & or !", "a key must be plain text")
		}
		key := v.Key.GetToken().Value
		switch {
		case len(n.pairs) == maxKeys:
			return r.fail(at, CodeLimit, "", "the mapping has more than %d keys", maxKeys)
		case n.child(key) != nil:
			return r.fail(at, CodeDuplicate, "remove one of them", "the key %s is there twice", shown(key))
		}
		c := &node{at: at, path: join(n.path, key)}
		n.pairs = append(n.pairs, pair{key, at, c})
		if err := r.read(c, v.Value, depth+1); err != nil {
			return err
		}
	}
	return nil
}
