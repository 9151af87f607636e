package adopt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// townProject is the project of agents that belong to no rig.
const townProject = "town"

// Gastown reads the folder of a Gas Town: roles, formulas, runtimes, hooks, escalation, messaging and merge queues.
// What only a station can have, such as an address, is a command.
func Gastown(root *os.Root) (*Report, error) {
	f, err := open(root)
	if err != nil {
		return nil, err
	}
	t := town{f}
	rigs := t.rigs()
	t.roles(rigs)
	t.prompts(f.some("agents/*.prompt"))
	t.formulas(f.some(".beads/formulas/*.toml", "formulas/*.toml", "*/.beads/formulas/*.toml", "*/formulas/*.toml"))
	for _, at := range f.some("settings/agents.json", "*/settings/agents.json") {
		t.runtimes(at)
	}
	t.hooks(f.some("hooks-base.json", "settings/hooks-base.json", "hooks-overrides/*.json", ".gt/hooks-base.json",
		".gt/hooks-overrides/*.json"))
	for _, at := range f.some("config/messaging.json") {
		t.messaging(at)
	}
	for _, at := range f.some("settings/escalation.json") {
		t.escalation(at)
	}
	return &f.Report, nil
}

type town struct{ *folder }

// decode reads a file of JSON; keys that are not known are left alone.
func (t town) decode(kind, at string, to any) bool {
	data, err := t.read(at)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.refuse(kind, path.Base(at), at, err)
	}
	return err == nil
}

// rig is what its settings say.
type rig struct {
	url   string
	names []string
}

// rigs reads the settings of rigs: names of agents, the repository and the merge queue.
func (t town) rigs() map[string]rig {
	out := map[string]rig{}
	for _, at := range t.some("*/config.json") {
		var c struct {
			Type string `json:"type"`
			URL  string `json:"git_url"`
		}
		if t.decode("settings", at, &c) && c.Type == "rig" {
			out[path.Dir(at)] = rig{url: c.URL}
		}
	}
	for _, at := range t.some("*/settings/config.json") {
		name := path.Dir(path.Dir(at))
		var c struct {
			Names struct {
				Names []string `json:"names"`
			} `json:"namepool"`
			Queue *struct {
				Enabled bool   `json:"enabled"`
				Branch  string `json:"target_branch"`
				Tests   bool   `json:"run_tests"`
				Command string `json:"test_command"`
			} `json:"merge_queue"`
		}
		if !t.decode("settings", at, &c) {
			continue
		}
		r := out[name]
		r.names = c.Names.Names
		out[name] = r
		if q := c.Queue; q != nil && q.Enabled {
			t.queue(at, name, r.url, q.Branch, q.Command, q.Tests)
		}
	}
	return out
}

func (t town) queue(at, name, url, branch, command string, tests bool) {
	switch err := events.CheckID("queue", name); {
	case err != nil:
		t.refuse("queue", name, at, err)
	case printable(url+command+branch) != url+command+branch, strings.HasPrefix(url, "-"), strings.HasPrefix(branch, "-"):
		t.refuse("queue", name, at, errors.New("git_url, target_branch or test_command is no text on one line"))
	case url == "":
		t.refuse("queue", name, at, errors.New("config.json of the rig names no git_url"))
	case !tests || strings.TrimSpace(command) == "":
		t.refuse("queue", name, at, errors.New("it has no test_command: a merge queue lands what its checks pass, so give it one with inspan queue add --accept"))
	default:
		if branch == "" {
			branch = "main"
		}
		t.command("queue", name, at, []string{"inspan", "queue", "add", name, "--repo", url, "--branch", branch, "--agent",
			"refinery", "--accept", command},
			"the definition refinery makes the attempts; conflict and retry settings are not taken")
	}
}

// plural are the folders of roles, as addresses have them.
var plural = map[string]string{"polecats": "polecat", "dogs": "dog"}

