package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/pattern"
)

// makers write the files that are among their words.
var makers = strings.Fields("xxd openssl gpg csplit sponge ed ex uudecode")

// sedHides are the ways by which a script of sed brings signs that it does not show.
var sedHides = pattern.New(`\\[xodc]|(^|[;{\s])y[/|,#_]`)

// making notes what a command may write without a redirection.
func (r *reader) making(name string, argv []string, in input) {
	lang := language(name)
	switch {
	case name == "find":
		for i, w := range argv[:len(argv)-1] {
			if strings.HasPrefix(w, "-fprint") || w == "-fls" {
				r.wrote(argv[i+1], "", false)
				r.remade = true
			}
		}
	case name == "sort":
		for _, file := range values(argv, "-o", "--output") {
			r.wrote(file, "", false)
		}
	case slices.Contains(makers, name):
		r.remade = true
		for _, w := range argv[1:] {
			if !strings.HasPrefix(w, "-") {
				r.wrote(w, "", false)
			}
		}
	case name == "patch", name == "git" && len(argv) > 1 && (slices.Contains(argv, "apply") || slices.Contains(argv,
		"am")):
		r.remade = true
		r.given(in)
	case strings.HasSuffix(lang, "sed"):
		r.remade = true
		r.sedMakes(argv)
	case isProgram(name):
		r.programMakes(argv, in)
	}
}

// sedMakes notes the files that w writes, and whether -i makes a text that is not to be seen.
func (r *reader) sedMakes(argv []string) {
	inPlace := slices.ContainsFunc(argv[1:], func(w string) bool {
		return strings.HasPrefix(w, "--in-place") || len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.Contains(w, "i")
	})
	for _, script := range sedScripts(argv) {
		for _, file := range sedWrites(script) {
			r.wrote(file, "", false)
		}
		if inPlace && sedHides.MatchString(script) {
			r.hidden = true
		}
	}
}

// programMakes notes the names in a program's text: it may write a file of that name.
func (r *reader) programMakes(argv []string, in input) {
	texts := []string{in.text}
	for _, w := range argv[1:] {
		if strings.ContainsAny(w, " {(;") {
			texts = append(texts, w)
		}
	}
	for _, text := range texts {
		lists, _ := Words(text)
		for _, list := range lists {
			for _, w := range list {
				r.made[path.Base(w)] = true
			}
		}
	}
	r.remade = r.remade || len(texts) > 1 || in.given
}

// given notes the text that a command reads as loose.
func (r *reader) given(in input) {
	if in.given {
		r.loose(in.text)
	}
}

// settleMakers judges what the text runs by what it may have made of it.
func (r *reader) settleMakers() {
	for _, ran := range r.runs {
		if r.made[path.Base(ran.Path)] && !ran.Settings {
			r.doubt("it runs %q, which a program that it runs may have written", brief(ran.Path))
		}
		if ran.Shell && r.hidden {
			r.doubt("it runs %q, and sed generates a text that cannot be determined", brief(ran.Path))
		}
	}
	if r.remade && slices.ContainsFunc(r.runs, func(ran Run) bool { return ran.Shell }) {
		for _, argv := range r.commands {
			r.loose(strings.Join(argv[1:], " "))
		}
	}
	if r.passes { // what is passed on may be what a variable holds
		for _, v := range r.values.of {
			for _, text := range v.texts {
				r.loose(text)
			}
		}
	}
}

// onlyUnknown reports whether nothing of a word is known.
func onlyUnknown(w string) bool { return w != "" && strings.Trim(w, guard.Unknown) == "" }
