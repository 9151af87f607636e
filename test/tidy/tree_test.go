package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Module is the import path of this module.
const Module = "github.com/inspan/inspan"

// File is one parsed Go file.
type File struct {
	// Path and Dir are relative to the module, with slashes; Dir of a file in the root is ".".
	Path, Dir string
	Lines     int
	// Wide are the numbers of the lines that are wider than MaxColumns.
	Wide []int
	AST  *ast.File
	Fset *token.FileSet
}

// Test reports whether the file is only built for tests.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// TestOnly reports whether the file serves tests: a test file, or one of a package that only tests import.
func (f *File) TestOnly() bool {
	return f.Test() || strings.HasPrefix(f.Dir, "test/") || strings.HasSuffix(f.Dir, "test")
}

// Line of a node.
func (f *File) Line(n ast.Node) int { return f.Fset.Position(n.Pos()).Line }

// Imports maps the name by which the file knows each import to its path.
func (f *File) Imports() map[string]string {
	m := make(map[string]string, len(f.AST.Imports))
	for _, im := range f.AST.Imports {
		p, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			continue // the parser let it pass, so it never happens
		}
		name := path.Base(p)
		if im.Name != nil {
			name = im.Name.Name
		}
		m[name] = p
	}
	return m
}

// Parse makes a File of source text.
func Parse(name string, src []byte) (*File, error) {
	fset := token.NewFileSet()
	a, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	f := &File{Path: name, Dir: path.Dir(name), Lines: bytes.Count(src, []byte("\n")), AST: a, Fset: fset}
	n := 0
	for line := range bytes.Lines(src) {
		code, _, _ := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(" //nolint")) // which must stand in the line that it is of
		if n++; utf8.RuneCount(code) > MaxColumns {
			f.Wide = append(f.Wide, n)
		}
	}
	return f, nil
}

// Root finds the folder of go.mod, from the working directory up.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above %s: run it inside the module", dir)
		}
		dir = up
	}
}

// Walk calls see with each file of the module that belongs to it: no hidden folders, no folders of built or working
// files, no other modules.
func Walk(root string, see func(rel string, read func() ([]byte, error)) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "." || rel == ".ci" {
				return nil
			}
			_, other := os.Stat(filepath.Join(p, "go.mod"))
			if strings.HasPrefix(d.Name(), ".") || rel == "bin" || rel == "workspace" || d.Name() == "node_modules" || other == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || rel == ".git" { // a file in a tree beside the first one
			return nil
		}
		return see(rel, func() ([]byte, error) { return os.ReadFile(p) })
	})
}

// Load parses all Go files of the module except those below testdata.
func Load(root string) ([]*File, error) {
	var files []*File
	err := Walk(root, func(rel string, read func() ([]byte, error)) error {
		if path.Ext(rel) != ".go" || strings.Contains("/"+rel, "/testdata/") {
			return nil
		}
		src, err := read()
		if err != nil {
			return err
		}
		f, err := Parse(rel, src)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load the module: %w", err)
	}
	return files, nil
}

// in reports whether a folder is the one that a pattern names, or below it where the pattern ends in "/...".
func in(dir, pattern string) bool {
	if base, tree := strings.CutSuffix(pattern, "/..."); tree {
		return dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == pattern
}

func inAny(dir string, patterns []string) bool {
	for _, p := range patterns {
		if in(dir, p) {
			return true
		}
	}
	return false
}
