package shell

import (
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"mvdan.cc/sh/v3/syntax"
)

// command records a command and looks inside if it runs another.
func (r *reader) command(argv []string, in input, s scope) {
	if len(argv) == 0 || !r.within(s) {
		return
	}
	if !known(argv[0]) {
		r.record(argv)
		r.doubt("the name of a command is known only at run time")
		return
	}
	if argv[0] == "--" { // bash takes it for an option of time, the parser for a command
		r.doubt("the words after time -- are not parsed as the shell parses them")
		r.command(argv[1:], in, s.deeper())
		return
	}
	name := argv[0]
	if name != "" {
		name = path.Base(name)
	}
	if strings.Contains(argv[0], "/") {
		r.ranFile(argv[0])
	} else {
		r.named[name] = true
	}
	if !r.record(append([]string{name}, argv[1:]...)) {
		return
	}
	if body, ok := r.aliases[argv[0]]; ok {
		r.alias(body, argv, in, s)
	}
	r.inside(name, argv, in, s)
	if real, ok := r.renamed[name]; ok && r.within(s) {
		r.command(append([]string{real}, argv[1:]...), in, s.deeper())
	}
}

// inside looks for the commands that a command runs.
func (r *reader) inside(name string, argv []string, in input, s scope) {
	wrapper, wraps := wrapperOf(name)
	switch {
	case isShell(name):
		r.shell(name, argv, in, s)
	case isProgram(name):
		r.program(name, argv, in)
	case name == "source" || name == ".":
		r.source(argv, in, s)
	case name == "find" || name == "fd" || name == "fdfind":
		r.find(argv, in, s)
	case name == "xargs":
		r.xargs(argv, s)
	case name == "git":
		r.git(argv, in, s)
	case wraps:
		r.wrapped(name, wrapper, argv, in, s)
	case slices.Contains(carriers, name):
		r.carried(argv, in, s)
	case slices.Contains([]string{"cp", "mv", "ln", "install", "rsync", "mount"}, name):
		r.copying(name, argv)
	case name == "dd" || name == "tee" || name == "curl" || name == "wget":
		r.saves(name, argv, in)
	}
	r.ranDefaults(name)
	r.making(name, argv, in)
	r.loosely(name, argv, in, s)
	r.meanings(name, argv, s)
	r.texts(name, argv, in, s)
}

// alias runs the body of an alias with the words that follow its name.
func (r *reader) alias(body string, argv []string, in input, s scope) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(body), "")
	r.parsed += len(body)
	if err != nil || !known(body) || r.parsed > maxParsed {
		r.doubt("the alias %q is known only at run time", brief(argv[0]))
		return
	}
	if len(file.Stmts) == 1 {
		if call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr); ok && len(file.Stmts[0].Redirs) == 0 {
			for _, a := range call.Assigns {
				r.assign(a, s.deeper())
				r.walk(a, s.deeper())
			}
			for _, w := range call.Args {
				r.walk(w, s.deeper()) // what they substitute
			}
			r.builtin(call.Args, in, s.deeper())
			own, ok := words(call.Args, maxWords-r.words)
			if ok && len(own) > 0 && own[0] != argv[0] {
				r.command(append(own, argv[1:]...), in, s.deeper())
			} else if ok && len(own) > 0 {
				r.record(append(own, argv[1:]...))
				r.inside(path.Base(own[0]), append(own, argv[1:]...), in, s.deeper())
			}
			return
		}
	}
	r.text(body, s.deeper())
	if len(argv) > 1 {
		r.doubt("the alias %q is more than one command", brief(argv[0]))
	}
}

// source runs a file in the shell itself.
func (r *reader) source(argv []string, in input, s scope) {
	if len(argv) < 2 {
		return
	}
	if isDescriptor(argv[1]) && !in.given {
		r.doubt("%s runs what it reads from a descriptor", argv[0])
		return
	}
	if isStdin(argv[1]) {
		r.stdin(argv[0], in, s)
		return
	}
	if !known(argv[1]) {
		r.doubt("%s runs a file that is known only at run time", argv[0])
		return
	}
	r.ranFile(argv[1])
}

// find reads -exec and its kin; fd has its own.
func (r *reader) find(argv []string, in input, s scope) {
	starts := []string{"-exec", "-execdir", "-ok", "-okdir"}
	if path.Base(argv[0]) != "find" {
		starts = []string{"-x", "-X", "--exec", "--exec-batch"}
	}
	for i := 1; i < len(argv); i++ {
		if text, ok := fdGlued(argv, i); ok {
			r.text(text, s.deeper())
		}
		if !slices.Contains(starts, argv[i]) {
			continue
		}
		end := i + 1
		for end < len(argv) && argv[end] != ";" && argv[end] != "+" {
			end++
		}
		inner := replace(argv[i+1:end], "{}", guard.Unknown)
		if end < len(argv) && argv[end] == "+" {
			inner = replace(argv[i+1:end], "{}", guard.Many)
		}
		if path.Base(argv[0]) != "find" {
			inner = append(inner, guard.Many)
		}
		r.command(inner, in, s.deeper())
		i = end
	}
}

// fdGlued returns the command of fd that is glued to its option.
func fdGlued(argv []string, i int) (text string, ok bool) {
	if path.Base(argv[0]) == "find" {
		return "", false
	}
	for _, option := range []string{"--exec=", "--exec-batch=", "-x", "-X"} {
		if rest, glued := strings.CutPrefix(argv[i], option); glued && rest != "" {
			return strings.Join(append([]string{rest}, argv[i+1:]...), " "), true
		}
	}
	return "", false
}

