package actions

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/shell"
	"github.com/inspan/inspan/pkg/run"
)

// In is Of for a call of a run: a file that it runs and that an earlier call of the run wrote is read as
// well. What other runs, people or the programs of the workspace wrote is not known here.
func In(s run.State, toolName string, input json.RawMessage) guard.Action {
	a, runs := read(toolName, input)
	if len(a.Commands) > 0 && searches(s, input) { // a name without a folder may be that of a file, too
		for _, argv := range a.Commands {
			runs = append(runs, shell.Run{Path: argv[0], Shell: true})
		}
	}
	seen, looks := map[shell.Run]bool{}, maxLooks
	for _, ran := range runs {
		if ran.Path = path.Base(ran.Path); seen[ran] || ran.Path == ">" || strings.Contains(ran.Path, guard.Unknown) {
			continue
		}
		seen[ran] = true
		e := earlier{s: s, input: input, looks: &looks}
		scripted(&a, ran, e.file(ran.Path, 0))
	}
	return a
}

// searches reports whether a call or one before it may have changed where the shell looks for programs; some sandboxes
// keep what a call exports.
func searches(s run.State, input json.RawMessage) bool {
	if bytes.Contains(input, []byte("PATH")) {
		return true
	}
	for _, c := range run.All(s.ToolCallHistory) {
		if bytes.Contains(c.Arguments, []byte("PATH=")) {
			return true
		}
	}
	return false
}

// scripted adds what a file that earlier calls wrote makes a call do.
func scripted(a *guard.Action, ran shell.Run, f file) {
	doubt := func(why string) {
		if a.Unclear == "" {
			a.Unclear = "it runs " + ran.Path + ", which an earlier call wrote: " + why
		}
	}
	switch {
	case !f.found:
		return
	case f.hidden && !ran.Settings:
		doubt("its text is not in that call")
	}
	if ran.Shell && f.whole && !shell.Foreign(f.text) {
		parsed := shell.Parse(f.text)
		a.Commands, a.Loose = append(a.Commands, parsed.Commands...), append(a.Loose, parsed.Loose...)
		if parsed.Unclear != "" {
			doubt(parsed.Unclear)
		}
		return
	}
	loose, ok := shell.Words(f.text)
	a.Loose = append(a.Loose, loose...)
	if !ok {
		doubt("it is too long")
	}
}

// file is what the calls of a run made of a file.
type file struct {
	text string
	// found is set where a call wrote it, whole where text is all of it, hidden where a part of it is not known.
	found, whole, hidden bool
}

// Limits of the look at earlier calls: what is beyond them is not known.
const (
	// maxRenames is how often the name of a file is followed back.
	maxRenames = 4
	// maxLooks is for how many names of files the calls are looked at.
	maxLooks = 256
)

// earlier are the calls of a run but the one with that input.
type earlier struct {
	s     run.State
	input json.RawMessage
	// looks is how many more names may be looked for.
	looks *int
}

// file returns what is known of the files of a name, which may be a pattern, in whatever folder they are.
func (e earlier) file(name string, depth int) (f file) {
	*e.looks--
	quoted, err := json.Marshal(name)
	if err != nil || depth > maxRenames || *e.looks < 0 {
		return file{found: true, hidden: true}
	}
	pattern := strings.ContainsAny(name, "*?[")
	mentions := func(args json.RawMessage) bool { return pattern || bytes.Contains(args, quoted[1:len(quoted)-1]) }
	for _, c := range run.All(e.s.ToolCallHistory) {
		switch {
		case c.Outcome == run.OutcomeRefused:
		case len(c.Arguments) == 0 && strings.Contains(c.Result, name): // too large for the log
			f.found, f.hidden = true, true
		case mentions(c.Arguments):
			e.apply(&f, c.Arguments, name, depth)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.s.Open)) {
		if c := e.s.Open[id]; mentions(c.Input) && !bytes.Equal(c.Input, e.input) {
			e.apply(&f, c.Input, name, depth)
		}
	}
	return f
}

// written are the arguments by which tools write files.
type written struct {
	Path    string
	Content *string
	Command string
	Patch   string
	edited
	Edits []edited
}

type edited struct {
	Old string `json:"old_string"`
	New string `json:"new_string"`
}

// apply adds what one call did to a file.
func (e earlier) apply(f *file, args json.RawMessage, name string, depth int) {
	var in written
	if err := json.Unmarshal(args, &in); err != nil {
		return
	}
	switch {
	case in.Command != "":
		e.command(f, in.Command, name, depth)
	case in.Patch != "":
		f.add(added(in.Patch))
	case !matches(name, in.Path):
	case in.Content != nil:
		*f = file{text: *in.Content, found: true, whole: true}
	default:
		for _, one := range append(in.Edits, in.edited) {
			if f.whole && one.Old != "" && strings.Contains(f.text, one.Old) {
				f.text = strings.ReplaceAll(f.text, one.Old, one.New)
			} else {
				f.add(one.New)
			}
		}
	}
}

// add adds a part that stands somewhere in the file.
func (f *file) add(text string) {
	f.text, f.found = f.text+"\n"+text, true
}

// command adds what a shell text did.
func (e earlier) command(f *file, text, name string, depth int) {
	parsed := shell.Parse(text)
	for _, w := range parsed.Writes {
		switch {
		case !matches(name, w.Path):
		case w.Known:
			f.whole = f.whole || !f.found
			f.add(w.Text)
		default:
			f.found, f.hidden = true, true
		}
	}
	for _, c := range parsed.Copies {
		from := path.Base(c.From)
		if !matches(name, c.To) || matches(name, from) || strings.Contains(from, guard.Unknown) {
			continue
		}
		if source := e.file(from, depth+1); source.found {
			*f = file{text: f.text + "\n" + source.text, found: true, whole: source.whole, hidden: f.hidden || source.hidden}
		}
	}
}

// matches reports whether a path may be that of a file of a name.
func matches(name, at string) bool {
	base := path.Base(at)
	ok, err := path.Match(name, base)
	return base == name || ok || err != nil
}

// added are the lines that a patch brings.
func added(patch string) string {
	var b strings.Builder
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "+") {
			b.WriteString(line[1:])
		}
	}
	return b.String()
}
