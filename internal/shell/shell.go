// Package shell finds the simple commands in a shell text, so that rules can judge each of them.
//
// Promises: every command that a text runs by itself is found, or the text is called unclear with the reason. Nothing
// is run and no file is read. Chains, pipes, subshells, substitutions, functions, quoting, braces, callbacks, what
// arithmetic and names with an index evaluate, and the usual wrappers (sh -c, env, xargs, find -exec, sudo, timeout
// ...) are taken apart to a bounded depth. A program that may run what it is given leaves its words in Result.Loose,
// where a name that a rule is about is enough to ask. What a program or a script of the workspace does that is only
// named is not read; that is for the sandbox.
//
// A word that is only known when it runs is not hidden: it holds guard.Unknown or guard.Many, and the rules decide
// whether it matters. A text is unclear where it cannot even be known which commands it runs.
package shell

import (
	"fmt"
	"path"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"mvdan.cc/sh/v3/syntax"
)

// Result of a text.
type Result struct {
	// Commands are the simple commands in the order found, each as its words with quotes removed and the folder taken
	// off its name. A wrapper and what it runs are both there. A redirection that writes is the command ">" with the
	// file's name as its word.
	Commands [][]string
	// Loose are words of which a program may make commands, see guard.Action.
	Loose [][]string
	// Writes are the files that the text is seen to write, Copies those that it gives another name, Runs those whose
	// text it runs.
	Writes []Write
	Copies []Copy
	Runs   []Run
	// Unclear says why the text cannot be judged in full; empty where it can.
	Unclear string
}

// Limits of a text.
const (
	// MaxText is the longest text, in bytes.
	MaxText = 64 << 10
	// MaxCommands is the most commands that are looked at.
	MaxCommands = 1000
	// MaxDepth is how deep commands within commands are followed.
	MaxDepth = 8
	// MaxNesting is how many round brackets may be open at once.
	MaxNesting = 1000
	// maxWords is the most words of all commands together, after braces are written out.
	maxWords = 1 << 16
	// maxParsed is the most bytes that are parsed for one text, the texts within it included.
	maxParsed = 4 * MaxText
	// maxFunctions is the most functions that a text may define.
	maxFunctions = 100
)

// Parse takes a shell text apart, read as bash reads it. The time it takes is bounded by the limits.
func Parse(text string) (res Result) {
	r := &reader{aliases: map[string]string{}, gitAliases: map[string]string{}, renamed: map[string]string{},
		named: map[string]bool{}, made: map[string]bool{}, values: newAssignments()}
	defer func() {
		if p := recover(); p != nil {
			res = Result{Commands: r.commands, Unclear: fmt.Sprintf("the parser failed on it: %v", p)}
		}
	}()
	r.text(text, scope{})
	r.settleFiles()
	r.settleMakers()
	r.settle()
	return Result{Commands: r.commands, Loose: r.looseWords, Writes: append(r.writes, r.foreign...), Copies: r.copies,
		Runs: r.runs, Unclear: r.unclear}
}

// reader gathers what is found.
type reader struct {
	commands [][]string
	unclear  string
	words    int
	parsed   int
	// functions that were met.
	functions int
	// aliases of the shell and of git that the text itself defines.
	aliases, gitAliases map[string]string
	values              assignments
	// looseWords are Result.Loose, looseCount how many words they are.
	looseWords [][]string
	looseCount int
	// writes and runs are those of Result; foreign are copies of programs from elsewhere, inputs the files that
	// commands read as their input.
	writes, foreign []Write
	copies          []Copy
	runs            []Run
	inputs          []string
	// renamed programs by their new names, and the names of commands that have no folder.
	renamed map[string]string
	named   map[string]bool
	// made are names in the texts of programs, which may write files of these names. remade is set where a file may
	// have got a text that stands among the words, hidden where it is not to be seen, passes where a program that may
	// run what it is given gets what is only known when it runs.
	made                   map[string]bool
	remade, hidden, passes bool
	// replaced is set once the input of the shell itself is another one.
	replaced bool
}

// scope is where a command stands.
type scope struct {
	depth int
	// piped is set where the standard input may be something that only exists when it runs.
	piped bool
}

func (s scope) deeper() scope        { s.depth++; return s }
func (s scope) fed(piped bool) scope { s.piped = s.piped || piped; return s }