// replace puts what is only known later in the place of a mark.
func replace(argv []string, mark, by string) []string {
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = strings.ReplaceAll(w, mark, by)
	}
	return out
}

// xargs runs a command with words that it reads.
func (r *reader) xargs(argv []string, s scope) {
	o := options{valued: "-I -n -P -L -d -s -a -E --max-args --max-procs --delimiter --arg-file --max-chars --process-slot-var"}
	at := o.end(argv)
	inner, mark := argv[at:], ""
	for i, w := range argv[1:at] {
		switch {
		case w == "-I" && i+2 < len(argv):
			mark = argv[i+2]
		case strings.HasPrefix(w, "-I"):
			mark = w[2:]
		case w == "-i" || w == "--replace":
			mark = "{}"
		case strings.HasPrefix(w, "-i"):
			mark = w[2:]
		case strings.HasPrefix(w, "--replace="):
			mark = strings.TrimPrefix(w, "--replace=")
		}
	}
	if len(inner) == 0 {
		return
	}
	if mark != "" {
		inner = replace(inner, mark, guard.Unknown)
	} else {
		inner = append(slices.Clone(inner), guard.Many)
	}
	r.command(inner, input{}, s.deeper())
}

// saves notes the files that a command writes by itself.
func (r *reader) saves(name string, argv []string, in input) {
	for i, w := range argv[1:] {
		switch {
		case name == "tee":
			r.wrote(w, in.text, in.given && known(in.text))
		case name == "dd":
			if of, ok := strings.CutPrefix(w, "of="); ok {
				r.wrote(of, "", false)
			}
		case (w == "-o" || w == "-O" || w == "--output" || w == "--output-document") && i+2 < len(argv):
			r.wrote(argv[i+2], "", false)
		case strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "o") && i+2 < len(argv):
			r.wrote(argv[i+2], "", false)
		case strings.Contains(w, "://"):
			r.wrote(path.Base(w), "", false) // -O keeps the name
		}
	}
}

// meanings reads the commands that give a name another meaning, or a command to call back.
func (r *reader) meanings(name string, argv []string, s scope) {
	switch name {
	case "alias":
		for _, w := range argv[1:] {
			alias, body, ok := strings.Cut(w, "=")
			if ok && len(r.aliases) < maxFunctions {
				r.aliases[alias] = body
			}
			if ok && (!known(alias) || !known(body)) {
				r.doubt("an alias is known only at run time")
			}
		}
	case "mapfile", "readarray":
		for _, text := range values(argv, "-C") {
			r.text(text, s.deeper())
		}
	case "complete", "compgen":
		for _, text := range values(argv, "-C", "-F") {
			r.text(text, s.deeper())
		}
		for _, text := range values(argv, "-W") {
			r.evaluateText(text)
		}
	case "bind":
		r.doubt("%s binds commands to keys", name)
	case "hash", "enable":
		if slices.Contains(argv, "-p") || slices.Contains(argv, "-f") {
			r.doubt("%s gives a command another meaning", name)
		}
	}
}

// commandVariables hold a command that another program runs; optionVariables the options of one; unclearVariables
// change what the rest of the text means.
var (
	commandVariables = strings.Fields(`PAGER EDITOR VISUAL BROWSER MANPAGER LESSOPEN LESSCLOSE PROMPT_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER
GIT_SSH_COMMAND GIT_SSH GIT_ASKPASS SSH_ASKPASS GIT_EXTERNAL_DIFF GIT_PROXY_COMMAND RSYNC_RSH CVS_RSH SUDO_EDITOR SUDO_ASKPASS SYSTEMD_EDITOR
SYSTEMD_PAGER KUBE_EDITOR FCEDIT RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CC CXX LD AR SHELL MAKESHELL npm_config_script_shell NPM_CONFIG_SCRIPT_SHELL
GH_PAGER GH_BROWSER GH_EDITOR GLAB_PAGER
CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER FZF_DEFAULT_COMMAND TEXEDIT`)
	optionVariables  = strings.Fields(`TAR_OPTIONS MAKEFLAGS MFLAGS GNUMAKEFLAGS GOFLAGS ZIPOPT CFLAGS CXXFLAGS LDFLAGS RUSTFLAGS JAVA_TOOL_OPTIONS MAVEN_OPTS LESS`)
	unclearVariables = strings.Fields(`BASH_ENV ENV LD_PRELOAD LD_AUDIT SHELLOPTS BASHOPTS PS4 GIT_EXEC_PATH GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS
GIT_TEMPLATE_DIR PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS PYTHONSTARTUP PYTHONINSPECT BASH_ALIASES BASH_CMDS BASH_LOADABLES_PATH MAKEFILES ZDOTDIR`)
)

// variable looks at what is assigned to a name.
func (r *reader) variable(name, value string, s scope) {
	switch {
	case slices.Contains(commandVariables, name):
		r.text(value, s.deeper())
	case slices.Contains(optionVariables, name):
		r.loose(value)
	case (name == "GIT_CONFIG_GLOBAL" || name == "GIT_CONFIG_SYSTEM") && value != "" && value != "/dev/null":
		r.doubt("the variable %s changes what git does", name)
	case slices.Contains(unclearVariables, name), strings.HasPrefix(name, "BASH_FUNC_"),
		strings.HasPrefix(name, "GIT_CONFIG_KEY_"):
		r.doubt("the variable %s changes what the commands do", name)
	}
}
