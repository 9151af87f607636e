package shell

import (
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/pattern"
)

// sshOptions reads the options of ssh and its kin that hold a command.
func (r *reader) sshOptions(argv []string, s scope) {
	for _, option := range values(argv, "-o") {
		key, text := option, ""
		if at := strings.IndexAny(option, "= "); at >= 0 {
			key, text = option[:at], option[at+1:]
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "proxycommand", "localcommand", "knownhostscommand", "remotecommand":
			r.text(text, s.deeper())
		case "proxyusefdpass", "include", "pkcs11provider", "securitykeyprovider":
			r.doubt("the option %s runs a program", brief(key))
		default:
			if !known(key) {
				r.doubt("an option is known only at run time")
			}
		}
	}
}

// makefile reads which file make takes its commands from.
func (r *reader) makefile(name string, argv []string, in input) {
	for _, file := range values(argv, "-f", "--file", "--makefile", "--justfile") {
		switch {
		case isStdin(file) && in.given:
			r.loose(in.text)
			if !known(in.text) {
				r.doubt("%s runs a text that is known only at run time", name)
			}
		case isStdin(file) || isDescriptor(file) || !known(file):
			r.doubt("%s runs what it reads from a pipe or a file", name)
		default:
			r.ranScript(file)
		}
	}
}

// debuggerMarks are words by which a debugger runs commands, or texts in other languages.
var debuggerMarks = pattern.New(`shell|!|\bpy|pipe|\||make|guile|\bgu\b|source|system|call|define|compile|eval|exec|script|platform`)

// debugger reads the commands that a debugger is given.
func (r *reader) debugger(name string, argv []string) {
	if i := slices.Index(argv, "--args"); i > 0 {
		argv = argv[:i]
	}
	for _, w := range argv[1:] {
		if strings.ContainsAny(w, " !|"+guard.Unknown) && debuggerMarks.MatchString(strings.ReplaceAll(w, guard.Unknown,
			"!")) {
			r.doubt("the commands passed to %s may run others", name)
		}
	}
	for _, text := range values(argv, "-ex", "-iex", "--eval-command", "--init-eval-command", "-o", "-O", "--one-line") {
		if !known(text) || debuggerMarks.MatchString(text) {
			r.doubt("the commands passed to %s may run others", name)
		}
	}
	for _, file := range values(argv, "--command", "--init-command", "--source") {
		r.doubt("%s runs the commands in %q", name, brief(file))
	}
	for i, w := range argv {
		if i > 0 && (w == "-x" || w == "-ix" || w == "-s" || w == "-S") {
			r.doubt("%s runs the commands of a file", name)
		}
	}
}
