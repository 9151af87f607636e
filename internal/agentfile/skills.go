package agentfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

// Limits of what is pinned with an agent from beside its file. Sizes are bytes.
const (
	MaxSkills     = 32
	maxSkill      = 16 << 10 // so that one is always shown whole
	maxSkills     = 96 << 10 // together
	maxMemory     = 32 << 10 // together
	maxAbout      = 1024     // of a skill's description
	skillFile     = "SKILL.md"
	skillTool     = "skill"
	memoryDefault = "AGENTS.md"
)

var skillName = pattern.New(`^[a-z0-9][a-z0-9-]{0,63}$`)

// sources notes what the file names; load reads it.
func (p *parsing) sources(root *node, a *events.Agent) {
	for _, s := range root.get("memory", "sources").words() {
		a.Memory = append(a.Memory, events.Document{Name: s})
	}
	for _, s := range root.get("skills", "sources").words() {
		a.Skills = append(a.Skills, events.Skill{Name: s})
	}
	if on := root.get("memory", "workspace"); on != nil {
		a.NoWorkspaceMemory = !on.yes()
	}
}

// load reads the memory and the skills that an agent's file names, from the folder that it is in. Nothing outside of
// that folder can be named. The digest of the agent covers them.
func load(root *os.Root, file string, a events.Agent) (events.Agent, []Warning, error) {
	l := loading{root: root, file: file}
	memory, skills := a.Memory, a.Skills
	a.Memory, a.Skills = nil, nil
	for _, m := range memory {
		l.memory(&a, m.Name)
	}
	for _, s := range skills {
		l.source(&a, strings.TrimSuffix(s.Name, "/"))
	}
	if len(a.Memory)+len(a.Skills) > 0 {
		sum := sha256.New()
		fmt.Fprintf(sum, "%s\n", a.Digest)
		for _, m := range a.Memory {
			fmt.Fprintf(sum, "%s %s\n", m.Name, m.Digest)
		}
		for _, s := range a.Skills {
			fmt.Fprintf(sum, "%s %s\n", s.Name, s.Digest)
		}
		a.Digest = hex.EncodeToString(sum.Sum(nil))
	}
	if len(a.Skills) > 0 && !slices.Contains(a.Tools, skillTool) {
		a.Tools = append(slices.Clone(a.Tools), skillTool)
	}
	return a, l.warnings, errors.Join(l.errs...)
}

type loading struct {
	root     *os.Root
	file     string
	size     int // of the skills
	about    int // bytes of memory
	warnings []Warning
	errs     []error
}

func (l *loading) fail(e *Error) {
	e.File = l.file
	l.errs = append(l.errs, e)
}

func (l *loading) memory(a *events.Agent, name string) {
	text, ok := l.text(name, maxMemory, "memory.sources")
	if !ok {
		return
	}
	if l.about += len(text); l.about > maxMemory {
		l.fail(&Error{Code: CodeLimit, Path: "memory.sources", Message: "the files are too large",
			Expected: fmt.Sprintf("at most %d bytes together", maxMemory), Hint: "move rarely needed text into a skill"})
		return
	}
	a.Memory = append(a.Memory, events.Document{Name: name, Digest: events.HashOf([]byte(text)), Text: text})
}

// text reads one file. One that is not there is a warning: AGENTS.md is often that of the workspace.
func (l *loading) text(name string, limit int64, at string) (string, bool) {
	if _, err := l.root.Stat(name); errors.Is(err, fs.ErrNotExist) {
		w := Warning{Code: CodeFile, File: l.file, Path: at, Message: "there is no " + shown(name) +
			" beside the agent's file", Hint: "name a path below the folder of the agents"}
		if path.Base(name) == memoryDefault {
			w.Hint = "the file of a workspace is shown anyway with the first result from its directory"
		}
		l.warnings = append(l.warnings, w)
		return "", false
	}
	data, err := readUpTo(l.root, name, limit)
	switch {
	case err != nil:
		l.errs = append(l.errs, err)
	case int64(len(data)) > limit:
		l.fail(&Error{Code: CodeLimit, Path: at, Message: shown(name) + " is too large",
			Expected: fmt.Sprintf("at most %d bytes", limit)})
	case strings.ToValidUTF8(string(data), "") != string(data) || strings.ContainsRune(string(data), 0):
		l.fail(&Error{Code: CodeFile, Path: at, Message: shown(name) + " is not UTF-8 text"})
	default:
		return strings.ReplaceAll(string(data), "\r\n", "\n"), true
	}
	return "", false
}