// doubt keeps the first reason.
func (r *reader) doubt(format string, args ...any) {
	if r.unclear == "" {
		r.unclear = fmt.Sprintf(format, args...)
	}
}

// within reports whether one more command may be looked at.
func (r *reader) within(s scope) bool {
	switch {
	case s.depth > MaxDepth:
		r.doubt("it has commands within commands, more than %d deep", MaxDepth)
	case len(r.commands) >= MaxCommands:
		r.doubt("it has more than %d commands", MaxCommands)
	case r.words > maxWords:
		r.doubt("it has more than %d words", maxWords)
	default:
		return true
	}
	return false
}

// text reads a shell text, the whole or one within it.
func (r *reader) text(text string, s scope) {
	if !r.within(s) {
		return
	}
	r.parsed += len(text)
	switch {
	case len(text) > MaxText || r.parsed > maxParsed:
		r.doubt("it is longer than %d bytes", MaxText)
		return
	case strings.Contains(text, guard.Unknown):
		r.doubt("it runs a text that is known only at run time")
		return
	}
	if nested(text) > MaxNesting {
		r.doubt("it has more than %d brackets open at once", MaxNesting)
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		r.doubt("it is not valid shell syntax: %s", brief(err.Error()))
		return
	}
	r.findAliases(file)
	r.walk(file, s)
}

// nested counts the round brackets that are open at once, quoted or not; deep ones cost the parser dearly.
func nested(text string) (most int) {
	open := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			open++
			most = max(most, open)
		case ')':
			open = max(open-1, 0)
		}
	}
	return most
}

// walk reads every statement below a node.
func (r *reader) walk(node syntax.Node, s scope) {
	syntax.Walk(node, func(n syntax.Node) bool {
		r.evaluations(n, s)
		switch n := n.(type) {
		case *syntax.Stmt:
			return r.stmt(n, s)
		case *syntax.BinaryCmd:
			if n.Op != syntax.Pipe && n.Op != syntax.PipeAll {
				return true
			}
			r.walk(n.X, s)
			r.walk(n.Y, s.fed(true))
			return false
		case *syntax.FuncDecl:
			r.function(n)
			r.walk(n.Body, s.fed(true))
			return false
		case *syntax.ProcSubst:
			for _, st := range n.Stmts {
				r.walk(st, s.fed(n.Op == syntax.CmdOut))
			}
			return false
		case *syntax.CoprocClause:
			r.walk(r.coproc(n, s), s.fed(true))
			return false
		case *syntax.DeclClause:
			r.declare(n, s)
		}
		return true
	})
}

// stmt reads one statement; it reports whether what is inside is still to be walked.
func (r *reader) stmt(n *syntax.Stmt, s scope) bool {
	in, targets := r.redirects(n.Redirs, s)
	call, ok := n.Cmd.(*syntax.CallExpr)
	text, printed := "", false
	if ok {
		text, printed = output(call, in)
	}
	for _, target := range targets {
		r.wrote(target, text, printed)
	}
	if ok {
		r.replaced = r.replaced || len(n.Redirs) > 0 && len(call.Args) == 1 && literal(call.Args[0]) == "exec"
		r.call(call, in, s)
		return true // substitutions within its words
	}
	if in == (input{piped: s.piped}) || n.Cmd == nil {
		return true
	}
	for _, redirect := range n.Redirs {
		r.walk(redirect, s)
	}
	r.walk(n.Cmd, s.fed(true))
	return false
}

// input is what a command finds on its standard input.
type input struct {
	// piped: something that only exists when it runs.
	piped bool
	// given: text, as it stands in a here-document.
	given bool
	text  string
	// file that it is.
	file string
}

