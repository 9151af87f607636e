// Package scaffold makes the files that a newcomer begins with: configuration and agents from templates.
//
// Promises: what is made parses without an error; a template names only tools that exist, and says which programs and
// settings they need besides; the same options give the same bytes. It writes nothing itself.
package scaffold

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/didyoumean"
	"github.com/inspan/inspan/internal/pattern"
	"github.com/inspan/inspan/internal/scaffold/project"
	"github.com/inspan/inspan/internal/scaffold/shipped"
	"github.com/inspan/inspan/pkg/events"
)

//go:embed config.yaml project.yaml templates/*.txt
var files embed.FS

// Config is the configuration file of a user, with the built-in defaults written out (CLI-1).
func Config() []byte { return file("config.yaml") }

// Project is the configuration file of a project.
func Project() []byte { return file("project.yaml") }

func file(name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return data
}

// Need is what an agent needs besides its tools.
type Need struct {
	// What is a word for it, such as "pandas".
	What string
	// Args is a command that succeeds where it is there; it is to be run where the tools of the agent run. Empty for a
	// setting.
	Args []string
	// Variable of a setting that must not be empty; empty for a program.
	Variable string
	// Why says what it is for, and what to do where it is missing.
	Why string
}

// Template is a kind of agent (CLI-4).
type Template struct {
	Name, Description string
	Tools             []string
	MaxSteps          int
	Timeout           string
	ToolCalls         int
	Network           bool
	// Guards is YAML of the keys guards and permissions, or empty.
	Guards string
	Needs  []Need
}

// noPush holds for agents that have bash.
const noPush = `guards:
  - id: no-push
    tool: bash
    match:
      argv: [git, "**", push, "**"]
    action: deny
    reason: finished work is reviewed before it leaves the workspace
`

// asksFirst holds for agents that change code: what leaves the workspace is asked about.
const asksFirst = `guards:
  - id: ask-push
    tool: bash
    match:
      argv: [git, "**", push, "**"]
    action: ask
    reason: work is reviewed before it leaves the workspace
  - id: ask-network
    tool: bash
    match:
      argv: ["{curl,wget,ssh,scp,sftp,rsync,nc,ncat,telnet,ftp}", "**"]
    action: ask
    reason: it talks to the network
permissions:
  git_push: ask
`

// coding are the tools of an agent that changes code: all that work without a network and without settings.
var coding = []string{"read", "write", "edit", "apply_patch", "bash", "bash_output", "kill_shell", "glob", "grep",
	"git_status", "git_diff",
	"git_log", "git_branch", "git_commit", "git_push", "artifact_save", "secret_scan"}

func needsBash() Need {
	return Need{What: "bash", Args: []string{"bash", "-c", "true"},
		Why: "the tool bash runs commands with it: install bash"}
}

// Templates lists them in the order in which they are offered.
func Templates() []Template {
	bash := needsBash()
	return []Template{
		{Name: "coding", Description: "Changes code as the task requires, and verifies it with the tests of the project",
			Tools: slices.Clone(coding), MaxSteps: 100, Timeout: "2h", ToolCalls: 400,
			Guards: asksFirst,
			Needs:  []Need{bash, {What: "git", Args: []string{"git", "--version"}, Why: "most projects use it: install git"}}},
		{Name: "sre", Description: "Finds out why a running system misbehaves, from metrics, logs and configuration",
			Tools: []string{"read", "bash", "grep", "prometheus"}, MaxSteps: 60, Timeout: "30m", ToolCalls: 150, Guards: noPush,
			Needs: []Need{bash, {What: "prometheus", Variable: "INSPAN_PROMETHEUS_URL",
				Why: "the tool prometheus queries the server at INSPAN_PROMETHEUS_URL, for example http://127.0.0.1:9090"}}},
		{Name: "security", Description: "Reviews a code base for weaknesses and secrets, and changes nothing",
			Tools: []string{"read", "glob", "grep", "secret_scan"}, MaxSteps: 80, Timeout: "30m", ToolCalls: 200},
		{Name: "data", Description: "Answers questions from files and databases, with repeatable scripts",
			Tools: []string{"read", "write", "bash"}, MaxSteps: 50, Timeout: "30m", ToolCalls: 120, Guards: noPush,
			Needs: []Need{bash, {What: "python3", Args: []string{"python3", "--version"},
				Why: "scripts are written for it: install python3"},
				{What: "pandas", Args: []string{"python3", "-c", "import pandas"},
					Why: "it reads tables: python3 -m pip install pandas, for the python3 that is visible in the sandbox"},
				{What: "sqlite3", Args: []string{"sqlite3", "--version"},
					Why: "it runs SQL over files: install sqlite3; otherwise python3 has a module of the same name"}}},
	}
}

