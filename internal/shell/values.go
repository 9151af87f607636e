package shell

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// The shell evaluates more than it is seen to: arithmetic, the names that test -v, unset, read and printf -v are given,
// ${!x} and ${x@P} take the value of a variable for an expression, and an index in it may hold a command. So what a
// text assigns is followed to where it is evaluated. A value that is a number, or text without $ and `, is harmless
// there.

// value is what is known of a word before it is expanded.
type value struct {
	// texts it may hold, names of the variables it holds, positional for all parameters.
	texts, names []string
	// hidden is set where it may hold what only exists when it runs, and is no number.
	hidden bool
}

const positional = "@"

// madeByShell are variables that the shell fills with what only exists when it runs.
var madeByShell = []string{"_", "PWD", "OLDPWD", "DIRSTACK", "BASH_REMATCH", "BASH_COMMAND", "BASH_ARGV", "BASH_SOURCE",
	"BASH_EXECUTION_STRING", "FUNCNAME"}

// assignments are what the text assigns, to every name in whatever order.
type assignments struct {
	of map[string]value
	// mapped names are associative arrays, whose index is no expression.
	mapped map[string]bool
	// functions that the text defines; their arguments become positional parameters.
	functions map[string]bool
	// evaluated names, and those among them that were looked at.
	evaluated []string
	seen      map[string]bool
}

func newAssignments() assignments {
	of := map[string]value{}
	for _, name := range madeByShell {
		of[name] = value{hidden: true}
	}
	return assignments{of: of, mapped: map[string]bool{}, functions: map[string]bool{}, seen: map[string]bool{},
		evaluated: []string{"OPTIND", "RANDOM", "HISTCMD", "SECONDS"}} // integers of the shell's own
}

// assigned adds to what a name may hold.
func (v *assignments) assigned(name string, more value) {
	old := v.of[name]
	v.of[name] = value{append(old.texts, more.texts...), append(old.names, more.names...), old.hidden || more.hidden}
}

// assignedText adds a word of which only the text is known.
func (v *assignments) assignedText(name, text string) {
	if known(text) {
		v.assigned(name, value{texts: []string{text}})
		return
	}
	v.assigned(name, value{hidden: true})
}

// valueOf reads a word.
func valueOf(w *syntax.Word) (v value) {
	if w == nil {
		return v
	}
	for _, p := range w.Parts {
		v.part(p, false)
	}
	if text := literal(w); known(text) {
		v.texts = []string{text} // whole instead of in pieces
	}
	return v
}

func (v *value) part(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		v.texts = append(v.texts, unescape(p.Value, quoted))
	case *syntax.SglQuoted:
		text := p.Value
		if p.Dollar {
			text = ansi(text)
		}
		v.texts = append(v.texts, text)
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			v.part(inner, true)
		}
	case *syntax.ParamExp:
		v.expansion(p)
	case *syntax.CmdSubst:
		v.output(p)
	case *syntax.ArithmExp: // a number, whatever it was made of
	default:
		v.hidden = true
	}
}

func (v *value) merge(w *syntax.Word) {
	more := valueOf(w)
	v.texts, v.names, v.hidden = append(v.texts, more.texts...), append(v.names, more.names...), v.hidden || more.hidden
}

// expansion reads ${...}. What changes a value can bring in no $ that is not in one of its words.
func (v *value) expansion(p *syntax.ParamExp) {
	if p.Param == nil || p.Length || strings.Contains("#?$!-", p.Param.Value) {
		return
	}
	v.names = append(v.names, variableName(p.Param.Value))
	if p.Exp != nil {
		v.merge(p.Exp.Word)
		if p.Exp.Op == syntax.OtherParamOps && literal(p.Exp.Word) == "E" {
			v.hidden = true
		}
	}
	if p.Repl != nil {
		v.merge(p.Repl.Orig)
		v.merge(p.Repl.With)
	}
}

// listed is valueOf where names of files take the place of a wildcard.
func listed(w *syntax.Word) value {
	v := valueOf(w)
	if w != nil {
		v.hidden = v.hidden || slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
			lit, ok := p.(*syntax.Lit)
			return ok && wild(lit.Value)
		})
	}
	return v
}

