package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Fault is one place where a rule is broken.
type Fault struct {
	Rule, At, Text string
	Line           int
}

func (f Fault) String() string {
	path, _, _ := strings.Cut(f.At, " ")
	return fmt.Sprintf("%s:%d: %s [%s]", path, f.Line, f.Text, f.Rule)
}

// Check applies all rules that look at one file.
func Check(f *File) []Fault {
	var all []Fault
	for _, rule := range []func(*File) []Fault{imports, doors, purity, lengths, widths, leftovers, calls, globals, skips, patterns} {
		all = append(all, rule(f)...)
	}
	return all
}

// RoomOf returns the row of a folder, or nil.
func RoomOf(dir string) *Room {
	for i := range Rooms {
		if inAny(dir, Rooms[i].Dirs) {
			return &Rooms[i]
		}
	}
	return nil
}

// imports holds the import table: only files that are not tests, which may use anything below cmd.
func imports(f *File) []Fault {
	if f.Test() {
		return nil
	}
	room := RoomOf(f.Dir)
	if room == nil {
		return []Fault{{Rule: "import", At: f.Path, Line: 1, Text: "no room of the import table has this folder: add a row to test/tidy/table_test.go"}}
	}
	var faults []Fault
	for _, im := range f.AST.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		wrong := ""
		if own, ok := strings.CutPrefix(p, Module+"/"); ok {
			if room.May != nil && !inAny(own, room.May) || inAny(own, room.Not) {
				wrong = own
			}
		} else if !strings.Contains(strings.Split(p, "/")[0], ".") && inAny(p, room.NoStd) {
			wrong = p
		}
		if wrong != "" {
			faults = append(faults, Fault{"import", f.Path, fmt.Sprintf("%s (%s) may not import %s: %s", f.Dir, room.Name, wrong, room.Why), f.Line(im)})
		}
	}
	return faults
}

// doors lets each dependency in through its own door only.
func doors(f *File) []Fault {
	var faults []Fault
	for _, im := range f.AST.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		if p == Module || strings.HasPrefix(p, Module+"/") || !strings.Contains(strings.Split(p, "/")[0], ".") {
			continue
		}
		i := slices.IndexFunc(Doors, func(d Egress) bool { return strings.HasPrefix(p, d.Module) })
		switch {
		case p == "github.com/rs/zerolog/log":
			faults = append(faults, Fault{"door", f.Path, "the global logger is not used: take a zerolog.Logger", f.Line(im)})
		case i < 0:
			faults = append(faults, Fault{"door", f.Path, fmt.Sprintf("%s has no door: name the one package that may import it in test/tidy/table_test.go", p), f.Line(im)})
		case inAny(f.Dir, Doors[i].Dirs), f.Test() && Doors[i].Tests:
		default:
			faults = append(faults, Fault{"door", f.Path, fmt.Sprintf("only %s may import %s", strings.Join(Doors[i].Dirs, ", "), p), f.Line(im)})
		}
	}
	return faults
}

var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker"}

// purity keeps clock and goroutines out of the mind, and bare goroutines out of the roles.
func purity(f *File) []Fault {
	room := RoomOf(f.Dir)
	role := in(f.Dir, "services/...")
	if f.Test() || room == nil || !room.Pure && !role {
		return nil
	}
	var faults []Fault
	say := func(n ast.Node, text string) { faults = append(faults, Fault{"pure", f.Path, text, f.Line(n)}) }
	imported := f.Imports()
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n, "a goroutine that no one waits for")
		case *ast.SelectStmt, *ast.ChanType:
			if !role {
				say(n, "a channel in the mind")
			}
		case *ast.SelectorExpr:
			if name := selected(n, imported, "time"); !role && slices.Contains(clock, name) {
				say(n, "time."+name+": the mind is given the time")
			}
		}
		return true
	})
	return faults
}

// selected returns the name that is taken from an imported package, or "".
func selected(n *ast.SelectorExpr, imported map[string]string, pkg string) string {
	if id, ok := n.X.(*ast.Ident); ok && imported[id.Name] == pkg {
		return n.Sel.Name
	}
	return ""
}

// lengths bounds files and functions; tests and generated files may be longer.
func lengths(f *File) []Fault {
	if f.Test() || ast.IsGenerated(f.AST) {
		return nil
	}
	var faults []Fault
	if f.Lines > MaxFile {
		faults = append(faults, Fault{"length", f.Path, fmt.Sprintf("%d lines, at most %d: it is two files", f.Lines, MaxFile), 1})
	}
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := f.Fset.Position(fn.End()).Line - f.Line(fn) + 1; n > MaxFunction {
			faults = append(faults, Fault{"length", f.Path + " " + fn.Name.Name, fmt.Sprintf("%s has %d lines, at most %d", fn.Name.Name, n, MaxFunction), f.Line(fn)})
		}
	}
	return faults
}

// widths bounds lines of code and comments, a tab counted as one column. A line with a part of a text may be wider: it is
// looked for as people see it. Tests may have wider ones, too.
func widths(f *File) []Fault {
	if f.Test() || len(f.Wide) == 0 || ast.IsGenerated(f.AST) {
		return nil
	}
	texts := map[int]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			for line := f.Line(l); line <= f.Fset.Position(l.End()).Line; line++ {
				texts[line] = true
			}
		}
		return true
	})
	var faults []Fault
	for _, line := range f.Wide {
		if !texts[line] {
			faults = append(faults, Fault{"width", f.Path, fmt.Sprintf("the line has more than %d columns", MaxColumns), line})
		}
	}
	return faults
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b|(?i:not (yet )?implemented|^// placeholder$)`)

// leftovers finds what says of itself that it is not finished.
func leftovers(f *File) []Fault {
	var faults []Fault
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			if m := unfinished.FindString(c.Text); m != "" {
				faults = append(faults, Fault{"leftover", f.Path, fmt.Sprintf("a comment says %q", m), f.Line(c)})
			}
		}
	}
	return faults
}

