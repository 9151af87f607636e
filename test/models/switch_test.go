package models

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"
)

// liveWait is how long one live run may take; make live gives all of them ten minutes.
const liveWait = 5 * time.Minute

// TestLiveIsSwitched reads the tests of live models, which are not built here.
func TestLiveIsSwitched(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "live_test.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("TEST-8 live models are asked only with the tag integration and HARNESS_E2E_TEST=1, and for five to ten minutes", func(t *testing.T) {
		t.Parallel()
		tagged := false
		for _, c := range f.Comments {
			if !constraint.IsGoBuild(c.List[0].Text) {
				continue
			}
			x, err := constraint.Parse(c.List[0].Text)
			if err != nil {
				t.Fatal(err)
			}
			tagged = x.Eval(func(tag string) bool { return tag == "integration" }) && !x.Eval(func(string) bool { return false })
		}
		if !tagged {
			t.Error("live_test.go is built without the tag integration, or not with it alone")
		}
		if !calling(f, "asked", "Getenv", `"HARNESS_E2E_TEST"`) {
			t.Error("asked does not look at HARNESS_E2E_TEST")
		}
		if liveWait < 5*time.Minute || liveWait > 10*time.Minute {
			t.Errorf("a live run may take %s", liveWait)
		}
	})
	t.Run("SESS-19 a conversation of several turns with a live model is among them, behind the same switch", func(t *testing.T) {
		t.Parallel()
		found := false
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !strings.Contains(text(call.Args[0]), "SESS-19") {
				return true
			}
			switched, inputs := false, 0
			ast.Inspect(call.Args[1], func(n ast.Node) bool {
				inner, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch id, _ := inner.Fun.(*ast.Ident); {
				case id == nil:
				case id.Name == "asked":
					switched = true
				case id.Name == "carry":
					inputs = len(inner.Args) - 5
				}
				return true
			})
			found = switched && inputs >= 2
			return false
		})
		if !found {
			t.Error("no test names SESS-19, asks for the switch and gives a model two inputs or more")
		}
	})
}

// calling reports whether a function of the file calls another with such a first argument.
func calling(f *ast.File, caller, called, arg string) (found bool) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != caller {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || text(call.Args[0]) != arg {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			found = found || ok && s.Sel.Name == called
			return true
		})
	}
	return found
}

// text is the source of the first literal in an expression.
func text(e ast.Expr) (s string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && s == "" {
			s = lit.Value
		}
		return s == ""
	})
	return s
}
