package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// far is the type that no package should lead to but the one that has it: the compiler reads every type that a package
// refers to with its fields and the signatures of its methods, and compiles each generic type that it finds there once
// more, for each package. Below the NATS server are some 470 functions, which was a fifth of a build from nothing.
const (
	far     = "github.com/nats-io/nats-server/v2/server.Server"
	farHome = "/internal/natsserver"
)

// reach holds that a package outside of the one that has the NATS server does not lead to its type: hide it behind an
// interface, or make the method that names it a function.
var reach = &analysis.Analyzer{Name: "reach", Doc: "types that lead to those of the NATS server",
	Run: func(pass *analysis.Pass) (any, error) {
		if strings.HasSuffix(strings.TrimSuffix(pass.Pkg.Path(), "_test"), farHome) {
			return nil, nil
		}
		seen := map[types.Type]bool{}
		for _, file := range pass.Files {
			if strings.HasSuffix(pass.Fset.Position(file.Pos()).Filename, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok || pass.TypesInfo.Uses[id] == nil {
					return true
				}
				if path := pathTo(pass.TypesInfo.Uses[id].Type(), seen); path != nil {
					reported(pass, id.Pos(), path)
				}
				return true
			})
		}
		return nil, nil
	}}

func reported(pass *analysis.Pass, at token.Pos, path []string) {
	pass.Reportf(at, "reach: leads to %s by %s: hide it behind an interface, or make the method that names it a function",
		far, strings.Join(path, ", "))
}

// pathTo returns how a type leads to far; nil where it does not, or was looked at before.
func pathTo(t types.Type, seen map[types.Type]bool) []string {
	if t == nil || seen[t] {
		return nil
	}
	seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		if name := types.TypeString(t, nil); name == far {
			return []string{name}
		}
		for i := range t.NumMethods() {
			if path := pathTo(t.Method(i).Type(), seen); path != nil {
				return append([]string{t.Obj().Name() + "." + t.Method(i).Name()}, path...)
			}
		}
		return through(t.Obj().Name(), pathTo(t.Underlying(), seen))
	case *types.Struct:
		for i := range t.NumFields() {
			if path := pathTo(t.Field(i).Type(), seen); path != nil {
				return append([]string{t.Field(i).Name()}, path...)
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if path := pathTo(t.Method(i).Type(), seen); path != nil {
				return append([]string{t.Method(i).Name()}, path...)
			}
		}
	case *types.Signature:
		for _, of := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range of.Len() {
				if path := pathTo(of.At(i).Type(), seen); path != nil {
					return path
				}
			}
		}
	case *types.Map:
		if path := pathTo(t.Key(), seen); path != nil {
			return path
		}
		return pathTo(t.Elem(), seen)
	case *types.Alias:
		return pathTo(types.Unalias(t), seen)
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		return pathTo(t.Elem(), seen)
	}
	return nil
}

func through(name string, path []string) []string {
	if path == nil {
		return nil
	}
	return append([]string{name}, path...)
}