// source is a folder with a SKILL.md, or a folder of such folders.
func (l *loading) source(a *events.Agent, dir string) {
	if _, err := l.root.Stat(path.Join(dir, skillFile)); err == nil {
		l.skill(a, path.Join(dir, skillFile))
		return
	}
	entries, err := fs.ReadDir(l.root.FS(), path.Clean(dir))
	if err != nil {
		l.fail(&Error{Code: CodeFile, Path: "skills.sources", Message: "the folder " + shown(dir) + " cannot be read",
			Hint: "name a folder below that of the agents, with a folder for each skill and a SKILL.md in it"})
		return
	}
	found := 0
	for _, e := range entries {
		at := path.Join(dir, e.Name(), skillFile)
		if _, err := l.root.Stat(at); err == nil {
			l.skill(a, at)
			found++
		}
	}
	if found == 0 {
		l.warnings = append(l.warnings, Warning{Code: CodeFile, File: l.file, Path: "skills.sources",
			Message: "no folder in " + shown(dir) + " has a SKILL.md"})
	}
}

func (l *loading) skill(a *events.Agent, at string) {
	text, ok := l.text(at, maxSkill, "skills.sources")
	if !ok {
		return
	}
	s, err := parseSkill(text)
	if err != nil {
		err.File = at
		l.errs = append(l.errs, err)
		return
	}
	l.size += len(s.Text) + len(s.Description)
	switch {
	case slices.ContainsFunc(a.Skills, func(o events.Skill) bool { return o.Name == s.Name }):
		l.fail(&Error{Code: CodeDuplicate, Path: "skills.sources", Message: "two skills have the name " + s.Name})
	case len(a.Skills) == MaxSkills:
		l.fail(&Error{Code: CodeLimit, Path: "skills.sources", Message: "there are too many skills",
			Expected: fmt.Sprintf("at most %d", MaxSkills)})
	case l.size > maxSkills:
		l.fail(&Error{Code: CodeLimit, Path: "skills.sources", Message: "the skills are too large",
			Expected: fmt.Sprintf("at most %d bytes together", maxSkills)})
	default:
		a.Skills = append(a.Skills, s)
	}
}

// parseSkill reads a SKILL.md: frontmatter with name and description, then the text. Other keys are other programs'.
func parseSkill(text string) (events.Skill, *Error) {
	front, body, _, err := split([]byte(text))
	var root *node
	if err == nil {
		root, err = readTree(front, 2)
	}
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return events.Skill{}, e
		}
		return events.Skill{}, &Error{Code: CodeFile, Message: err.Error()}
	}
	s := events.Skill{Name: root.get("name").str(),
		Description: strings.Join(strings.Fields(root.get("description").str()), " "), Digest: events.HashOf([]byte(text)),
		Text: strings.TrimSpace(body)}
	switch {
	case !skillName.MatchString(s.Name):
		return s, &Error{Code: CodeValue, Path: "name", Message: "the value is not the name of a skill",
			Expected: "1 to 64 characters of a-z 0-9 -", Actual: shown(s.Name)}
	case s.Description == "" || len(s.Description) > maxAbout:
		return s, &Error{Code: CodeValue, Path: "description",
			Message:  "the skill needs a description: it is all that the agent sees before it reads the skill",
			Expected: fmt.Sprintf("1 to %d bytes", maxAbout)}
	}
	return s, nil
}
