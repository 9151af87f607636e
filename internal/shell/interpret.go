package shell

import (
	"regexp"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
)

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"}, name)
}

// isStdin reports whether a file's name is another name of the standard input.
func isStdin(name string) bool {
	return name == "-" || name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")
}

// shell reads sh -c text, sh file, and sh that reads its commands.
func (r *reader) shell(name string, argv []string, in input, s scope) {
	inline, reads, i := false, false, 1
	for ; i < len(argv); i++ {
		w := argv[i]
		if !known(w) {
			break
		}
		if w == "--" || w == "-" {
			i++
			break
		}
		if len(w) < 2 || w[0] != '-' && w[0] != '+' {
			break
		}
		switch {
		case w == "--rcfile" || w == "--init-file":
			r.doubt("%s runs a start file", name)
			i++
		case strings.HasPrefix(w, "--"):
		default:
			inline = inline || w[0] == '-' && strings.Contains(w, "c")
			reads = reads || w[0] == '-' && strings.Contains(w, "s")
			i += strings.Count(w, "o") + strings.Count(w, "O") // each takes the name of a shell option
		}
	}
	switch {
	case i < len(argv) && !known(argv[i]):
		r.doubt("%s runs what is only known when it runs", name)
	case inline && i < len(argv):
		r.text(argv[i], s.deeper().fed(in.piped || in.given))
	case inline:
	case reads || i >= len(argv) || isStdin(argv[i]):
		r.stdin(name, in, s)
	default:
		r.ranFile(argv[i])
	}
}

// stdin reads the commands of a shell that takes them from its input.
func (r *reader) stdin(name string, in input, s scope) {
	switch {
	case in.given:
		r.text(in.text, s.deeper())
	case in.piped:
		r.doubt("%s runs what a pipe or a file gives it", name)
	}
}

// programs are interpreters of other languages, with the options that take a program's text.
var programs = map[string]string{
	"python": "c", "python2": "c", "python3": "c", "pypy": "c", "pypy3": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "deno": "", "bun": "e",
	"php": "rBRE", "lua": "e", "luajit": "e", "awk": "", "gawk": "e", "mawk": "", "nawk": "", "tclsh": "", "osascript": "e", "Rscript": "e", "pwsh": "cC",
	"sed": "e", "gsed": "e", "vim": "c", "vi": "c", "nvim": "c", "ex": "c", "ed": "", "emacs": "", "sqlite3": "",
}

func isProgram(name string) bool {
	_, ok := programs[language(name)]
	return ok
}

// language takes the version off a name: python3.12 is python3.
func language(name string) string {
	if _, ok := programs[name]; ok {
		return name
	}
	name, _, _ = strings.Cut(name, ".")
	return strings.TrimRight(name, "0123456789.")
}

// tells are words by which a program's text runs commands, deletes files or hides what it does. Their absence proves
// little; their presence is enough to ask.
var (
	tells = regexp.MustCompile("(?i)system|exec|popen|subprocess|spawn|child_process|rmtree|unlink|rmsync|rmdir|removedirs|os\\.remove|fs\\.rm|\\beval\\b|__import__|importlib|" +
		"getattr|base64|b64decode|fromcharcode|compile|\\bfork\\b|shutil|deno\\.command|\\bqx\\b|`|remove-item|file_delete|io\\.open3|shell-command|do shell script")
	awkTells  = regexp.MustCompile(`system\s*\(|\|\s*"|"\s*\||\|&|getline|@load`)
	sedTells  = regexp.MustCompile(`(^|[;{\n])\s*([0-9,$~+]+|/[^/\n]*/)?\s*!?\s*(e(\s|$)|s[/|,#@!].*[/|,#@!][gpiImM0-9]*e[gpiImM0-9]*\s*(;|$|\}))`)
	lispTells = regexp.MustCompile(`shell|process|delete`)
	edTells   = regexp.MustCompile(`!|system|\.shell|shell`)
)

// program reads the text of an interpreter that is no shell.
func (r *reader) program(name string, argv []string, in input) {
	lang := language(name)
	tell := tells
	switch lang {
	case "awk", "gawk", "mawk", "nawk":
		tell = awkTells
	case "sed", "gsed":
		tell = sedTells
	case "vim", "vi", "nvim", "ex", "ed", "sqlite3":
		tell = edTells
	case "emacs":
		tell = lispTells
	}
	inline, script := inlineText(argv, programs[lang])
	first := strings.HasSuffix(lang, "awk") || strings.HasSuffix(lang, "sed") || lang == "sqlite3" || lang == "emacs" || lang == "deno"
	switch {
	case inline || first:
		for _, w := range argv[1:] {
			if tell.MatchString(strings.ReplaceAll(w, guard.Unknown, "")) {
				r.doubt("the program's text that %s is given may run other commands", name)
			}
		}
		if inline && !known(strings.Join(argv[1:], " ")) && !first {
			r.doubt("%s is given a program's text that is only known when it runs", name)
		}
	case script != "" && !isStdin(script):
	case in.given && (!known(in.text) || tell.MatchString(in.text)):
		r.doubt("the program's text that %s reads may run other commands", name)
	case in.piped && !in.given:
		r.doubt("%s runs what a pipe or a file gives it", name)
	}
}

// inlineText reports whether an option gives the program's text, and the first word that is no option.
func inlineText(argv []string, letters string) (inline bool, script string) {
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch {
		case w == "--eval" || w == "--print" || strings.HasPrefix(w, "--eval=") || strings.HasPrefix(w, "--expression"):
			return true, ""
		case strings.HasPrefix(w, "--"):
		case w == "-m" && i+1 < len(argv), w == "-":
			return false, argv[i]
		case strings.HasPrefix(w, "-") && letters != "" && strings.ContainsAny(w, letters):
			return true, ""
		case strings.HasPrefix(w, "-") && len(w) > 1:
		default:
			return false, w
		}
	}
	return false, ""
}
