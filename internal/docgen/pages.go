package docgen

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli"
	"github.com/inspan/inspan/internal/service"
)

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// configPage is docs/config.md.
func configPage() []byte {
	p := &page{}
	p.WriteString(made)
	p.say("# Configuration\n")
	p.say("The services read their variables once, at start; what is wrong is told with the name of the variable and exit code 2. " +
		"The names that other programs use too are read where ours is not set: `NATS_URL`, `NATS_CREDS`, `NATS_USER`, `NATS_PASSWORD`, `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `GEMINI_API_KEY`, `GEMINI_BASE_URL`. A secret may come from a file that `..._FILE` names; it is never logged.\n")
	var rows [][]string
	for _, r := range service.Reference() {
		value := ""
		if r.Default != "" {
			value = code(r.Default)
		}
		rows = append(rows, []string{code(r.Name), value, r.Doc})
	}
	p.table([]string{"variable", "default", "what"}, rows...)
	p.say("## The program inspan\n")
	p.say("`inspan up` and `inspan run` without a station read the same variables for the station in their own process; flags win. " +
		"Its further variables are `INSPAN_APPROVER` (who answers gates; else `USER`) and `NO_COLOR`. [cli.md](cli.md) lists commands and flags.")
	return p.bytes()
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
