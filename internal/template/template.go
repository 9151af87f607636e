// Package template fills texts with fields of data, in the language of text/template: fields, if, else, with, range,
// and printf of one value.
//
// Promises: what is filled is what text/template makes of it. A program that links text/template can call any method
// by its name, so that the linker leaves out none of them; this package calls none (ADR 0091). Equal data give equal
// texts. A template is part of the program: one that does not parse, or shows what its data does not have, panics.
package template

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"text/template/parse"
)

// Template is a text with actions. It is parsed when it is first filled, and safe for concurrent use.
type Template struct{ parsed func() *parse.ListNode }

// New is the template of a text.
func New(text string) Template {
	return Template{sync.OnceValue(func() *parse.ListNode {
		trees, err := parse.Parse("text", text, "", "", map[string]any{"printf": fmt.Sprintf})
		if err != nil {
			panic(fmt.Sprintf("template: %v", err))
		}
		return trees["text"].Root
	})}
}

// Fill is the text with the fields of a struct in it.
func (t Template) Fill(data any) string {
	f := filling{vars: map[string]reflect.Value{}}
	f.list(t.parsed(), reflect.ValueOf(data))
	return f.String()
}

// filling is a text in the making. Variables stand for the whole text: no two of a template have one name.
type filling struct {
	strings.Builder
	vars map[string]reflect.Value
}

func (f *filling) list(l *parse.ListNode, dot reflect.Value) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			f.Write(n.Text)
		case *parse.ActionNode:
			fmt.Fprint(f, f.pipe(n.Pipe, dot).Interface())
		case *parse.IfNode:
			f.branch(&n.BranchNode, dot, dot)
		case *parse.WithNode:
			f.branch(&n.BranchNode, dot, f.pipe(n.Pipe, dot))
		case *parse.RangeNode:
			f.each(n, dot)
		default:
			panic(fmt.Sprintf("template: %s is not supported", n))
		}
	}
}

// branch fills the list with the data inside if the value of the condition is not empty, otherwise the other one.
func (f *filling) branch(n *parse.BranchNode, dot, inside reflect.Value) {
	if empty(f.pipe(n.Pipe, dot)) {
		f.list(n.ElseList, dot)
		return
	}
	f.list(n.List, inside)
}

func (f *filling) each(n *parse.RangeNode, dot reflect.Value) {
	elements := f.pipe(n.Pipe, dot)
	if elements.Len() == 0 {
		f.list(n.ElseList, dot)
	}
	for i := range elements.Len() {
		if d := n.Pipe.Decl; len(d) == 2 {
			f.vars[d[0].Ident[0]], f.vars[d[1].Ident[0]] = reflect.ValueOf(i), elements.Index(i)
		}
		f.list(n.List, elements.Index(i))
	}
}

// pipe is the value of one command: a field, or printf with a format and a value.
func (f *filling) pipe(p *parse.PipeNode, dot reflect.Value) reflect.Value {
	if len(p.Cmds) != 1 {
		panic(fmt.Sprintf("template: %s is not one command", p))
	}
	args := p.Cmds[0].Args
	if name, ok := args[0].(*parse.IdentifierNode); ok && name.Ident == "printf" && len(args) == 3 {
		return reflect.ValueOf(fmt.Sprintf(f.value(args[1], dot).String(), f.value(args[2], dot).Interface()))
	}
	if len(args) != 1 {
		panic(fmt.Sprintf("template: %s is not supported", p))
	}
	return f.value(args[0], dot)
}

func (f *filling) value(n parse.Node, dot reflect.Value) reflect.Value {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return field(dot, n.Ident)
	case *parse.VariableNode:
		return field(f.vars[n.Ident[0]], n.Ident[1:])
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	}
	panic(fmt.Sprintf("template: %s is not supported", n))
}

// field panics where a struct has no field of a name.
func field(v reflect.Value, path []string) reflect.Value {
	for _, name := range path {
		at := v.FieldByName(name)
		if !at.IsValid() {
			panic(fmt.Sprintf("template: %s has no field %s", v.Type(), name))
		}
		v = at
	}
	return v
}

func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