// Find returns a template by its name.
func Find(name string) (Template, error) {
	var known []string
	for _, t := range Templates() {
		if t.Name == name {
			return t, nil
		}
		known = append(known, t.Name)
	}
	did := ""
	if near := didyoumean.Word(name, known); near != "" {
		did = fmt.Sprintf("did you mean %q? ", near)
	}
	return Template{}, fmt.Errorf("unknown template %q; %stemplates are %s", name, did, strings.Join(known, ", "))
}

// Agent is what a new agent is made of. Empty fields take the template's.
type Agent struct {
	Name, Template, Model string
	// From names an agent that ships, to copy in place of a template: its limits and rules are those of the copy.
	From string
	// Sandbox is the mode; Image goes with modes that have one.
	Sandbox, Image string
	// MaxSteps is the most model turns of a step; 0 is the template's.
	MaxSteps int
	// Project is what the agent works on: its tests and builds are permitted, and named in the instructions.
	Project project.Project
}

// word is what may stand in YAML as it is: nothing in it begins a comment, a tag or a list.
var word = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,255}$`)

// File makes the agent file, checked as it will be when it is registered. The warnings say what in it has no effect
// yet.
func (a Agent) File() ([]byte, []agentfile.Warning, error) {
	if err := events.CheckID("agent", a.Name); err != nil {
		return nil, nil, err
	}
	if a.From != "" {
		return a.copied()
	}
	t, err := Find(a.Template)
	if err != nil {
		return nil, nil, err
	}
	for what, v := range map[string]string{"model": a.Model, "sandbox": a.Sandbox, "image": a.Image} {
		if v != "" && !word.MatchString(v) {
			return nil, nil, fmt.Errorf("%s %q: want letters, digits and . _ : / @ -", what, v)
		}
	}
	steps := t.MaxSteps
	if a.MaxSteps != 0 {
		steps = a.MaxSteps
	}
	var b strings.Builder
	say := func(parts ...string) { b.WriteString(strings.Join(parts, "") + "\n") }
	say("---")
	say("name: ", strconv.Quote(a.Name))
	say("description: ", t.Description)
	say("version: 1")
	say("model: ", a.Model)
	say("tools: [", strings.Join(t.Tools, ", "), "]")
	say("harness:\n  enabled: true\n  max_steps: ", strconv.Itoa(steps), "\n  timeout: ", t.Timeout,
		"\n  budget:\n    tool_calls: ", strconv.Itoa(t.ToolCalls))
	say("sandbox:\n  mode: ", strconv.Quote(a.Sandbox))
	if a.Image != "" {
		say("  image: ", strconv.Quote(a.Image))
	}
	say("  network: ", strconv.FormatBool(t.Network))
	b.WriteString(t.Guards)
	b.WriteString(a.permitted(t))
	say("---")
	b.Write(file("templates/" + t.Name + ".txt"))
	b.WriteString(a.about())
	say("\n{{role \"user\"}}\n{{userInput}}")
	data := []byte(b.String())
	_, warnings, err := agentfile.Parse(a.Name, data)
	return data, warnings, err
}

// copied makes the agent file from one that ships.
func (a Agent) copied() ([]byte, []agentfile.Warning, error) {
	from, err := shipped.Find(a.From)
	if err != nil {
		return nil, nil, err
	}
	data, err := from.Copy(shipped.Setting{Name: a.Name, Model: a.Model, Sandbox: a.Sandbox})
	if err != nil {
		return nil, nil, err
	}
	_, warnings, err := agentfile.Parse(a.Name, data)
	return data, warnings, err
}

// Base is what the agent is made from: its template, or the same of the agent that it is copied from.
func (a Agent) Base() (Template, error) {
	if a.From == "" {
		return Find(a.Template)
	}
	from, err := shipped.Find(a.From)
	t := Template{Name: from.Name, Description: from.Description, Tools: from.Tools, MaxSteps: from.MaxSteps}
	if slices.Contains(t.Tools, "bash") {
		t.Needs = append(t.Needs, needsBash())
	}
	return t, err
}

// permitted are the permissions for the commands of the project, below the key permissions that the template ends with.
func (a Agent) permitted(t Template) string {
	commands := a.Project.Commands()
	if len(commands) == 0 || !strings.Contains(t.Guards, "\npermissions:\n") {
		return ""
	}
	var b strings.Builder
	b.WriteString("  bash:\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    %s: allow\n", strconv.Quote(strings.TrimSuffix(c, " ./...")+"{, *}"))
	}
	return b.String()
}

// about says in the instructions how the project is tested and built.
func (a Agent) about() string {
	var b strings.Builder
	for _, p := range a.Project.Parts {
		fmt.Fprintf(&b, "- %s (%s)", p.Language, p.Sign)
		for _, c := range [][2]string{{"tested with", p.Test}, {"built with", p.Build}} {
			if c[1] != "" {
				fmt.Fprintf(&b, ", %s `%s`", c[0], c[1])
			}
		}
		b.WriteString("\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nThis project:\n\n" + b.String()
}
