package docgen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const module = "github.com/inspan/inspan/"

// notes are what the sources say about types and fields, by "import/path.Type" and "import/path.Type.Field", and the
// values of the constants of string types, in order, by "import/path.Type".
type notes struct {
	text   map[string]string
	values map[string][]string
}

// readNotes reads the comments of packages, given by folder.
func readNotes(root string, dirs ...string) (notes, error) {
	n := notes{text: map[string]string{}, values: map[string][]string{}}
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
		if err != nil {
			return n, fmt.Errorf("read comments: %w", err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(dir), e.Name()), nil,
				parser.ParseComments)
			if err != nil {
				return n, fmt.Errorf("read comments: %w", err)
			}
			n.file(module+dir, f)
		}
	}
	return n, nil
}

func (n notes) file(pkg string, f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				n.typed(pkg+"."+spec.Name.Name, g, spec)
			case *ast.ValueSpec:
				n.constant(pkg, spec)
			}
		}
	}
}

func (n notes) typed(key string, g *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil {
		doc = g.Doc
	}
	n.text[key] = plain(doc)
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range st.Fields.List {
		doc := field.Doc
		if doc == nil {
			doc = field.Comment
		}
		for _, name := range field.Names {
			n.text[key+"."+name.Name] = plain(doc)
		}
	}
}

func (n notes) constant(pkg string, spec *ast.ValueSpec) {
	t, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	for _, v := range spec.Values {
		if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				key := pkg + "." + t.Name
				n.values[key] = append(n.values[key], s)
			}
		}
	}
}

func plain(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }
