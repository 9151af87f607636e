// Package starlark evaluates one Starlark expression over given values.
//
// Promises: equal expressions and values give equal results; nothing is read, written or called beyond the values and
// a fixed list of functions; each evaluation ends within the limits it is given, in time and in memory, whatever the
// expression is; what is wrong with an expression is found when it is parsed where that is possible, and has a place.
package starlark

import (
	"errors"
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// MaxSource bounds an expression, in bytes.
const MaxSource = 4 << 10

// Limits of one evaluation. Work counts what operations look at and make, in bytes: comparing or joining two texts
// costs their lengths. Zero fields mean those of Bounded.
type Limits struct {
	Steps uint64
	Work  int
}

// Bounded are the limits of conditions: under a tenth of a second.
var Bounded = Limits{Steps: 200_000, Work: 32 << 20}

// Error is what is wrong with an expression, and where: lines and columns are those of the expression, from 1.
type Error struct {
	Line, Column int
	Text         string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// Path is a value that an expression names: steps.plan.output has the names steps, plan and output, and so does
// steps["plan"].output.
type Path struct {
	Names        []string
	Line, Column int
}

// Expr is an expression that was parsed. It never changes.
type Expr struct {
	source string
	names  []string
	paths  []Path
}

// Parse reads an expression that may use the given names.
func Parse(source string, names ...string) (*Expr, error) {
	e := &Expr{source: source, names: names}
	_, paths, err := e.tree()
	e.paths = paths
	return e, err
}

// Paths are the values that the expression names, in the order of the text. What is looked up by a computed name ends
// the path.
func (e *Expr) Paths() []Path { return e.paths }

// tree parses the expression anew: the resolver of the library writes into what it resolves.
func (e *Expr) tree() (syntax.Expr, []Path, error) {
	if len(e.source) > MaxSource {
		return nil, nil, &Error{1, 1, fmt.Sprintf("the expression has %d bytes, the limit is %d", len(e.source), MaxSource)}
	}
	x, err := options.ParseExpr("", e.source, 0)
	if err != nil {
		return nil, nil, syntaxError(err)
	}
	g := &guard{given: set(e.names), bound: map[string]bool{}}
	g.binds(x)
	x = g.expr(x)
	if g.err != nil {
		return nil, nil, g.err
	}
	return x, g.paths, nil
}

var options = &syntax.FileOptions{}

func syntaxError(err error) error {
	if bad, ok := errors.AsType[syntax.Error](err); ok {
		return &Error{int(bad.Pos.Line), int(bad.Pos.Col), bad.Msg}
	}
	return &Error{1, 1, err.Error()}
}

// Eval evaluates the expression. values has one of each name that Parse was given: values as encoding/json makes them,
// and int. The result is nil, bool, int64, float64, string, []any or map[string]any.
func (e *Expr) Eval(values map[string]any, l Limits) (any, error) {
	x, _, err := e.tree()
	if err != nil {
		return nil, err
	}
	m := &meter{left: l.Work}
	if m.left == 0 {
		m.left = Bounded.Work
	}
	env := m.environment()
	for _, name := range e.names {
		if env[name], err = toStarlark(values[name], 0); err != nil {
			return nil, &Error{1, 1, name + ": " + err.Error()}
		}
	}
	thread := &starlark.Thread{Name: "expression", Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(l.Steps)
	if l.Steps == 0 {
		thread.SetMaxExecutionSteps(Bounded.Steps)
	}
	v, err := starlark.EvalExprOptions(options, thread, x, env)
	if err != nil {
		return nil, evalError(err)
	}
	out, err := m.toGo(v)
	if err != nil {
		return nil, &Error{1, 1, err.Error()}
	}
	return out, nil
}

func evalError(err error) error {
	at := &Error{1, 1, err.Error()}
	if bad, ok := errors.AsType[*starlark.EvalError](err); ok {
		at.Text = bad.Msg
		for i := range bad.CallStack {
			if p := bad.CallStack.At(i).Pos; p.IsValid() && p.Line > 0 {
				at.Line, at.Column = int(p.Line), int(p.Col)
				break
			}
		}
	}
	if at.Text == "Starlark computation cancelled: too many steps" {
		at.Text = "the expression takes too many steps"
	}
	return at
}
