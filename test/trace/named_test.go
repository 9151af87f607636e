package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// begins matches the name of a test that names a requirement first.
var begins = regexp.MustCompile(`^[A-Z]+-[0-9]+[a-z]* `)

// TestListed holds what a whole run of the tests would show as UNKNOWN, without running them.
func TestListed(t *testing.T) {
	t.Parallel()
	wanted, err := Parse(ids)
	if err != nil {
		t.Fatal(err)
	}
	r := &Results{Passed: map[string][]string{}}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join("../..", "test/trace"):
			return nil // what this package names is made up
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if name, err := strconv.Unquote(lit.Value); err == nil && begins.MatchString(name) {
				for _, id := range Named(strings.ReplaceAll(name, " ", "_")) {
					r.Passed[id] = append(r.Passed[id], path+": "+name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Passed) < 200 {
		t.Fatalf("only %d requirements are named anywhere", len(r.Passed))
	}
	for _, s := range strays(wanted, r) {
		t.Errorf("%s is not in ids.txt: %s", s[0], s[1])
	}
}