// redirects notes the files that are written and returns what is read, and the files.
func (r *reader) redirects(all []*syntax.Redirect, s scope) (in input, targets []string) {
	in = input{piped: s.piped}
	for _, d := range all {
		if d.N != nil && strings.ContainsAny(d.N.Value, "$`[") {
			r.evaluateText(d.N.Value)
		}
		switch d.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			in = input{given: true}
			if d.Hdoc != nil {
				in.text = heredoc(d)
			}
		case syntax.WordHdoc:
			in = input{given: true, text: literal(d.Word)}
		case syntax.RdrIn, syntax.DplIn:
			target := literal(d.Word)
			in = input{piped: !known(target) || d.Op == syntax.DplIn || isStdin(target)}
			if !in.piped && path.Clean(target) != "/dev/null" { // nothing is ever read from that, whatever was written
				in.file = path.Clean(target)
				r.inputs = append(r.inputs, in.file)
			}
		default:
			target := literal(d.Word)
			for _, name := range valueOf(d.Word).names { // what it may be
				targets = append(targets, r.values.of[name].texts...)
			}
			if d.Op == syntax.DplOut && (target == "-" || strings.Trim(target, "0123456789") == "") {
				continue
			}
			if target == "" || strings.HasPrefix(target, guard.Unknown) {
				continue // nothing is known of it that a rule could be about
			}
			target = strings.ReplaceAll(target, guard.Many, guard.Unknown) // a redirection has one word
			r.record([]string{">", target})
			targets = append(targets, target)
		}
	}
	return in, targets
}

// record notes a command; it reports whether there was room.
func (r *reader) record(argv []string) bool {
	if len(r.commands) >= MaxCommands {
		r.doubt("it has more than %d commands", MaxCommands)
		return false
	}
	r.words += len(argv)
	r.commands = append(r.commands, argv)
	return true
}

// function looks for the one thing about a function that its body does not tell by itself.
func (r *reader) function(f *syntax.FuncDecl) {
	if f.Name == nil {
		return
	}
	if r.functions++; r.functions > maxFunctions {
		r.doubt("it has more than %d functions", maxFunctions)
		return
	}
	syntax.Walk(f.Body, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 && literal(call.Args[0]) == f.Name.Value {
			r.doubt("the function %q calls itself", brief(f.Name.Value))
		}
		return true
	})
}

// findAliases notes the aliases and functions that a text defines, wherever it does.
func (r *reader) findAliases(file *syntax.File) {
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok && f.Name != nil {
			r.values.functions[f.Name.Value] = true
		}
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) < 2 || literal(call.Args[0]) != "alias" {
			return true
		}
		for _, w := range call.Args[1:] {
			if name, body, ok := strings.Cut(literal(w), "="); ok {
				r.aliases[name] = body
			}
		}
		return true
	})
}

// declare reads export, declare and their kin.
func (r *reader) declare(d *syntax.DeclClause, s scope) {
	argv, flags := []string{d.Variant.Value}, ""
	for _, a := range d.Args {
		if a.Name != nil || a.Value == nil {
			if a.Name != nil {
				r.attributes(flags, a.Name.Value)
			}
			argv = append(argv, r.assign(a, s))
			continue
		}
		text := literal(a.Value)
		argv = append(argv, text)
		if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
			flags += text
		} else {
			r.declared(d.Variant.Value, []*syntax.Word{a.Value}, s)
		}
	}
	r.record(argv)
}

// assign reads one assignment and returns it as a word.
func (r *reader) assign(a *syntax.Assign, s scope) string {
	if a.Name == nil {
		return guard.Many
	}
	value := ""
	r.index(a.Name.Value, a.Index)
	switch {
	case a.Naked:
		return a.Name.Value
	case a.Array != nil:
		value = guard.Unknown
		for _, e := range a.Array.Elems {
			r.index(a.Name.Value, e.Index)
			r.values.assigned(a.Name.Value, listed(e.Value))
		}
	case a.Value != nil:
		r.values.assigned(a.Name.Value, valueOf(a.Value))
		if a.Name.Value == "BASH_ARGV0" {
			r.values.assigned(positional, valueOf(a.Value))
		}
		value = strings.ReplaceAll(literal(a.Value), guard.Many, guard.Unknown)
	}
	r.variable(a.Name.Value, value, s)
	return a.Name.Value + "=" + value
}

// call reads one simple command of the text.
func (r *reader) call(c *syntax.CallExpr, in input, s scope) {
	for _, a := range c.Assigns {
		r.assign(a, s)
	}
	r.builtin(c.Args, in, s)
	argv, ok := words(c.Args, maxWords-r.words)
	if !ok {
		r.doubt("its braces expand to too many words")
		return
	}
	r.command(argv, in, s)
}

func known(w string) bool { return !strings.Contains(w, guard.Unknown) }

// brief cuts what is shown in a reason.
func brief(s string) string {
	const limit = 80
	s = strings.ReplaceAll(s, guard.Unknown, "?")
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