// address is one of Gas Town as it is here.
func address(theirs string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSpace(theirs), "/"), "/")
	for i, p := range parts {
		if of := plural[p]; of != "" {
			parts[i] = of
		}
	}
	switch len(parts) {
	case 1:
		parts = []string{townProject, parts[0], parts[0]}
	case 2:
		parts = append(parts, parts[1])
	}
	ours := strings.Join(parts, "/")
	form, _, err := events.ParseAddress(ours)
	if err == nil && form != events.AgentAddress {
		err = fmt.Errorf("%s is no agent", ours)
	}
	if err != nil {
		return "", fmt.Errorf("%s: wildcards, groups and such names are not taken: %w", printable(theirs), err)
	}
	return ours, nil
}

// messaging makes addresses of lists, queues and bulletin boards.
func (t town) messaging(at string) {
	var c struct {
		Lists  map[string][]string `json:"lists"`
		Queues map[string]struct {
			Workers []string `json:"workers"`
			Most    int      `json:"max_claims"`
		} `json:"queues"`
		Boards map[string]struct {
			Readers []string `json:"readers"`
		} `json:"announces"`
		Nudges map[string][]string `json:"nudge_channels"`
	}
	if !t.decode("address", at, &c) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Lists)) {
		t.group(at, "list", name, c.Lists[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Boards)) {
		t.group(at, "channel", name, c.Boards[name].Readers)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Nudges)) {
		t.group(at, "channel", name, c.Nudges[name], "a nudge is a message with --priority urgent")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		notes := []string{"any agent may claim from it: workers are not taken"}
		if c.Queues[name].Most > 0 {
			notes = append(notes, "max_claims is not taken")
		}
		t.group(at, "queue", name, nil, notes...)
	}
}

func (t town) group(at, form, name string, members []string, notes ...string) {
	ours := form + "/" + strings.ReplaceAll(name, "/", "-")
	if _, _, err := events.ParseAddress(ours); err != nil {
		t.refuse("address", name, at, err)
		return
	}
	if !strings.HasSuffix(ours, "/"+name) {
		notes = append(notes, "its name has no / here")
	}
	args := []string{"inspan", "mail", "register", ours}
	for _, m := range members {
		agent, err := address(m)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		args = append(args, "--member", agent)
	}
	if form == "list" && len(args) == 4 {
		t.refuse("address", name, at, fmt.Errorf("none of its %d members is an agent: %s", len(members),
			strings.Join(notes, "; ")))
		return
	}
	t.command("address", ours, at, args, notes...)
}

// escalation makes routes of alerts.
func (t town) escalation(at string) {
	var c struct {
		Routes map[string][]string `json:"routes"`
		Stale  string              `json:"stale_threshold"`
	}
	if !t.decode("alerts", at, &c) {
		return
	}
	var notes []string
	args := []string{"inspan", "agents", "alerts"}
	for _, severity := range slices.Sorted(maps.Keys(c.Routes)) {
		if !slices.Contains(events.Severities(), events.Severity(severity)) {
			notes = append(notes, printable(severity)+" is no severity")
			continue
		}
		for _, action := range c.Routes[severity] {
			to, is := strings.CutPrefix(action, "mail:")
			switch agent, err := address(to); {
			case action == "bead" || action == "log":
			case !is:
				notes = append(notes, severity+": "+printable(action)+" is not taken; inspan notify tells people")
			case err != nil:
				notes = append(notes, severity+": "+err.Error())
			default:
				args = append(args, severity+"="+agent)
			}
		}
	}
	if c.Stale != "" {
		notes = append(notes, "stale_threshold is not taken: an alert rises after 30 minutes")
	}
	if len(args) == 3 {
		t.refuse("alerts", "escalation", at, fmt.Errorf("it has no target that is an agent: %s", strings.Join(notes, "; ")))
		return
	}
	t.command("alerts", "escalation", at, args, slices.Compact(notes)...)
}

// matched is a matcher of hooks such as Bash(git push*).
func matched(m string) (tool, glob string) {
	tool, rest, is := strings.Cut(m, "(")
	if !is || !strings.HasSuffix(rest, ")") {
		return m, ""
	}
	return tool, strings.TrimSuffix(rest, ")")
}

