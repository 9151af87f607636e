package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Write is a file that a text writes.
type Write struct {
	// Path as the text names it, in its shortest form.
	Path string
	// Text that it gets where Known; it may only be a part of the file.
	Text  string
	Known bool
}

// Copy is a file that a text gives another name; the new one may be a folder.
type Copy struct{ From, To string }

// Run is a file whose text a command runs.
type Run struct {
	Path string
	// Shell is set where a shell or the file's own first line reads it; else another program does.
	Shell bool
	// Settings is set where the program looks for the file by itself and it holds more than commands.
	Settings bool
}

// wrote notes a file that is written.
func (r *reader) wrote(name, text string, known bool) {
	if name != "" && name != "/dev/null" {
		r.writes = append(r.writes, Write{Path: path.Clean(name), Text: text, Known: known})
	}
}

// ranFile notes a file that a shell runs, ranScript one that another program does.
func (r *reader) ranFile(name string) { r.ran(Run{Path: name, Shell: true}) }

func (r *reader) ranScript(name string) { r.ran(Run{Path: name}) }

func (r *reader) ran(run Run) {
	if run.Path != "" && len(r.runs) < MaxCommands {
		run.Path = path.Clean(run.Path)
		r.runs = append(r.runs, run)
	}
}

// output is the text that a command is known to print.
func output(call *syntax.CallExpr, in input) (text string, ok bool) {
	argv := make([]string, len(call.Args))
	for i, w := range call.Args {
		argv[i] = literal(w)
	}
	if len(argv) == 0 || !known(strings.Join(argv, " ")) {
		return "", false
	}
	switch text = strings.Join(argv[1:], " "); {
	case argv[0] == "cat" && len(argv) == 1 && in.given && known(in.text), argv[0] == "tee" && in.given && known(in.text):
		return in.text, true
	case argv[0] == "echo" && !strings.Contains(text, `\`):
		return strings.TrimPrefix(text, "-n "), true
	case argv[0] == "printf" && len(argv) == 2 && !strings.Contains(text, "%"):
		return strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(text),
			!strings.Contains(strings.NewReplacer(`\n`, "", `\t`, "").Replace(text), `\`)
	}
	return "", false
}

// copying notes what cp, mv, ln and install make of files: another name of a program, or of a file that the text wrote.
func (r *reader) copying(name string, argv []string) {
	valued := map[string]string{"install": "-m -o -g -t -S --mode --owner --group --target-directory"}[name]
	if valued == "" {
		valued = "-t -S --target-directory --suffix"
	}
	plain, dir := operands(argv, valued)
	if dir == "" && len(plain) > 1 {
		dir, plain = plain[len(plain)-1], plain[:len(plain)-1]
	} else if dir == "" && name == "ln" && len(plain) == 1 {
		dir = "."
	}
	for _, from := range plain {
		r.copied(from, dir)
	}
}

// operands are the words of a command that are no options, and the folder that -t names.
func operands(argv []string, valued string) (plain []string, dir string) {
	takes := strings.Fields(valued)
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		switch value, given := strings.CutPrefix(w, "--target-directory="); {
		case w == "--":
			return append(plain, argv[i+1:]...), dir
		case given:
			dir = value
		case slices.Contains(takes, w) && i+1 < len(argv):
			i++
			if w == "-t" || w == "--target-directory" {
				dir = argv[i]
			}
		case strings.HasPrefix(w, "-") && len(w) > 1:
		default:
			plain = append(plain, w)
		}
	}
	return plain, dir
}

// copied notes that a file has another name from now on.
func (r *reader) copied(from, to string) {
	if to == "" {
		return
	}
	name := path.Base(from)
	if absolute(from) && known(name) {
		r.loose(name)
	}
	r.copies = append(r.copies, Copy{path.Clean(from), path.Clean(to)})
	if len(r.copies) > maxFunctions {
		r.doubt("it copies more than %d files", maxFunctions)
		return
	}
	for _, target := range []string{path.Clean(to), path.Join(to, name)} {
		if !known(from) || absolute(from) {
			r.foreign = append(r.foreign, Write{Path: target})
		}
		r.foreign = append(r.foreign, renamed(r.foreign, from, target)...)
		r.writes = append(r.writes, renamed(r.writes, from, target)...)
	}
	if known(from) && known(to) && name != path.Base(to) && len(r.renamed) < maxFunctions {
		r.renamed[path.Base(to)] = name
	}
}

// renamed are the writes of a file under another name.
func renamed(all []Write, from, to string) (found []Write) {
	for _, w := range all {
		if w.Path == path.Clean(from) && w.Path != to && len(all) < MaxCommands {
			w.Path = to
			found = append(found, w)
		}
	}
	return found
}

// absolute reports whether a file is not one of the workspace by its name.
func absolute(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") || strings.HasPrefix(path.Clean(name), "../")
}

// same reports whether a file that was written may be one that is run: its name may be relative to another folder.
func same(written, ran string) bool {
	base := path.Base(ran)
	if !known(base) || wild(base) {
		return true
	}
	if !known(path.Base(written)) {
		return path.Dir(written) == path.Dir(ran) || !known(path.Dir(written))
	}
	return path.Base(written) == base
}

// settleFiles judges the files that the text writes itself and runs.
func (r *reader) settleFiles() {
	for _, ran := range r.runs {
		for _, w := range r.foreign {
			if same(w.Path, ran.Path) {
				r.doubt("it runs %q, which is a copy of a program from elsewhere", brief(ran.Path))
			}
		}
		wrote := false
		for _, w := range slices.Clone(r.writes) {
			if !same(w.Path, ran.Path) {
				continue
			}
			wrote = true
			r.script(w, ran.Shell)
			if ran.Shell {
				r.doubt("it runs %q, which it writes itself", brief(ran.Path))
			} else if !w.Known && !ran.Settings {
				r.doubt("it runs %q, whose text it generates itself", brief(ran.Path))
			}
		}
		if (wrote || ran.Shell) && !ran.Settings {
			for _, w := range r.writes {
				r.loose(w.Text) // it may have another name by then, or include another file
			}
		}
	}
	for _, w := range append(slices.Clone(r.writes), r.foreign...) {
		if r.named[path.Base(w.Path)] {
			r.doubt("it runs %q, which is also a file that it creates", brief(path.Base(w.Path)))
		}
		for _, file := range r.inputs {
			if w.Path == file {
				r.doubt("it reads %q, which it writes itself", brief(file))
			}
		}
	}
}

// script reads what a written file would run.
func (r *reader) script(w Write, shell bool) {
	switch {
	case !w.Known:
	case shell && !Foreign(w.Text):
		r.text(w.Text, scope{depth: 1})
	default:
		r.loose(w.Text)
	}
}

// Foreign reports whether the first line of a text says that another program than a shell reads it.
func Foreign(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return false
	}
	for len(words) > 1 && (path.Base(words[0]) == "env" || strings.HasPrefix(words[0], "-")) {
		words = words[1:]
	}
	return !isShell(path.Base(words[0]))
}

// Words takes a text in another language apart into Result.Loose. ok is false where it has too many words.
func Words(text string) (loose [][]string, ok bool) {
	r := &reader{}
	r.loose(text)
	return r.looseWords, r.unclear == ""
}

// defaults are the files of commands that a program looks for by itself, settings those that hold more than commands.
var (
	defaults = map[string][]string{
		"make": {"Makefile", "makefile", "GNUmakefile"}, "gmake": {"Makefile", "makefile", "GNUmakefile"},
		"just": {"justfile", "Justfile"},
		"git":  {".gitconfig"}, "gdb": {".gdbinit"}, "vim": {".vimrc"}, "rake": {"Rakefile"},
	}
	settings = map[string][]string{
		"npm": {"package.json", ".npmrc"}, "pnpm": {"package.json"}, "yarn": {"package.json"}, "bun": {"package.json"},
		"cargo": {"build.rs", "config.toml"}, "docker": {"Dockerfile", "compose.yaml", "docker-compose.yml"},
	}
)

func (r *reader) ranDefaults(name string) {
	for _, file := range defaults[name] {
		r.ranScript(file)
	}
	for _, file := range settings[name] {
		r.ran(Run{Path: file, Settings: true})
	}
}

// startFiles are read by a shell that begins as one for a person does.
var startFiles = []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv"}