func variableName(name string) string {
	if name == "*" || strings.Trim(name, "0123456789") == "" {
		return positional
	}
	return name
}

// output reads $(...): that of some commands is a number, that of echo is its words.
func (v *value) output(c *syntax.CmdSubst) {
	if len(c.Stmts) != 1 {
		v.hidden = v.hidden || len(c.Stmts) > 1
		return
	}
	st := c.Stmts[0]
	if call, ok := st.Cmd.(*syntax.CallExpr); ok && len(st.Redirs) == 0 && len(call.Args) > 0 &&
		literal(call.Args[0]) == "echo" {
		for _, w := range call.Args[1:] {
			v.merge(w)
			v.hidden = v.hidden || strings.Contains(literal(w), `\`)
		}
		return
	}
	if !counts(st) {
		v.hidden = true
	}
}

// cutters only take parts of what they read.
var cutters = []string{"head", "tail", "cut", "xargs", "tr -d ' '", "tr -d [:space:]", `tr -d \n`, "awk {print $1}",
	"sort -n", "sort -rn", "uniq"}

// counts reports whether a statement prints numbers, and file names that the text has without $ and `.
func counts(st *syntax.Stmt) bool {
	if pipe, ok := st.Cmd.(*syntax.BinaryCmd); ok && pipe.Op == syntax.Pipe {
		if counts(pipe.Y) {
			return true
		}
		argv, ok := plainCall(pipe.Y)
		text := strings.Join(argv, " ")
		return ok && counts(pipe.X) && slices.ContainsFunc(cutters,
			func(c string) bool { return text == c || strings.HasPrefix(text, c+" ") })
	}
	argv, ok := plainCall(st)
	if !ok {
		return false
	}
	has := func(flags ...string) bool {
		return slices.ContainsFunc(argv[1:], func(w string) bool { return slices.Contains(flags, w) })
	}
	switch argv[0] {
	case "wc", "nproc", "seq", "date", "id", "expr":
		return true
	case "grep", "rg", "pgrep":
		return has("-c", "-ci", "-ic", "-rc", "-cE", "-cv", "-vc", "--count")
	case "stat":
		return has("%s", "%Y", "%a", "-c%s", "-c%Y", "-c%a", "--format=%s")
	case "tput":
		return has("cols", "lines")
	case "git":
		return has("rev-list") && has("--count")
	case "curl":
		return has("%{http_code}") && has("/dev/null")
	}
	return false
}

// plainCall returns the words of a simple command that are all known and hold no $ and no `.
func plainCall(st *syntax.Stmt) (argv []string, ok bool) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, false
	}
	for i, w := range call.Args {
		text := literal(w)
		if i == 0 && !known(text) || strings.ContainsAny(strings.ReplaceAll(text, "$1", ""), "$`") {
			return nil, false
		}
		argv = append(argv, text)
	}
	return argv, true
}

var identifiers = pattern.New(`[A-Za-z_][A-Za-z0-9_]*`)

// evaluateWord notes that a word is evaluated: as an expression, or as a name of which only an index is one.
func (r *reader) evaluateWord(w *syntax.Word, expression bool) { r.evaluate(valueOf(w), expression) }

func (r *reader) evaluate(v value, expression bool) {
	if v.hidden {
		r.doubt("it evaluates an expression that is known only at run time")
	}
	r.values.evaluated = append(r.values.evaluated, v.names...)
	for _, text := range v.texts {
		r.evaluateText(text)
		if _, index, ok := strings.Cut(text, "["); expression || ok {
			if !expression {
				text = index
			}
			r.values.evaluated = append(r.values.evaluated, identifiers.FindAllString(text, -1)...)
		}
	}
}

// evaluateText reads the commands in a text that is evaluated.
func (r *reader) evaluateText(text string) {
	if !strings.ContainsAny(text, "$`") {
		return
	}
	r.doubt("it evaluates the text %q", brief(text))
	if r.parsed += len(text); r.parsed > maxParsed || nested(text) > MaxNesting {
		return
	}
	if word, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Document(strings.NewReader(text)); err == nil &&
		word != nil {
		r.walk(word, scope{depth: 1})
	}
}

// expression notes that an arithmetic expression is evaluated.
func (r *reader) expression(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		r.evaluateWord(x, true)
	case *syntax.BinaryArithm:
		r.expression(x.X)
		r.expression(x.Y)
	case *syntax.UnaryArithm:
		r.expression(x.X)
	case *syntax.ParenArithm:
		r.expression(x.X)
	case nil:
	default:
		r.doubt("it uses arithmetic of another shell")
	}
}

// index notes that the index of an array is evaluated; that of an associative array is not.
func (r *reader) index(name string, x syntax.ArithmExpr) {
	if x != nil && !r.values.mapped[name] {
		r.expression(x)
	}
}

// test notes what [[ ]] evaluates.
func (r *reader) test(x syntax.TestExpr) {
	evaluated := func(x syntax.TestExpr, expression bool) {
		if w, ok := x.(*syntax.Word); ok {
			r.evaluateWord(w, expression)
		}
	}
	switch x := x.(type) {
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			evaluated(x.X, true)
			evaluated(x.Y, true)
		default:
			r.test(x.X)
			r.test(x.Y)
		}
	case *syntax.UnaryTest:
		if x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			evaluated(x.X, false)
		}
		r.test(x.X)
	case *syntax.ParenTest:
		r.test(x.X)
	}
}

