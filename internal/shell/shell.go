// Package shell finds the simple commands in a shell text, so that rules can judge each of them.
//
// Promises: every command that a text would run is found, or the text is called unclear with the reason; nothing is
// run and nothing is expanded. Quoting, chains, pipes, subshells, substitutions and the usual wrappers (sh -c, env,
// xargs, find -exec, sudo, timeout ...) are taken apart to a bounded depth.
package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Result of a text.
type Result struct {
	// Commands are the simple commands, each as its words with quotes removed, in the order found.
	Commands [][]string
	// Unclear says why the text can not be judged in full; empty where it can.
	Unclear string
}

// Limits of a text.
const (
	MaxText     = 64 << 10
	maxCommands = 1000
	maxDepth    = 8
)

// Parse takes a shell text apart.
func Parse(text string) Result {
	r := reader{}
	r.text(text, 0)
	return Result{Commands: r.commands, Unclear: r.unclear}
}

// reader gathers what is found.
type reader struct {
	commands [][]string
	unclear  string
}

func (r *reader) doubt(format string, args ...any) {
	if r.unclear == "" {
		r.unclear = fmt.Sprintf(format, args...)
	}
}

func (r *reader) text(text string, depth int) {
	if len(text) > MaxText {
		r.doubt("it is longer than %d bytes", MaxText)
		return
	}
	if depth > maxDepth {
		r.doubt("commands within commands, more than %d deep", maxDepth)
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		r.doubt("it is not a shell text: %v", err)
		return
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			r.call(n, depth)
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				r.pipeInto(n.Y)
			}
		case *syntax.FuncDecl:
			r.shadow(n.Name.Value)
		}
		return len(r.commands) < maxCommands
	})
	if len(r.commands) >= maxCommands {
		r.doubt("more than %d commands", maxCommands)
	}
}

// shadow notes a function that takes the place of a command with rules of its own.
func (r *reader) shadow(name string) {
	if name == "git" || name == "rm" {
		r.doubt("it defines a function %q", name)
	}
}

// pipeInto notes an interpreter that reads its program from a pipe.
func (r *reader) pipeInto(s *syntax.Stmt) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	if name, ok := literal(call.Args[0]); ok && interpreter(path.Base(name)) && len(call.Args) == 1 {
		r.doubt("%s runs what a pipe gives it", name)
	}
}

func interpreter(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash", "python", "python3", "perl", "ruby", "node"}, name)
}

func shellName(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash"}, name)
}

// call reads one simple command of the text.
func (r *reader) call(c *syntax.CallExpr, depth int) {
	if len(c.Args) == 0 {
		return
	}
	argv := make([]string, len(c.Args))
	dynamic := make([]bool, len(c.Args))
	for i, w := range c.Args {
		text, ok := literal(w)
		argv[i], dynamic[i] = text, !ok
	}
	if dynamic[0] {
		r.doubt("the name of a command is only known when it runs")
		return
	}
	r.command(argv, dynamic, depth)
}

// command records a command and looks inside if it runs another.
func (r *reader) command(argv []string, dynamic []bool, depth int) {
	if len(argv) == 0 {
		return
	}
	if depth > maxDepth {
		r.doubt("commands within commands, more than %d deep", maxDepth)
		return
	}
	if dynamic[0] {
		r.doubt("the name of a command is only known when it runs")
		return
	}
	name := path.Base(argv[0])
	r.commands = append(r.commands, append([]string{name}, argv[1:]...))
	if judged(name) && slices.Contains(dynamic, true) {
		r.doubt("an argument of %s is only known when it runs", name)
	}
	switch {
	case shellName(name):
		r.inline(name, argv, dynamic, depth)
	case name == "eval":
		if slices.Contains(dynamic, true) {
			r.doubt("eval of a text that is only known when it runs")
			return
		}
		r.text(strings.Join(argv[1:], " "), depth+1)
	case name == "alias":
		for _, a := range argv[1:] {
			if _, body, ok := strings.Cut(a, "="); ok {
				r.text(body, depth+1)
			}
		}
	case name == "source" || name == ".":
		r.doubt("%s runs a file", name)
	case name == "find":
		r.find(argv, dynamic, depth)
	default:
		if skip, ok := wrappers[name]; ok {
			rest := wrapped(argv, skip)
			r.command(argv[rest:], dynamic[rest:], depth+1)
		}
	}
}

