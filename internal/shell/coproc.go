package shell

import (
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// assignment is a word that the shell takes for one where it stands before a command.
var assignment = pattern.New(`^([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=`)

// coproc returns the statement of a coproc as the shell runs it. The parser takes the first word for a name at first
// and puts it in front of what it found behind: an assignment is then the name of the command, and words behind the
// name that look like assignments are assignments.
func (r *reader) coproc(n *syntax.CoprocClause, s scope) *syntax.Stmt {
	if n.Name != nil && n.Stmt.Cmd == nil { // only redirections are behind it, so it is the command
		own := *n.Stmt
		own.Cmd = &syntax.CallExpr{Args: []*syntax.Word{n.Name}}
		return &own
	}
	call, ok := n.Stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return n.Stmt
	}
	own, mended := *n.Stmt, *call
	own.Cmd = &mended
	first := literal(call.Args[0])
	if name := assignment.FindStringSubmatch(first); name != nil {
		r.variable(name[1], strings.ReplaceAll(first[len(name[0]):], guard.Many, guard.Unknown), s)
		r.walk(call.Args[0], s) // what it substitutes
		mended.Args = call.Args[1:]
		return &own
	}
	mended.Assigns, mended.Args = nil, call.Args[:1:1]
	for _, a := range call.Assigns {
		mended.Args = append(mended.Args, r.word(a))
	}
	mended.Args = append(mended.Args, call.Args[1:]...)
	return &own
}

// word turns an assignment back into the word that it is behind the name of a command.
func (r *reader) word(a *syntax.Assign) *syntax.Word {
	if a.Name == nil || a.Index != nil || a.Array != nil {
		r.doubt("the words of a coproc are ambiguous")
		return &syntax.Word{}
	}
	sign := "="
	if a.Append {
		sign = "+="
	}
	w := &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: a.Name.Value + sign}}}
	if a.Value != nil {
		w.Parts = append(w.Parts, a.Value.Parts...)
	}
	return w
}
