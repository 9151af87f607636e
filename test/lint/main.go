// Command lint is the tool that go vet runs in make check (go vet -vettool): the analyzers of go vet, and four more
// that hold rules which the compiler does not know:
//
//   - errorlint: errors are compared with errors.Is and errors.As, so that one that is wrapped one day is still
//
// recognised.
//   - exhaustive: a switch over event types or phases without a default names them all, so that a new one does not slip
//
// through.
//   - forbidigo: functions that no product code calls, each with its reason (see forbidden).
//   - reach: no package leads to the types of the NATS server but the one that has it, for the build's sake.
//
// What test/tidy holds is not repeated here. A line ends with //nolint:NAME and the reason where a rule does not fit.
package main

import (
	"encoding/gob"
	"encoding/json"
	"os"
	"regexp"
	"strings"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/ashanbrown/forbidigo/v2/pkg/analyzer"
	"github.com/nishanths/exhaustive/passes/exhaustive"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
)

// forbidden are patterns of forbidigo: an identifier, the package that it belongs to, and what to do in its place.
var forbidden = []string{
	`{p: '^fmt\.Print(|f|ln)$', msg: 'output goes to a writer that is passed in, so that a test reads it'}`,
	`{p: '^(print|println)$', msg: 'left from debugging'}`,
	`{p: '^log\.(Print|Fatal|Panic)', pkg: '^log$', msg: 'the global logger has no fields and no level; take a zerolog.Logger'}`,
	`{p: '^http\.(Get|Post|PostForm|Head)$', pkg: '^net/http$', msg: 'no context and no time limit; make a request with a context'}`,
	`{p: '^context\.T[O]DO$', msg: 'pass the context of the caller'}`,
}

// others are types that libraries declare and that grow with their versions: a switch over them need not name all.
const others = `^(reflect|syscall|go/|github\.com/(nats-io|goccy|experimental-sys)|github\.com/tetratelabs|mvdan\.cc|regexp|google\.golang\.org|go\.starlark\.net)`

// printers are files that may use fmt.Print: programs, and test binaries that run as a program.
var printers = regexp.MustCompile(`(_test\.go|/cmd/[^/]+/[^/]+\.go|/test/[a-z]+/(main|report)\.go|/[a-z]+test/[^/]+\.go)$`)

func main() {
	all := append(vet.Suite, rules()...)
	if n := len(os.Args); n > 1 && ofOthers(os.Args[n-1]) {
		register(all)
		all = []*analysis.Analyzer{typesOnly}
	}
	unitchecker.Main(all...)
}

// typesOnly has go vet keep the types of a package, and no facts.
var typesOnly = &analysis.Analyzer{Name: "typesonly", Doc: "keeps the types of a package",
	FactTypes: []analysis.Fact{new(none)},
	Run:       func(*analysis.Pass) (any, error) { return nil, nil }}

type none struct{}

func (*none) AFact() {}

// register has the facts of analyzers read, those of the standard library that is.
func register(all []*analysis.Analyzer) {
	for _, a := range all {
		for _, f := range a.FactTypes {
			gob.Register(f)
		}
		register(a.Requires)
	}
}

// ofOthers reports whether a file of go vet names a package of a module of others, of which go vet wants facts for the
// packages that import it and no more. To work them out takes longer than to check what is ours (the server of
// NATS alone is a hundred thousand lines), and they would only say which of its functions format as printf does. Those of the standard library,
// which is no module, are kept: without them os.Exit would seem to return.
func ofOthers(file string) bool {
	var of unitchecker.Config
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &of) != nil {
		return false // unitchecker says so
	}
	return of.VetxOnly && of.ModulePath != "" && of.ModulePath != "github.com/inspan/inspan"
}

func rules() []*analysis.Analyzer {
	forbid := analyzer.NewAnalyzer()
	for _, p := range forbidden {
		set(forbid, "p", p)
	}
	set(forbid, "analyze_types", "true")
	set(exhaustive.Analyzer, "d", "true")
	set(exhaustive.Analyzer, "g", "true")
	set(exhaustive.Analyzer, "typeignore", others)
	return []*analysis.Analyzer{
		filter(errorlint.NewAnalyzer(), func(string, string) bool { return true }),
		filter(exhaustive.Analyzer, func(file, _ string) bool { return !strings.HasSuffix(file, "_test.go") }),
		filter(forbid, func(file, message string) bool {
			return !strings.Contains(message, "fmt.Print") || !printers.MatchString(file)
		}),
		reach,
	}
}

func set(a *analysis.Analyzer, flag, value string) {
	if err := a.Flags.Set(flag, value); err != nil {
		panic(a.Name + ": " + err.Error())
	}
}

// filter passes on what an analyzer reports where applies(file, message) is true and the line has no //nolint for it.
func filter(a *analysis.Analyzer, applies func(file, message string) bool) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		silent := nolint(pass, a.Name)
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if !silent[line{at.Filename, at.Line}] && applies(at.Filename, d.Message) {
				report(d)
			}
		}
		return run(pass)
	}
	return a
}

type line struct {
	file string
	at   int
}

// nolint are the lines of a package with a comment //nolint:NAME.
func nolint(pass *analysis.Pass, name string) map[line]bool {
	lines := map[line]bool{}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if list, ok := strings.CutPrefix(c.Text, "//nolint:"); ok && named(list, name) {
					at := pass.Fset.Position(c.Slash)
					lines[line{at.Filename, at.Line}] = true
				}
			}
		}
	}
	return lines
}

func named(list, name string) bool {
	list, _, _ = strings.Cut(list, " ")
	for _, n := range strings.Split(list, ",") {
		if n == name {
			return true
		}
	}
	return false
}
