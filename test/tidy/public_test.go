package tidy

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// compiled finds what the compiler says of packages and all that they import.
func compiled(t *testing.T, pkgs ...string) types.Importer {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, p := range pkgs {
		args = append(args, "./"+p)
	}
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list -export: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// TestPublic holds the packages of others to types that others can import.
func TestPublic(t *testing.T) {
	t.Parallel()
	from := compiled(t, Public...)
	for _, path := range Public {
		t.Run("DEPL-1 "+path+" exports no type of a folder that others cannot import", func(t *testing.T) {
			pkg, err := from.Import(Module + "/" + path)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range Internal(pkg) {
				t.Errorf("%s: %s", path, f)
			}
		})
	}
	t.Run("the check finds them wherever they are", func(t *testing.T) {
		src := `package p
import k "` + Module + `/internal/secret"
type hidden struct{ K k.Value }
type A = k.Value
type S struct { F map[string][]*k.Value; g k.Value; H hidden }
func (S) M(func(k.Value)) {}
type I interface { N() (int, k.Value) }
var V *k.Value
func Fine(hidden) {}
`
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := (&types.Config{Importer: compiled(t, "internal/secret")}).Check("example.com/p", fset, []*ast.File{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range Internal(pkg) {
			name, _, _ := strings.Cut(f, " ")
			got = append(got, name)
		}
		slices.Sort(got)
		if want := []string{"A", "I.N", "S.F", "S.M", "V"}; !slices.Equal(got, want) {
			t.Errorf("found %v, want %v", got, want)
		}
	})
}
