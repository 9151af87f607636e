package shell

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"mvdan.cc/sh/v3/syntax"
)

// builtin notes what a command of the shell's own evaluates and assigns.
func (r *reader) builtin(args []*syntax.Word, in input, s scope) {
	for len(args) > 1 && slices.Contains([]string{"builtin", "command"}, literal(args[0])) {
		for args = args[1:]; len(args) > 1 && strings.HasPrefix(literal(args[0]), "-"); {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return
	}
	name := literal(args[0])
	if r.values.functions[name] {
		for _, w := range args[1:] {
			r.values.assigned(positional, listed(w))
		}
	}
	switch name {
	case "test", "[":
		for i, w := range args[:len(args)-1] {
			if text := literal(w); text == "-v" || text == "-R" {
				r.evaluateWord(args[i+1], false)
			}
		}
	case "let":
		for _, w := range args[1:] {
			r.evaluateWord(w, true)
		}
	case "unset":
		for _, w := range args[1:] {
			r.evaluateWord(w, false)
		}
	case "set":
		for _, w := range args[1:] {
			r.values.assigned(positional, listed(w))
		}
	case "read":
		r.reads(name, plainWords(args, "adinNptu", ""), in, s)
	case "mapfile", "readarray":
		r.reads(name, plainWords(args, "dnOsuCc", ""), in, s)
	case "printf":
		r.printf(args, s)
	case "wait":
		_, valued := optionWords(args, "p")
		r.assignedName(name, valued["p"], s)
	case "getopts":
		r.values.assigned("OPTARG", value{hidden: true})
	case "declare", "typeset", "local", "export", "readonly":
		r.declared(name, args[1:], s)
	}
}

// optionWords takes the words of a command apart: those that are no options, and the values of those options that have
// one.
func optionWords(args []*syntax.Word, valued string) (plain []*syntax.Word, values map[string]*syntax.Word) {
	values = map[string]*syntax.Word{}
	for i := 1; i < len(args); i++ {
		text := literal(args[i])
		if text == "--" {
			return append(plain, args[i+1:]...), values
		}
		if len(text) < 2 || text[0] != '-' || !known(text) {
			plain = append(plain, args[i])
			continue
		}
		at := strings.IndexAny(text[1:], valued) + 1
		switch {
		case at == 0:
		case at+1 < len(text):
			values[text[at:at+1]] = &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: text[at+1:]}}}
		case i+1 < len(args):
			i++
			values[text[at:]] = args[i]
		}
	}
	return plain, values
}

// plainWords are the words of a command that are no options, and the value of one that is a name as well.
func plainWords(args []*syntax.Word, valued, name string) []*syntax.Word {
	plain, values := optionWords(args, valued)
	if w := values[name]; w != nil {
		plain = append(plain, w)
	}
	if w := values["a"]; w != nil {
		plain = append(plain, w)
	}
	return plain
}

// assignedName notes a word that a command takes for the name of what it assigns.
func (r *reader) assignedName(command string, w *syntax.Word, s scope) (name string) {
	if w == nil {
		return ""
	}
	name = literal(w)
	if !known(name) {
		r.doubt("%s assigns to a name that is known only at run time", command)
		return ""
	}
	r.evaluateWord(w, false)
	name, _, _ = strings.Cut(name, "[")
	r.variable(name, guard.Unknown, s)
	return name
}

// reads notes the names that are assigned what a command reads.
func (r *reader) reads(command string, names []*syntax.Word, in input, s scope) {
	v := value{hidden: true}
	if in.given && known(in.text) {
		v = value{texts: []string{in.text}}
	}
	for _, w := range names {
		if name := r.assignedName(command, w, s); name != "" {
			r.values.assigned(name, v)
		}
	}
	r.values.assigned("REPLY", v)
	r.values.assigned("MAPFILE", v)
}

// printf notes what printf -v assigns.
func (r *reader) printf(args []*syntax.Word, s scope) {
	plain, values := optionWords(args, "v")
	if values["v"] == nil {
		return
	}
	name := r.assignedName("printf", values["v"], s)
	for _, w := range plain {
		v := valueOf(w)
		v.hidden = v.hidden || strings.Contains(literal(w), `\`)
		r.values.assigned(name, v)
	}
}

// declared reads the words of declare where the parser took it for another command.
func (r *reader) declared(command string, args []*syntax.Word, s scope) {
	flags := ""
	for _, w := range args {
		text := literal(w)
		if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
			flags += text
			continue
		}
		name, assigned, ok := strings.Cut(text, "=")
		if !known(name) {
			r.unknownName(command)
			continue
		}
		r.evaluateWord(w, false)
		base, _, _ := strings.Cut(name, "[")
		if ok {
			r.values.assigned(base, valueOf(w))
			r.variable(base, strings.ReplaceAll(assigned, guard.Many, guard.Unknown), s)
		}
		r.attributes(flags, base)
	}
}

// unknownName doubts what is declared under a name that is not known; export takes no index.
func (r *reader) unknownName(command string) {
	if command != "export" && command != "readonly" {
		r.doubt("%s assigns to a name that is known only at run time", command)
	}
}

// attributes notes what the flags of declare make of a name: a number and a reference are evaluated whenever they are
// assigned.
func (r *reader) attributes(flags, name string) {
	if strings.ContainsAny(flags, "in") {
		r.values.evaluated = append(r.values.evaluated, name)
	}
	if strings.Contains(flags, "A") {
		r.values.mapped[name] = true
	}
}