// evaluations notes what a node evaluates besides the commands in it.
func (r *reader) evaluations(n syntax.Node, s scope) {
	switch n := n.(type) {
	case *syntax.ArithmExp:
		r.expression(n.X)
	case *syntax.ArithmCmd:
		r.expression(n.X)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			r.expression(x)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{n.Init, n.Cond, n.Post} {
			if x != nil {
				r.expression(x)
			}
		}
	case *syntax.TestClause:
		r.test(n.X)
	case *syntax.WordIter:
		for _, w := range n.Items {
			r.values.assigned(n.Name.Value, listed(w))
		}
		if !n.InPos.IsValid() {
			r.values.assigned(n.Name.Value, value{names: []string{positional}})
		}
		r.variable(n.Name.Value, guard.Unknown, s)
	case *syntax.ForClause:
		if n.Select {
			r.values.assigned("REPLY", value{hidden: true})
		}
	case *syntax.ParamExp:
		r.parameter(n, s)
	}
}

// parameter notes what ${...} evaluates and assigns.
func (r *reader) parameter(p *syntax.ParamExp, s scope) {
	if p.Param == nil {
		return
	}
	name := variableName(p.Param.Value)
	if _, each := map[string]bool{"@": true, "*": true}[indexText(p.Index)]; !each {
		r.index(name, p.Index)
	}
	if p.Slice != nil {
		r.expression(p.Slice.Offset)
		r.expression(p.Slice.Length)
	}
	if p.Excl && p.Names == 0 && p.Index == nil {
		r.values.evaluated = append(r.values.evaluated, name)
	}
	if p.Exp == nil {
		return
	}
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		if literal(p.Exp.Word) == "P" {
			r.values.evaluated = append(r.values.evaluated, name)
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		r.values.assigned(name, valueOf(p.Exp.Word))
		r.variable(name, strings.ReplaceAll(literal(p.Exp.Word), guard.Many, guard.Unknown), s)
	}
}

func indexText(x syntax.ArithmExpr) string {
	if w, ok := x.(*syntax.Word); ok {
		return literal(w)
	}
	return ""
}

// settle follows what is evaluated back to what was assigned.
func (r *reader) settle() {
	v := &r.values
	for len(v.evaluated) > 0 {
		name := v.evaluated[0]
		v.evaluated = v.evaluated[1:]
		if v.seen[name] {
			continue
		}
		v.seen[name] = true
		if v.of[name].hidden {
			r.doubt("it evaluates %s, whose value is known only at run time", brief(name))
		}
		v.evaluated = append(v.evaluated, v.of[name].names...)
		for _, text := range v.of[name].texts {
			r.evaluateText(text)
			v.evaluated = append(v.evaluated, identifiers.FindAllString(text, -1)...)
		}
	}
}
