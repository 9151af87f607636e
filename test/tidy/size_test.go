package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Limits of what a reader has to know at once.
const (
	MaxMethods = 25 // of a type, in all files of its package
	MaxFields  = 20 // of a struct
	MaxImports = 15 // packages of this module that a package imports
)

// Sizes finds types with too many methods, structs with too many fields and packages with too many imports of ours.
// Files for tests do not count. A fault is at "folder" or "folder Type".
func Sizes(files []*File) []Fault {
	type at struct {
		file *File
		line int
		n    int
	}
	methods, imported := map[string]at{}, map[string]map[string]bool{}
	var faults []Fault
	for _, f := range files {
		if f.TestOnly() {
			continue
		}
		if imported[f.Dir] == nil {
			imported[f.Dir] = map[string]bool{}
		}
		for _, im := range f.AST.Imports {
			if p := strings.Trim(im.Path.Value, `"`); strings.HasPrefix(p, Module+"/") {
				imported[f.Dir][p] = true
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					key := f.Dir + " " + receiver(n)
					methods[key] = at{f, f.Line(n), methods[key].n + 1}
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && s.Fields.NumFields() > MaxFields {
					faults = append(faults, Fault{"fields", f.Dir + " " + n.Name.Name,
						fmt.Sprintf("%s: %s has %d fields, at most %d: group them by what they are for", f.Path, n.Name.Name, s.Fields.NumFields(), MaxFields), f.Line(n)})
				}
			}
			return true
		})
	}
	for key, m := range methods {
		if m.n > MaxMethods {
			faults = append(faults, Fault{"methods", key,
				fmt.Sprintf("%s: %s has %d methods, at most %d: split it by what they are for", m.file.Path, key, m.n, MaxMethods), m.line})
		}
	}
	for dir, ps := range imported {
		if len(ps) > MaxImports {
			faults = append(faults, Fault{"imports", dir, fmt.Sprintf("imports %d packages of this module, at most %d: split it, or take an interface", len(ps), MaxImports), 1})
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Rule+a.At, b.Rule+b.At) })
	return faults
}

// receiver is the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// TestSizes holds the module to the limits.
func TestSizes(t *testing.T) {
	t.Parallel()
	stand, idle := Except(Sizes(load(t)), SizeExceptions)
	for _, f := range stand {
		t.Error(f)
	}
	for _, e := range idle {
		t.Errorf("test/tidy/sizetable_test.go: nothing needs the exception from %q at %s any more: remove it", e.Rule, e.At)
	}
	for _, e := range SizeExceptions {
		if len(e.Why) < 20 {
			t.Errorf("test/tidy/sizetable_test.go: the exception at %s has no reason", e.At)
		}
	}
}

func TestSizesFound(t *testing.T) {
	t.Parallel()
	var methods, fields, imports strings.Builder
	for i := range MaxMethods {
		fmt.Fprintf(&methods, "func (x *T[K]) M%d() {}\n", i)
	}
	for i := range MaxFields {
		fmt.Fprintf(&fields, "F%d, ", i)
	}
	for i := range MaxImports {
		fmt.Fprintf(&imports, "import _ %q\n", fmt.Sprintf("%s/p%d", Module, i))
	}
	parse := func(path, src string) *File {
		f, err := Parse(path, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	atLimit := []*File{
		parse("a/a.go", "package a\n"+imports.String()+"import _ \"fmt\"\ntype S struct { "+strings.TrimSuffix(fields.String(), ", ")+" int }"),
		parse("a/b.go", "package a\n"+methods.String()),
		parse("a/c_test.go", "package a\nimport _ \""+Module+"/other\"\nfunc (T[K]) InTest() {}"),
	}
	if got := Sizes(atLimit); len(got) != 0 {
		t.Errorf("got %v at the limits, want nothing", got)
	}
	got := Sizes(append(atLimit, parse("a/d.go", "package a\nimport _ \""+Module+"/one\"\nfunc (T[K]) More() {}\ntype B struct { "+fields.String()+" More int }")))
	var rules []string
	for _, f := range got {
		rules = append(rules, f.Rule+" "+f.At)
	}
	if want := []string{"fields a B", "imports a", "methods a T"}; !slices.Equal(rules, want) {
		t.Errorf("got %v beyond the limits, want %v", rules, want)
	}
}
