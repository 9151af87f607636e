package docgen

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/service/executor"
	"github.com/inspan/inspan/internal/service/gatekeeper"
	"github.com/inspan/inspan/internal/service/gateway"
	"github.com/inspan/inspan/internal/service/persister"
	"github.com/inspan/inspan/internal/service/planner"
	"github.com/inspan/inspan/internal/service/toolrunner"
)

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// configPage is docs/config.md.
func configPage() []byte {
	p := &page{}
	p.WriteString(made)
	p.say("# Configuration\n")
	p.say("The services read their variables once, at start; what is wrong is told with the name of the variable and exit code 2. " +
		"The names that other programs use too are read where ours is not set: `NATS_URL`, `NATS_CREDS`, `NATS_USER`, `NATS_PASSWORD`, `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `GEMINI_API_KEY`, `GEMINI_BASE_URL`. A secret may come from a file that `..._FILE` names; it is never logged. " +
		"In a configuration file the key of a secret with `_file` behind it names such a file: `models.openai.api_key_file`.\n")
	p.say("Every value may stand in a configuration file too, under its key. A setting is taken from the first of these that says it:\n")
	p.say("1. a flag of the command line\n2. a variable\n3. the project's `.inspan/config.yaml`, in the working directory or the nearest folder above it\n" +
		"4. the user's `~/.config/inspan/config.yaml` (below `XDG_CONFIG_HOME` where that is set)\n5. what is built in\n")
	p.say("`INSPAN_CONFIG` names one file to read in place of both files; `none` reads none. `inspan config explain` shows each effective value with its source, the file and the line. " +
		"An unknown key is an error with its line and the nearest known key; keys of your own begin with `x-`. Paths in a file are relative to the folder of the user's file, or to the project. " +
		"The file of a project may set only what is marked *project*: it could be somebody else's project, so it does not decide whom to trust, where keys are sent or what is watched. " +
		"A file that holds a secret and that others can read is warned of.\n")
	p.say("```yaml\nstation: lab\nnats:\n  url: nats://10.0.0.1:4222\nharness:\n  max_steps: 40\n  timeout: 1h\n  sandbox:\n    mode: bwrap\n```\n")
	p.say("## Settings of services\n\nEach program reads only what is its own; a station in one process (`inspan up`) reads all.\n")
	var rows, program, agents [][]string
	for _, r := range service.Table() {
		value := ""
		if r.Default != "" {
			value = code(r.Default)
		}
		key, doc := code(r.Key), r.Doc
		if r.Project {
			key += " *project*"
		}
		if r.Inert {
			doc += "; accepted, nothing acts on it yet"
		}
		switch {
		case r.SecretFile:
		case r.Variable == "":
			agents = append(agents, []string{key, value, doc})
		case r.Program():
			program = append(program, []string{code(r.Variable), key, value, doc})
		default:
			rows = append(rows, []string{code(r.Variable), key, value, doc, readBy(r.Variable)})
		}
	}
	p.table([]string{"variable", "key in config.yaml", "default", "what", "read by"}, rows...)
	p.say("## Defaults of agents\n\nThey have no variables: an agent file overrides them, and the flags of `inspan run` override both. They act where agents are registered: `inspan up`, `inspan setup`, the planner.\n")
	p.table([]string{"key in config.yaml", "default", "what"}, agents...)
	p.say("## The program inspan\n")
	p.say("`inspan up` and `inspan run` without a station read the same variables for the station in their own process; flags win. " +
		"Besides those below it reads `NO_COLOR`. [cli.md](cli.md) lists commands and flags.\n")
	p.table([]string{"variable", "key in config.yaml", "default", "what"}, program...)
	return p.bytes()
}

// readBy names the programs of services that read a variable.
func readBy(variable string) string {
	programs := map[string]any{"planner": &planner.Config{}, "gatekeeper": &gatekeeper.Config{},
		"executor":   &executor.Config{},
		"toolrunner": &toolrunner.Config{}, "persister": &persister.Config{}, "gateway": &gateway.Config{}}
	var by []string
	for _, name := range sorted(slices.Collect(maps.Keys(programs))) {
		if slices.Contains(service.Variables(programs[name]), variable) {
			by = append(by, name)
		}
	}
	switch len(by) {
	case len(programs):
		return "all"
	case 0:
		return "`inspan up`"
	}
	return strings.Join(by, ", ")
}

// cliPage is docs/cli.md.
func cliPage() []byte {
	root := cli.Root()
	p := &page{}
	p.WriteString(made)
	p.say("# inspan\n\n%s\n", root.Long)
	p.say("```\n%s\n```\n", unindent(root.Example))
	p.say("Exit codes: 0 done, 1 failed, 2 the command line is wrong, 3 the run paused or a gate was rejected, 4 the station refused it, 5 there is no such thing.\n")
	p.say("Flags of every command:\n\n```\n%s\n```\n", usages(root.PersistentFlags().FlagUsages()))
	var rows [][]string
	all := commands(root)
	for _, c := range all {
		rows = append(rows, []string{"[" + c.CommandPath() + "](#" + anchor(c.CommandPath()) + ")", c.Short})
	}
	p.table([]string{"command", ""}, rows...)
	for _, c := range all {
		commandSection(p, c)
	}
	return p.bytes()
}

// commands are all that do something, in the order of the tree.
func commands(c *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if sub.Runnable() {
			list = append(list, sub)
		}
		list = append(list, commands(sub)...)
	}
	return list
}

func commandSection(p *page, c *cobra.Command) {
	p.say("## %s\n\n%s.\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
	if c.Long != "" {
		p.say("%s\n", c.Long)
	}
	use := strings.TrimPrefix(c.UseLine(), "inspan ")
	p.say("```\ninspan %s\n```\n", use)
	if c.Example != "" {
		p.say("```\n%s\n```\n", unindent(c.Example))
	}
	if len(c.Aliases) > 0 {
		p.say("Also: %s.\n", codes(c.Aliases))
	}
	if own := usages(c.LocalNonPersistentFlags().FlagUsages()); own != "" {
		p.say("```\n%s\n```\n", own)
	}
}

// usages drops the flag that cobra adds only when a command runs.
func usages(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if !strings.Contains(line, "-h, --help") && !strings.Contains(line, "-v, --version") {
			lines = append(lines, strings.TrimRight(line, "\n "))
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
