package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// properties is how many correctness properties the harness design has (PROP-1 to PROP-20).
const properties = 20

var tag = regexp.MustCompile(`Feature: agent-harnesses, Property ([0-9]+): .+`)

// tagged is a test whose name has the tag of a property.
type tagged struct {
	file, name string
	random     bool // it draws its input
}

func TestProperties(t *testing.T) {
	t.Parallel()
	found := map[int][]tagged{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "properties_test.go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for n, list := range tagsOf(path, f) {
			found[n] = append(found[n], list...)
		}
		for _, c := range f.Comments {
			if tag.MatchString(c.Text()) {
				t.Errorf("%s: a tag in a comment is in no list of tests: put it into a name", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("TEST-5ab properties, unit tests and whole stations are in files of their own", func(t *testing.T) {
		for n, list := range found {
			for _, at := range list {
				if !strings.HasSuffix(at.file, "_prop_test.go") {
					t.Errorf("property %d is in %s, among other tests", n, at.file)
				}
				dir := strings.TrimPrefix(filepath.Dir(at.file), "../../")
				if units, _ := filepath.Glob(filepath.Join("../..", dir, "*_test.go")); len(units) < 2 {
					t.Errorf("%s has no test beside that of property %d", dir, n)
				}
				if core := strings.HasPrefix(dir, "internal/core/") || strings.HasPrefix(dir, "pkg/"); core && imports(t, at.file, "internal/jet") {
					t.Errorf("%s needs a server", at.file)
				}
			}
		}
	})
	t.Run("TEST-1ab each property has exactly one test of random input, with its tag", func(t *testing.T) {
		for n := 1; n <= properties; n++ {
			list := found[n]
			delete(found, n)
			if len(list) != 1 {
				t.Errorf("property %d has %d tests with its tag, want one: %+v", n, len(list), list)
			}
			for _, at := range list {
				names := func(id string) bool { return strings.TrimRight(id, "abcdefgh") == "PROP-"+strconv.Itoa(n) }
				if !slices.ContainsFunc(Named(strings.ReplaceAll(at.name, " ", "_")), names) {
					t.Errorf("%s: %q does not name PROP-%d", at.file, at.name, n)
				}
				if !at.random {
					t.Errorf("%s: %q draws no input: it calls rapid.Check nowhere", at.file, at.name)
				}
			}
		}
		if len(found) > 0 {
			t.Errorf("there are no such properties: %+v", found)
		}
	})
}

// imports reports whether a file imports a package of this module.
func imports(t *testing.T, file, pkg string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(module+pkg) })
}

// tagsOf finds the tests of a file that t.Run names with a tag.
func tagsOf(path string, f *ast.File) map[int][]tagged {
	found := map[int][]tagged{}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 || !calls(call, "Run") {
			return true
		}
		lit, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(lit.Value)
		if m := tag.FindStringSubmatch(name); err == nil && m != nil {
			at := tagged{file: path, name: name}
			ast.Inspect(call.Args[1], func(n ast.Node) bool {
				inner, ok := n.(*ast.CallExpr)
				at.random = at.random || ok && calls(inner, "Check")
				return true
			})
			n, _ := strconv.Atoi(m[1]) // the pattern has digits alone
			found[n] = append(found[n], at)
		}
		return true
	})
	return found
}

// calls reports whether a call is that of a method or function X.name.
func calls(c *ast.CallExpr, name string) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == name
}
