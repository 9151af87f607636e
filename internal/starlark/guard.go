package starlark

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// methods that an expression may call of values. Each looks at most at its value and arguments, and makes no more.
var methods = set([]string{"get", "keys", "values", "items", "startswith", "endswith", "strip", "lstrip", "rstrip",
	"lower", "upper",
	"split", "splitlines", "find", "count", "isdigit", "removeprefix", "removesuffix"})

// operators whose results the meter bounds.
var operators = map[syntax.Token]string{syntax.PLUS: "+", syntax.MINUS: "-", syntax.STAR: "*", syntax.SLASH: "/",
	syntax.SLASHSLASH: "//", syntax.PERCENT: "%", syntax.EQL: "==", syntax.NEQ: "!=", syntax.LT: "<", syntax.LE: "<=",
	syntax.GT: ">", syntax.GE: ">=", syntax.IN: "in", syntax.NOT_IN: "not in"}

// guard rewrites an expression so that each operation that can take long or make much goes through the meter, and
// refuses what it does not know.
type guard struct {
	given, bound map[string]bool
	paths        []Path
	err          error
}

func set(names []string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

func (g *guard) refuse(at syntax.Node, format string, args ...any) {
	if start, _ := at.Span(); g.err == nil {
		g.err = &Error{int(start.Line), int(start.Col), fmt.Sprintf(format, args...)}
	}
}

// binds collects the names that comprehensions bind.
func (g *guard) binds(x syntax.Expr) {
	syntax.Walk(x, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.ForClause); ok {
			syntax.Walk(f.Vars, func(n syntax.Node) bool {
				id, ok := n.(*syntax.Ident)
				if ok && (g.given[id.Name] || starlark.Universe.Has(id.Name)) {
					g.refuse(id, "%s is taken: give the variable another name", id.Name)
				} else if ok {
					g.bound[id.Name] = true
				}
				return true
			})
		}
		return true
	})
}

func (g *guard) all(list []syntax.Expr) {
	for i := range list {
		list[i] = g.expr(list[i])
	}
}

func (g *guard) expr(x syntax.Expr) syntax.Expr {
	if names := pathOf(x); names != nil && g.given[names[0]] {
		start, _ := x.Span()
		g.paths = append(g.paths, Path{names, int(start.Line), int(start.Col)})
	}
	return g.rewrite(x)
}

// inner is the value that a field or an item is taken of: it is no path of its own where it is part of one.
func (g *guard) inner(whole, x syntax.Expr) syntax.Expr {
	if pathOf(whole) != nil {
		return g.rewrite(x)
	}
	return g.expr(x)
}

func (g *guard) rewrite(x syntax.Expr) syntax.Expr {
	switch x := x.(type) {
	case nil:
	case *syntax.Literal:
		if _, bytes := x.Value.(string); bytes && x.Token == syntax.BYTES {
			g.refuse(x, "bytes cannot be used here: write a text")
		}
	case *syntax.Ident:
		if !g.given[x.Name] && !g.bound[x.Name] && !slices.Contains(constants, x.Name) {
			g.refuse(x, "%s is nothing that can be used here; there are %s", x.Name, known(g.given))
		}
	case *syntax.ParenExpr:
		x.X = g.expr(x.X)
	case *syntax.ListExpr:
		g.all(x.List)
	case *syntax.TupleExpr:
		g.all(x.List)
	case *syntax.DictExpr:
		g.all(x.List)
	case *syntax.DictEntry:
		x.Key, x.Value = g.expr(x.Key), g.expr(x.Value)
	case *syntax.CondExpr:
		x.Cond, x.True, x.False = g.expr(x.Cond), g.expr(x.True), g.expr(x.False)
	case *syntax.IndexExpr:
		x.X = g.inner(x, x.X)
		x.Y = g.expr(x.Y)
	case *syntax.DotExpr:
		c := call("field", x, g.inner(x, x.X),
			&syntax.Literal{Token: syntax.STRING, TokenPos: x.Name.NamePos, Value: x.Name.Name})
		c.Lparen = x.Name.NamePos
		return c
	case *syntax.SliceExpr:
		x.X = call("charge", x, g.expr(x.X))
		x.Lo, x.Hi, x.Step = g.expr(x.Lo), g.expr(x.Hi), g.expr(x.Step)
	case *syntax.UnaryExpr:
		x.X = g.expr(x.X)
	case *syntax.BinaryExpr:
		return g.binary(x)
	case *syntax.CallExpr:
		return g.call(x)
	case *syntax.Comprehension:
		g.comprehension(x)
	default:
		g.refuse(x, "a condition cannot have this: write one expression without lambda")
	}
	return x
}

func (g *guard) binary(x *syntax.BinaryExpr) syntax.Expr {
	x.X, x.Y = g.expr(x.X), g.expr(x.Y)
	if x.Op == syntax.AND || x.Op == syntax.OR {
		return x
	}
	op, ok := operators[x.Op]
	if !ok {
		g.refuse(x, "the operator %s cannot be used here", x.Op)
		return x
	}
	c := call(op, x, x.X, x.Y)
	c.Lparen = x.OpPos
	return c
}

func (g *guard) call(x *syntax.CallExpr) syntax.Expr {
	for i, a := range x.Args {
		if b, ok := a.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			g.refuse(a, "arguments have no names here")
		} else if u, ok := a.(*syntax.UnaryExpr); ok && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) {
			g.refuse(a, "arguments cannot be unpacked here")
		} else if x.Args[i] = g.expr(a); !isCheap(x.Fn) {
			x.Args[i] = call("charge", x, x.Args[i])
		}
	}
	switch f := x.Fn.(type) {
	case *syntax.Ident:
		if !slices.Contains(functions, f.Name) || g.given[f.Name] {
			g.refuse(f, "%s is no function that can be called here; there are %s", f.Name, strings.Join(functions, ", "))
		}
	case *syntax.DotExpr:
		if !methods[f.Name.Name] {
			g.refuse(f.Name, "%s cannot be called here", f.Name.Name)
		}
		f.X = call("charge", x, g.expr(f.X))
	default:
		g.refuse(x, "only functions and methods can be called")
	}
	return x
}

func isCheap(f syntax.Expr) bool {
	id, ok := f.(*syntax.Ident)
	return ok && slices.Contains(cheap, id.Name)
}

func (g *guard) comprehension(x *syntax.Comprehension) {
	for _, c := range x.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			c.X = g.expr(c.X)
		case *syntax.IfClause:
			c.Cond = g.expr(c.Cond)
		}
	}
	x.Body = g.expr(x.Body)
}

// call is an expression that calls one of the meter's functions, whose names no source can have.
func call(name string, at syntax.Node, args ...syntax.Expr) *syntax.CallExpr {
	start, end := at.Span()
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: start, Name: "(" + name + ")"}, Lparen: start, Args: args,
		Rparen: end}
}

// pathOf returns the names of a chain such as steps.plan.output, or nil.
func pathOf(x syntax.Expr) []string {
	switch x := x.(type) {
	case *syntax.Ident:
		return []string{x.Name}
	case *syntax.DotExpr:
		if p := pathOf(x.X); p != nil {
			return append(p, x.Name.Name)
		}
	case *syntax.IndexExpr:
		if key, ok := x.Y.(*syntax.Literal); ok && key.Token == syntax.STRING {
			if p := pathOf(x.X); p != nil {
				return append(p, key.Value.(string))
			}
		}
	}
	return nil
}
