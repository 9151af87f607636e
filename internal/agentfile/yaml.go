package agentfile

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/inspan/inspan/internal/pattern"
)

// Limits of the frontmatter's tree.
const (
	maxDepth = 32
	maxNodes = 20_000
)

type kind string

const (
	isNull  kind = "nothing"
	isText  kind = "text"
	isInt   kind = "a whole number"
	isFloat kind = "a number"
	isBool  kind = "true or false"
	isList  kind = "a list"
	isMap   kind = "a mapping"
)

// node is a value of the frontmatter and where it was written.
type node struct {
	kind kind
	// text of a scalar; numbers as written.
	text  string
	line  int
	path  string
	items []*node
	pairs []pair
}

type pair struct {
	key   string
	line  int
	value *node
}

// get returns the value below a chain of keys, or nil.
func (n *node) get(path ...string) *node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		n = n.child(key)
	}
	return n
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

// readTree parses the frontmatter. first is the line of the file that it begins at.
func readTree(src string, first int) (root *node, err error) {
	// The parser is somebody else's and the bytes are a stranger's: a panic in it must not end the process.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, &Error{Code: CodeYAML, Line: first, Message: "the frontmatter cannot be parsed",
				Hint: "simplify it"}
		}
	}()
	tokens := lexer.Tokenize(src)
	if err := checkNesting(tokens, first); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntaxError(err, first)
	}
	var docs []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			docs = append(docs, d.Body)
		}
	}
	if len(docs) == 0 {
		return &node{kind: isMap, line: first}, nil
	}
	if len(docs) > 1 {
		return nil, &Error{Code: CodeYAML, Line: first, Message: "the frontmatter holds more than one YAML document"}
	}
	r := treeReader{first: first}
	root, err = r.read(docs[0], "", 0)
	if err != nil {
		return nil, err
	}
	if root.kind != isMap {
		return nil, &Error{Code: CodeType, Line: root.line, Message: "the frontmatter must be keys and values",
			Expected: string(isMap), Actual: string(root.kind)}
	}
	return root, nil
}

// checkNesting bounds the depth before the recursive parser sees the tokens. Blocks that nest by indentation are
// bounded by MaxFrontmatter, since each level costs a column on every line below it.
func checkNesting(tokens token.Tokens, first int) error {
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
		if flow > maxDepth || entries > maxDepth {
			return tooDeep("", line+first-1)
		}
	}
	return nil
}

func tooDeep(path string, line int) *Error {
	return &Error{Code: CodeLimit, Line: line, Path: path, Message: "the frontmatter is nested too deep",
		Expected: fmt.Sprintf("at most %d levels", maxDepth)}
}

func syntaxError(err error, first int) *Error {
	e := &Error{Code: CodeYAML, Message: "the frontmatter is not YAML: " + err.Error()}
	if y, ok := errors.AsType[yaml.Error](err); ok {
		e.Message = "the frontmatter is not YAML: " + y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			e.Line = t.Position.Line + first - 1
		}
	}
	return e
}

type treeReader struct{ first, nodes int }

func (r *treeReader) line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line + r.first - 1
	}
	return r.first
}

func (r *treeReader) read(a ast.Node, path string, depth int) (*node, error) {
	n := &node{line: r.line(a), path: path}
	if r.nodes++; r.nodes > maxNodes {
		return nil, &Error{Code: CodeLimit, Line: n.line, Path: path, Message: "the frontmatter holds too many values",
			Expected: fmt.Sprintf("at most %d", maxNodes)}
	}
	if depth > maxDepth {
		return nil, tooDeep(path, n.line)
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
		n.kind, n.text = isFloat, fmt.Sprint(a.Value)
	case *ast.BoolNode:
		n.kind, n.text = isBool, fmt.Sprint(a.Value)
	case *ast.SequenceNode:
		return n, r.list(n, a, depth)
	case *ast.MappingNode:
		n.kind = isMap
		return n, r.pairs(n, a.Values, depth)
	case *ast.MappingValueNode:
		n.kind = isMap
		return n, r.pairs(n, []*ast.MappingValueNode{a}, depth)
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode, *ast.MergeKeyNode:
		return nil, &Error{Code: CodeYAML, Line: n.line, Path: path,
			Message: "YAML anchors, aliases, tags and merge keys are not accepted",
			Hint:    `a text that begins with *, & or ! must be quoted: "*"`}
	default:
		return nil, &Error{Code: CodeYAML, Line: n.line, Path: path, Message: "a value of this kind is not accepted",
			Actual: a.Type().YAMLName()}
	}
	return n, nil
}

func (r *treeReader) list(n *node, a *ast.SequenceNode, depth int) error {
	n.kind = isList
	for i, v := range a.Values {
		item, err := r.read(v, fmt.Sprintf("%s[%d]", n.path, i), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func (r *treeReader) pairs(n *node, values []*ast.MappingValueNode, depth int) error {
	seen := map[string]bool{}
	for _, v := range values {
		line := r.line(v.Key)
		key, err := keyOf(v.Key, n.path, line)
		if err != nil {
			return err
		}
		path := join(n.path, key)
		if len(key) > maxPattern {
			return &Error{Code: CodeLimit, Line: line, Path: path, Message: "the key is too long",
				Expected: fmt.Sprintf("at most %d bytes", maxPattern), Actual: fmt.Sprint(len(key))}
		}
		if seen[key] {
			return &Error{Code: CodeDuplicate, Line: line, Path: path, Message: "the key is used twice"}
		}
		seen[key] = true
		value, err := r.read(v.Value, path, depth+1)
		if err != nil {
			return err
		}
		if value.kind == isNull {
			value.line = line
		}
		n.pairs = append(n.pairs, pair{key: key, line: line, value: value})
	}
	return nil
}

func keyOf(k ast.MapKeyNode, path string, line int) (string, error) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return k.GetToken().Value, nil
	}
	return "", &Error{Code: CodeYAML, Line: line, Path: path, Message: "a key must be plain text",
		Hint: "quote a key that begins with *, & or !"}
}

// mostPath bounds the paths of a deep tree with long keys.
const mostPath = 256

var plainKey = pattern.New(`^[!-~]{1,80}$`)

func join(path, key string) string {
	if len(path) > mostPath {
		return path
	}
	if !plainKey.MatchString(key) {
		key = shown(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