// hookTools are the tools of Claude Code that hooks stand before.
var hookTools = map[string]string{"Bash": "bash", "Read": "read", "Write": "write", "Edit": "edit",
	"MultiEdit": "edit", "Grep": "grep", "Glob": "glob"}

// hooks makes guard rules of the hooks that stand before a tool. A guard of Gas Town refuses; another program may do
// anything, so a person is asked in its place.
func (t town) hooks(files []string) {
	var rules []events.Rule
	var from []string
	for _, at := range files {
		var c map[string]json.RawMessage
		if !t.decode("rules", at, &c) {
			continue
		}
		for _, on := range slices.Sorted(maps.Keys(c)) {
			if on != "PreToolUse" {
				t.refuse("hook", printable(on), at, errors.New("what it runs at the start, the end or between turns is part of the harness here: context, mail and checkpoints"))
				continue
			}
			made := t.guards(at, c[on], len(rules))
			if len(made) > 0 {
				from = append(from, at)
			}
			rules = append(rules, made...)
		}
	}
	if len(rules) > 0 {
		t.policy(strings.Join(from, ", "), rules, "guards of Gas Town refuse, other programs are not run: a person is asked",
			"rules of one role or rig hold for all", "INSPAN_POLICY of all services names it")
	}
}

func (t town) guards(at string, raw json.RawMessage, before int) (rules []events.Rule) {
	var all []struct {
		Matcher string `json:"matcher"`
		Hooks   []struct {
			Command string `json:"command"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.refuse("rules", "PreToolUse", at, err)
		return nil
	}
	for _, h := range all {
		theirs, glob := matched(h.Matcher)
		tool := hookTools[theirs]
		switch {
		case len(h.Hooks) == 0:
			t.refuse("rules", printable(h.Matcher), at,
				errors.New("it takes a hook of a lower layer away: remove that rule from policy.yaml"))
			continue
		case tool == "":
			t.refuse("rules", printable(h.Matcher), at, fmt.Errorf("there is no tool %q here", printable(theirs)))
			continue
		}
		r := events.Rule{ID: fmt.Sprintf("gastown-%d", before+len(rules)+1), Tool: tool, Action: "ask",
			Reason: "hook of " + printable(at)}
		for _, one := range h.Hooks {
			if strings.Contains(one.Command, "gt tap guard") {
				r.Action = "deny"
			}
		}
		switch {
		case glob != "" && tool == "bash":
			r.Match.Glob = glob
		case glob != "":
			r.Match.Path = glob
		}
		rules = append(rules, r)
	}
	return rules
}

// runtimes makes entries of the registry of the programs that are named as agents.
func (t town) runtimes(at string) {
	var c struct {
		Agents map[string]struct {
			Command   string   `json:"command"`
			Args      []string `json:"args"`
			Processes []string `json:"process_names"`
			Resume    string   `json:"resume_flag"`
		} `json:"agents"`
	}
	if !t.decode("runtime", at, &c) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		parser := map[string]string{"claude": "claude", "codex": "codex"}[path.Base(a.Command)]
		if parser == "" {
			t.refuse("runtime", printable(name), at, fmt.Errorf("the protocol of %q is not known: inspan runtimes list has what does; docs/runtimes.md says how to add one that speaks ACP",
				printable(a.Command)))
			continue
		}
		notes := []string{"unverified: inspan runtimes check " + printable(name)}
		var args, autonomous []string
		for _, arg := range a.Args {
			if strings.HasPrefix(arg, "--dangerously-") {
				autonomous = append(autonomous, arg)
			} else {
				args = append(args, arg)
			}
		}
		if autonomous != nil {
			notes = append(notes, strings.Join(autonomous, " ")+" holds only where the sandbox isolates")
		}
		gate := "none"
		if parser == "claude" {
			gate = "native"
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "# Made of %s by inspan import.\nname = %s\nkind = \"cli\"\ncommand = %s\nargs = %s\nautonomous_args = %s\nheadless = {parser = %s}\ncapabilities = {gate_tools = %s}\n",
			printable(at), text(name), text(a.Command), list(args), list(autonomous), text(parser), text(gate))
		t.entry(at, name, b.Bytes(), notes)
	}
}

func list(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = text(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
