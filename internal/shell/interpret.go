package shell

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/pattern"
)

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish", "csh", "tcsh",
		"yash", "posh", "oksh", "nu", "xonsh",
		"elvish"}, name)
}

// bashLike are the shells whose texts are read as theirs; zshTells are ways of another one to run a command.
var (
	bashLike = []string{"sh", "bash", "dash", "ksh", "ash", "mksh", "rbash", "posh", "oksh"}
	zshMarks = pattern.New(`\((e|\+)|(^|\s)=\w`)
)

// isStdin reports whether a file's name is another name of the standard input.
func isStdin(name string) bool {
	return name == "-" || name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name,
		"/proc/self/fd/")
}

// isDescriptor reports whether a file's name is another name of an open file.
func isDescriptor(name string) bool {
	return strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/")
}

// shell reads sh -c text, sh file, and sh that reads its commands.
func (r *reader) shell(name string, argv []string, in input, s scope) {
	inline, reads, i := false, false, 1
	if slices.ContainsFunc(argv[1:], func(w string) bool {
		return w == "--login" || len(w) > 1 && w[0] == '-' && w[1] != '-' && strings.ContainsAny(w, "il")
	}) {
		for _, file := range startFiles {
			r.ranFile(file)
		}
	}
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
		r.doubt("%s runs what is known only at run time", name)
	case inline && i < len(argv):
		for _, w := range argv[i+1:] {
			r.values.assignedText(positional, w)
		}
		if !slices.Contains(bashLike, name) {
			r.loose(argv[i])
			if zshMarks.MatchString(argv[i]) {
				r.doubt("%s expands its arguments by its own rules", name)
			}
		}
		r.text(argv[i], s.deeper().fed(in.piped || in.given))
	case inline:
	case !in.given && i < len(argv) && isDescriptor(argv[i]):
		r.doubt("%s runs what it reads from a descriptor", name)
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
	case in.piped || r.replaced:
		r.doubt("%s runs what it reads from a pipe or a file", name)
	case in.file != "":
		r.loose(in.file)
		r.ranFile(in.file)
	}
}