// calls finds calls that are made nowhere, or only in some places.
func calls(f *File) []Fault {
	var faults []Fault
	imported := f.Imports()
	say := func(n ast.Node, rule, text string) { faults = append(faults, Fault{rule, f.Path, text, f.Line(n)}) }
	for _, d := range f.AST.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			say(fn, "init", "init(): what must be made is made where it is passed on from")
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			switch {
			case selected(n, imported, "os") == "Exit" && f.AST.Name.Name != "main":
				say(n, "exit", "os.Exit outside of a program's main package")
			case strings.HasPrefix(selected(n, imported, "log"), "Fatal"), strings.HasPrefix(selected(n, imported, "log"), "Panic"):
				say(n, "exit", "log."+n.Sel.Name+": return the error")
			case selected(n, imported, "time") == "Sleep" && f.TestOnly():
				say(n, "sleep", "time.Sleep in a test: wait for what you wait for, or use synctest")
			case n.Sel.Name == "Msgf":
				say(n, "log", "Msgf: the message is a constant, the rest are keys")
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.Contains(strings.ToLower(n.Value), "failed to ") && !inAny(f.Dir, []string{"test/tidy"}) {
				say(n, "error", `"failed to": say what was being done`)
			}
		}
		return true
	})
	return faults
}

// globals finds package variables that are made to change.
func globals(f *File) []Fault {
	if f.Test() {
		return nil
	}
	var faults []Fault
	imported := f.Imports()
	for _, d := range f.AST.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec) // a var declaration holds nothing else
			t, ok := v.Type.(*ast.SelectorExpr)
			if ok && (selected(t, imported, "sync") != "" || selected(t, imported, "sync/atomic") != "") {
				faults = append(faults, Fault{"global", f.Path, fmt.Sprintf("%s changes: make it part of a value that is passed on", v.Names[0].Name), f.Line(v)})
			}
		}
	}
	return faults
}

// skips finds tests that may leave themselves out.
func skips(f *File) []Fault {
	if !f.TestOnly() {
		return nil
	}
	var faults []Fault
	ast.Inspect(f.AST, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if s, ok := c.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
			faults = append(faults, Fault{"skip", f.Path, "a test that may leave itself out: say why, loudly, and list it in test/tidy/table_test.go", f.Line(c)})
		}
		return true
	})
	return faults
}

// patterns compiles the expressions of lazily compiled patterns, which would otherwise fail only where they are used.
// An expression is a text in the code, also one of several parts.
func patterns(f *File) []Fault {
	imported := f.Imports()
	var faults []Fault
	ast.Inspect(f.AST, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || f.Test() {
			return true
		}
		if s, ok := c.Fun.(*ast.SelectorExpr); ok && selected(s, imported, Module+"/internal/pattern") == "New" {
			text, known := literal(c.Args[0])
			if _, err := regexp.Compile(text); err != nil || !known {
				faults = append(faults, Fault{"pattern", f.Path, fmt.Sprintf("want an expression in the text itself that compiles: %v", err), f.Line(c)})
			}
		}
		return true
	})
	return faults
}

// literal is the value of a text in the code, also of a constant of the same file.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		if e.Obj == nil || e.Obj.Kind != ast.Con {
			return "", false
		}
		spec, ok := e.Obj.Decl.(*ast.ValueSpec)
		for i := 0; ok && i < len(spec.Values); i++ {
			if spec.Names[i].Name == e.Name {
				return literal(spec.Values[i])
			}
		}
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, okX := literal(e.X)
		y, okY := literal(e.Y)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}

// Undocumented returns the folders whose package says nowhere what it promises. Packages of tests alone may say it in
// a test file.
func Undocumented(files []*File) []Fault {
	said, first := map[string]bool{}, map[string]*File{}
	onlyTests := map[string]bool{}
	for _, f := range files {
		if first[f.Dir] == nil {
			first[f.Dir], onlyTests[f.Dir] = f, true
		}
		onlyTests[f.Dir] = onlyTests[f.Dir] && f.Test()
	}
	for _, f := range files {
		if doc := f.AST.Doc; doc != nil && (!f.Test() || onlyTests[f.Dir]) {
			want := "Package " + strings.TrimSuffix(f.AST.Name.Name, "_test") + " "
			if f.AST.Name.Name == "main" {
				want = "Command "
			}
			said[f.Dir] = said[f.Dir] || strings.HasPrefix(doc.Text(), want) || strings.HasPrefix(doc.Text(), "Package "+f.AST.Name.Name+" ")
		}
	}
	var faults []Fault
	for dir, f := range first {
		if !said[dir] {
			faults = append(faults, Fault{"doc", f.Path, fmt.Sprintf("the package in %s has no comment that begins with \"Package %s\" (or \"Command\")", dir, strings.TrimSuffix(f.AST.Name.Name, "_test")), 1})
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.At, b.At) })
	return faults
}

// Except splits faults into those that stand and the exceptions that nothing needs.
func Except(faults []Fault, exceptions []Exception) (stand []Fault, idle []Exception) {
	used := make([]bool, len(exceptions))
	for _, f := range faults {
		i := slices.IndexFunc(exceptions, func(e Exception) bool { return e.Rule == f.Rule && e.At == f.At })
		if i < 0 {
			stand = append(stand, f)
			continue
		}
		used[i] = true
	}
	for i, e := range exceptions {
		if !used[i] {
			idle = append(idle, e)
		}
	}
	return stand, idle
}
