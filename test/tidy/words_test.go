package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foreign are words that tell about the machine or the tools of whoever wrote a file. They are put together here, so
// that this file does not hold them.
var foreign = regexp.MustCompile(`(?i)(^|[\s"'=(:])/(wo` + `rk|ro` + `ot)/|/tmp/(bri` + `ef|bash_jo` + `bs)|claude code ses` + `sion|` +
	`generated with \[?clau` + `de|co-authored-by: clau` + `de|registry\.npm` + `js\.org|registry\.yarn` + `pkg\.com|proxy\.gol` + `ang\.org|` +
	`sum\.gol` + `ang\.org|files\.pythonho` + `sted\.org|pypi\.o` + `rg/simple`)

// signs are what each of them holds, in lower case: a text without one is not read line by line.
var signs = [][]byte{[]byte("/wo" + "rk/"), []byte("/ro" + "ot/"), []byte("/tmp/b"), []byte("clau" + "de"), []byte("registry."),
	[]byte("proxy.gol"), []byte("sum.gol"), []byte("files.py"), []byte("pypi.")}

// locks are written by package managers, with the addresses where they found things.
var locks = []string{"go.sum", "package-lock.json"}

// foreigners lists the lines of a text that hold such a word.
func foreigners(name string, text []byte) []Fault {
	if slices.Contains(locks, path.Base(name)) || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	lower := bytes.ToLower(text)
	if !slices.ContainsFunc(signs, func(s []byte) bool { return bytes.Contains(lower, s) }) {
		return nil
	}
	var faults []Fault
	for i, line := range strings.Split(string(text), "\n") {
		if m := foreign.FindString(line); m != "" {
			faults = append(faults, Fault{"word", name, fmt.Sprintf("%q: no file knows the machine or the tools of whoever wrote it", strings.TrimSpace(m)), i + 1})
		}
	}
	return faults
}

// TestWords looks at every text file of the repository, whatever its name.
func TestWords(t *testing.T) {
	t.Parallel()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = Walk(root, func(rel string, read func() ([]byte, error)) error {
		b, err := read()
		if err != nil {
			return err
		}
		seen++
		for _, f := range foreigners(rel, b) {
			t.Error(f)
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Fatalf("saw %d files, %v: the walk misses the repository", seen, err)
	}
}

func TestForeigners(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"see /wo" + "rk/main":               1,
		"a\nb (/ro" + "ot/x)\n":             1,
		"homework/work" + "/x, {d}/work/":   0,
		"Claude Code ses" + "sion":          1,
		"https://registry.npm" + "js.org/x": 1,
		"session_id of the run":             0,
	} {
		if got := foreigners("README.md", []byte(text)); len(got) != want {
			t.Errorf("%q: got %v, want %d faults", text, got, want)
		}
	}
	if got := foreigners("web/package-lock.json", []byte("registry.npm"+"js.org")); len(got) != 0 {
		t.Errorf("a lock file: got %v", got)
	}
}

// exits are the folders whose programs may end the process.
var exits = []string{"cmd/...", "examples/...", "test/bench", "test/sandboxbench", "test/faults/guest", "test/faults/hand", "test/previous", "test/robust", "test/scale", "test/trace", "test/tutorials/nats", "test/weight"}

// notable is where a function is allowed but worth a look, in lines.
const notable = 70

// TestDetails holds product files to what needs the place as well as the call, and names the functions near the limit.
func TestDetails(t *testing.T) {
	t.Parallel()
	for _, f := range load(t) {
		imported := f.Imports()
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && selected(sel, imported, "os") == "Exit" && (f.Test() || !inAny(f.Dir, exits)) {
				t.Errorf("%s:%d: os.Exit: only a program in %s ends its process", f.Path, f.Line(n), strings.Join(exits, ", "))
			}
			return true
		})
		for _, d := range f.AST.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.Test() {
				continue
			}
			if n := f.Fset.Position(fn.End()).Line - f.Line(fn) + 1; n > notable {
				t.Logf("%s:%d: %s has %d lines, at most %d", f.Path, f.Line(fn), fn.Name.Name, n, MaxFunction)
			}
		}
	}
}
