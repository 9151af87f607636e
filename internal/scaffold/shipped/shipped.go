// Package shipped holds the named agents that come with the program: a catalogue of agent files, each with the trial
// that shows it at work.
//
// Promises: every agent file parses without an error or a warning and names only tools that exist. Every agent has a
// trial: a task, a small repository with a defect, a script of its model and a command that decides whether the defect
// is gone. What the tests alone need, such as scripts of wrong work, is not in the program.
package shipped

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/pkg/events"
)

//go:embed agents/*/*.prompt agents/*/task.json agents/*/script.yaml agents/*/fixture.txtar
var files embed.FS

const folder = "agents"

// ErrUnknown means that no agent of this name ships.
var ErrUnknown = errors.New("no agent of this name ships")

// Agent is one of the catalogue.
type Agent struct {
	events.Agent
	// File is the agent file as it ships; it names the scripted model of its trial.
	File []byte
}

// Names lists the agents by name.
func Names() []string {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic(err) // the folder is part of the program
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

// All lists the agents by name.
func All() ([]Agent, error) {
	var all []Agent
	for _, name := range Names() {
		a, err := Find(name)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Find returns an agent by its name. Its error is ErrUnknown where there is none.
func Find(name string) (Agent, error) {
	names := Names()
	if !slices.Contains(names, name) {
		did := ""
		if near := didyoumean.Word(name, names); near != "" {
			did = fmt.Sprintf("did you mean %q? ", near)
		}
		return Agent{}, fmt.Errorf("%q: %w; %sthe agents are %s", name, ErrUnknown, did, strings.Join(names, ", "))
	}
	data, err := files.ReadFile(path.Join(folder, name, name+agentfile.Ext))
	if err != nil {
		return Agent{}, fmt.Errorf("agent %s: %w", name, err)
	}
	a, _, err := agentfile.Parse(name, data)
	if err != nil {
		return Agent{}, fmt.Errorf("agent %s: %w", name, err)
	}
	return Agent{Agent: a, File: data}, nil
}

// plain is what may stand in YAML as it is.
var plain = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}$`)

// Setting is a line of frontmatter that a copy of an agent file changes. An empty value leaves the line.
type Setting struct{ Name, Model, Sandbox string }

// Copy is the agent file for a project, under a name and with a model and a sandbox of its own. The rest of the file
// stays byte for byte.
func (a Agent) Copy(s Setting) ([]byte, error) {
	front, body, ok := bytes.Cut(a.File, []byte("\n---\n"))
	if !ok {
		return nil, fmt.Errorf("agent %s: the frontmatter has no end", a.Name)
	}
	lines := strings.Split(string(front), "\n")
	for key, value := range map[string]string{"name: ": s.Name, "model: ": s.Model, "  mode: ": s.Sandbox} {
		if value == "" {
			continue
		}
		if !plain.MatchString(value) {
			return nil, fmt.Errorf("%s%q: want letters, digits and . _ : / @ -", strings.TrimSpace(key), value)
		}
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, key) })
		if i < 0 {
			return nil, fmt.Errorf("agent %s: no line begins with %q", a.Name, key)
		}
		lines[i] = key + strconv.Quote(value)
	}
	out := []byte(strings.Join(lines, "\n") + "\n---\n" + string(body))
	name := s.Name
	if name == "" {
		name = a.Name
	}
	_, _, err := agentfile.Parse(name, out)
	return out, err
}

// Trial is a task with which an agent can be seen at work.
type Trial struct {
	// Task is what the agent is asked, Accept what decides whether it is done.
	Task   string         `json:"task"`
	Accept *events.Accept `json:"accept"`
	// Script is that of the scripted model which does the work.
	Script []byte `json:"-"`
	// Commits are the history of the repository that the agent works in, the oldest first.
	Commits []Commit `json:"-"`
}

// Trial returns the trial of an agent.
func (a Agent) Trial() (Trial, error) {
	var t Trial
	read := func(name string) []byte {
		data, err := files.ReadFile(path.Join(folder, a.Name, name))
		if err != nil {
			panic(err) // the file is part of the program
		}
		return data
	}
	d := json.NewDecoder(bytes.NewReader(read("task.json")))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return t, fmt.Errorf("task of agent %s: %w", a.Name, err)
	}
	t.Script, t.Commits = read("script.yaml"), history(string(read("fixture.txtar")))
	return t, nil
}