// judged are commands whose arguments decide whether they destroy something.
func judged(name string) bool {
	return slices.Contains([]string{"git", "rm", "dd", "find", "mkfs"}, name)
}

// inline reads the text of sh -c.
func (r *reader) inline(name string, argv []string, dynamic []bool, depth int) {
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch {
		case dynamic[i]:
			r.doubt("%s is given words that are only known when it runs", name)
			return
		case strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(w, "c"):
			if i+1 >= len(argv) {
				return
			}
			if dynamic[i+1] {
				r.doubt("%s -c runs a text that is only known when it runs", name)
				return
			}
			r.text(argv[i+1], depth+1)
			return
		case w == "-s":
			r.doubt("%s reads its commands from its input", name)
		}
	}
}

// find reads -exec and its kin.
func (r *reader) find(argv []string, dynamic []bool, depth int) {
	for i, w := range argv {
		if w != "-exec" && w != "-execdir" && w != "-ok" && w != "-okdir" {
			continue
		}
		end := i + 1
		for end < len(argv) && argv[end] != ";" && argv[end] != "+" {
			end++
		}
		r.command(argv[i+1:end], dynamic[i+1:end], depth+1)
	}
}

// wrappers run the command that follows their own options; the value lists the options that take a word of their own.
var wrappers = map[string]string{
	"sudo": "-u -g -h -p -C -r -t -U", "doas": "-u -C", "env": "-u -C -S", "xargs": "-I -n -P -L -d -s -a -E", "nohup": "", "nice": "-n", "ionice": "-c -n -p",
	"time": "-f -o", "timeout": "-k -s", "command": "", "builtin": "", "exec": "-a", "stdbuf": "-i -o -e", "setsid": "", "busybox": "", "chroot": "", "watch": "-n -d",
	"unbuffer": "", "strace": "-o -e -p", "parallel": "-j",
}

// wrapped returns where the command begins that a wrapper runs.
func wrapped(argv []string, valued string) int {
	takes := strings.Fields(valued)
	i := 1
	for i < len(argv) {
		w := argv[i]
		switch {
		case w == "--":
			return i + 1
		case slices.Contains(takes, w):
			i += 2
		case strings.HasPrefix(w, "-") && len(w) > 1, strings.Contains(w, "=") && path.Base(argv[0]) == "env":
			i++
		case path.Base(argv[0]) == "timeout" && i == firstPlain(argv, takes):
			i++ // the duration
		default:
			return min(i, len(argv))
		}
	}
	return len(argv)
}

// firstPlain is the first word after the name that is no option.
func firstPlain(argv, takes []string) int {
	for i := 1; i < len(argv); i++ {
		switch {
		case slices.Contains(takes, argv[i]):
			i++
		case !strings.HasPrefix(argv[i], "-"):
			return i
		}
	}
	return -1
}

// literal returns a word with its quotes removed; ok is false where a part of it is only known when it runs.
func literal(w *syntax.Word) (text string, ok bool) {
	var b strings.Builder
	ok = true
	for _, p := range w.Parts {
		ok = part(&b, p, false) && ok
	}
	return b.String(), ok
}

func part(b *strings.Builder, p syntax.WordPart, quoted bool) bool {
	switch p := p.(type) {
	case *syntax.Lit:
		b.WriteString(unescape(p.Value, quoted))
		return quoted || !strings.Contains(p.Value, "{")
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
		return !p.Dollar || !strings.Contains(p.Value, `\`)
	case *syntax.DblQuoted:
		ok := true
		for _, inner := range p.Parts {
			ok = part(b, inner, true) && ok
		}
		return ok
	}
	b.WriteString("$?")
	return false
}

// unescape removes backslashes as the shell does: all of them outside of quotes, inside only before " \ $ and `.
func unescape(s string, quoted bool) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.ContainsRune("\"\\$`\n", rune(s[i+1]))) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