// programs are interpreters of other languages, with the options that take a program's text.
var programs = map[string]string{
	"python": "c", "python2": "c", "python3": "c", "pypy": "c", "pypy3": "c", "perl": "eE", "ruby": "e", "node": "ep",
	"nodejs": "ep", "deno": "", "bun": "e",
	"php": "rBRE", "lua": "e", "luajit": "e", "awk": "", "gawk": "e", "mawk": "", "nawk": "", "tclsh": "",
	"osascript": "e", "Rscript": "e", "pwsh": "cC",
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

// scriptMarks are words by which a program's text runs commands, deletes files or hides what it does. Their absence
// proves little; their presence is enough to ask.
var (
	scriptMarks = pattern.New("(?i)system|exec|popen|subprocess|spawn|child_process|rmtree|unlink|rmsync|rmdir|removedirs|os\\.remove|fs\\.rm|\\beval\\b|__import__|importlib|" +
		"getattr|base64|b64decode|fromcharcode|compile|\\bfork\\b|shutil|deno\\.command|\\bqx\\b|`|remove-item|file_delete|io\\.open3|shell-command|do shell script|" +
		"__(dict|class|base|bases|mro|subclasses|builtins|getattribute|loader|spec|globals|code|reduce)|\\bvars\\(|\\bglobals\\(|\\\\x[0-9a-f]|\\bchr\\(|codecs|marshal|pickle|" +
		"ctypes|runpy|\\bpty\\b|\\bopen\\b[^;]*\\||core::|\\bkernel\\b|send\\(|instance_eval|passthru|proc_open|attrgetter|methodcaller|_load|constructor|createrequire|new function|" +
		"\\brequire\\([^)]*\\+|\\)\\s*\\(['\"]|\\$\\w+\\s*\\(['\"]|process\\.(binding|dlopen|mainmodule)|\\brequire\\(\\s*[^'\")]|%x")
	awkMarks  = pattern.New(`system\s*\(|\|&|getline|@\w|-i\s*inplace`)
	lispMarks = pattern.New(`shell|process|delete|exec|system|load|funcall|apply|intern|compile|^-(l|script|x)$|\.elc?$`)
	edMarks   = pattern.New(`!|system|\.shell|shell`)
	vimMarks  = pattern.New(`[!|]|call|system|job|term|python|\bpy|lua|ruby|perl|exe|source|\bso\b|norm|eval|mak|grep|silent|make|filter|argdo|bufdo`)
)

// textMarks reports whether the text of a program may run commands.
func textMarks(lang, text string) bool {
	switch lang {
	case "awk", "gawk", "mawk", "nawk":
		return awkMarks.MatchString(text) || awkPipes(text)
	case "sed", "gsed":
		return sedRuns(text)
	case "vim", "vi", "nvim", "ex":
		return vimMarks.MatchString(text)
	case "ed", "sqlite3":
		return edMarks.MatchString(text)
	case "emacs":
		return lispMarks.MatchString(text)
	}
	return scriptMarks.MatchString(text)
}

// texted are the languages whose text is a word without an option; it looks like the name of a file.
func texted(lang string) bool {
	return strings.HasSuffix(lang, "awk") || strings.HasSuffix(lang, "sed") || slices.Contains([]string{"sqlite3", "emacs",
		"deno", "vim", "vi", "nvim", "ex"}, lang)
}

// textWords are the words of an interpreter that may be a program's text.
func textWords(lang string, argv []string) []string {
	switch lang {
	case "sed", "gsed":
		return sedScripts(argv)
	case "vim", "vi", "nvim", "ex":
		texts := values(argv, "-c", "--cmd")
		for _, w := range argv[1:] {
			if strings.HasPrefix(w, "+") {
				texts = append(texts, w)
			}
		}
		return texts
	}
	return argv[1:]
}

// program reads the text of an interpreter that is no shell.
func (r *reader) program(name string, argv []string, in input) {
	lang := language(name)
	inline, script := inlineText(argv, programs[lang])
	first := texted(lang)
	switch {
	case inline || first:
		for _, w := range textWords(lang, argv) {
			if textMarks(lang, strings.ReplaceAll(w, guard.Unknown, "")) {
				r.doubt("the program text passed to %s may run other commands", name)
			}
			if lang == "perl" && strings.HasSuffix(strings.TrimSpace(w), "|") {
				r.doubt("perl runs %q where it opens it", brief(w))
			}
		}
		if first && script != "" && onlyUnknown(script) {
			r.doubt("%s gets a program text that is known only at run time", name)
		}
		if inline && !known(strings.Join(argv[1:], " ")) && !first {
			r.doubt("%s gets a program text that is known only at run time", name)
		}
	case script != "" && !isStdin(script):
		if isDescriptor(script) {
			r.doubt("%s runs what it reads from a descriptor", name)
		}
		if script != module {
			r.ranScript(script)
		}
	case in.given && (!known(in.text) || textMarks(lang, in.text)):
		r.doubt("the program text that %s reads may run other commands", name)
	case (in.piped || r.replaced) && !in.given:
		r.doubt("%s runs what it reads from a pipe or a file", name)
	case in.file != "":
		r.ranScript(in.file)
	}
	if first {
		for _, file := range values(argv, "-f", "--file", "-S", "-s", "-u") {
			r.scriptFile(name, lang, file)
		}
	}
}

// scriptFile is a file that an option names as a program's text.
func (r *reader) scriptFile(name, lang, file string) {
	switch {
	case strings.HasPrefix(lang, "vi") || lang == "nvim" || lang == "ex":
		r.doubt("%s runs the commands in %q", name, brief(file))
	case isStdin(file) || isDescriptor(file):
		r.doubt("%s runs what it reads from a pipe or a file", name)
	default:
		r.ranScript(file)
	}
}

// module stands for a program that an interpreter has itself, and which reads its input in a way of its own.
const module = "-m"

// inlineText reports whether an option gives the program's text, and the first word that is no option.
func inlineText(argv []string, letters string) (inline bool, script string) {
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch {
		case w == "--eval" || w == "--print" || strings.HasPrefix(w, "--eval=") || strings.HasPrefix(w, "--expression"):
			return true, ""
		case strings.HasPrefix(w, "--"):
		case w == "-m" && i+1 < len(argv) && slices.Contains([]string{"timeit", "pdb", "trace", "cProfile", "profile",
			"code"}, argv[i+1]):
			return true, ""
		case w == "-m" && i+1 < len(argv):
			return false, module
		case w == "-":
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
