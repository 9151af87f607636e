// Package guards has inspan guards: the rules and hooks in force, and a trial of them on one call.
package guards

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// showCommand is inspan guards show.
type showCommand struct {
	App    *app.App
	layers layers
	raw    bool
}

func showCmd(a *app.App) *cobra.Command {
	c := &showCommand{App: a}
	cmd := &cobra.Command{
		Use: "show", Short: "Show the rules and hooks in force, each with the layer it came from",
		Long: `Shows every rule in force with the layer it came from, the hooks in the order they are asked, and the digest that the
verdicts of a run name. With --bytes it prints the rule set in canonical form and nothing else: the same program and the
same files give the same bytes, so that what was changed is found by comparing.`,
		Example: "  inspan guards show\n  inspan guards show --agent examples/agents/fixer.prompt --json\n  inspan guards show --bytes | sha256sum",
		Args:    app.Args(0),
		RunE:    c.run,
	}
	c.layers.flags(a, cmd)
	cmd.Flags().BoolVar(&c.raw, "bytes", false, "print the rule set in canonical form; its SHA-256 is the digest")
	return cmd
}

func (a *showCommand) run(*cobra.Command, []string) error {
	if err := a.layers.load(a.App); err != nil {
		return err
	}
	if a.raw {
		b, err := a.layers.set.Bytes()
		if err != nil {
			return err
		}
		_, err = a.App.Out.Write(b)
		return err
	}
	return showGuards(a.App, a.layers)
}

// layers are what the rules in force are made of.
type layers struct {
	agentPath, policyPath string
	policy                agentfile.Policy
	agent                 *events.Agent
	set                   guard.Set
}

// layerNames go with the numbers of guard.Set.Layers.
var layerNames = []string{"built-in", "station", "agent"}

func layerName(n int) string {
	if n < 0 || n >= len(layerNames) {
		return ""
	}
	return layerNames[n]
}

func (l *layers) flags(a *app.App, cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.agentPath, "agent", "", "agent file whose rules and hooks stand above the others")
	cmd.Flags().StringVar(&l.policyPath, "policy", a.Lookup("INSPAN_POLICY", ""),
		"policy file of the station (INSPAN_POLICY)")
}

// load reads the layers as the services do.
func (l *layers) load(a *app.App) error {
	var warnings []agentfile.Warning
	var err error
	if l.policy, warnings, err = agentfile.LoadPolicy(l.policyPath); err != nil {
		return err
	}
	if l.agentPath != "" {
		data, err := os.ReadFile(l.agentPath)
		if err != nil {
			return fmt.Errorf("agent file: %w", err)
		}
		agent, more, err := agentfile.Parse(filepath.Base(l.agentPath), data)
		if err != nil {
			return err
		}
		l.agent, warnings = &agent, append(warnings, more...)
	}
	for _, w := range warnings {
		if strings.HasPrefix(w.Path, "guards") || strings.HasPrefix(w.Path, "permissions") || strings.HasPrefix(w.Path,
			"hooks") || strings.HasPrefix(w.Path, "rules") {
			fmt.Fprintln(a.Err, terminal.Sanitize(w.String()))
		}
	}
	var own []events.Rule
	if l.agent != nil {
		own = l.agent.Guards
	}
	l.set, err = guard.Build(l.policy.Rules, own)
	return err
}

func (l *layers) hooks(on, tool string) []hook.Due {
	var own []events.Hook
	if l.agent != nil {
		own = l.agent.Hooks
	}
	return hook.For(l.policy.Hooks, own, on, tool)
}

// Command makes inspan guards and the commands below it.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "guards", Short: "Look at the guard rules, and try them on a call",
		Long: `Guard rules judge every tool call before it runs: allow, ask (a person is asked at a gate) or deny. They come in layers:
those that are built in, those of the station's policy file (INSPAN_POLICY), those of the agent file. Among the rules that
match, deny wins over ask and ask over allow, then the later layer. These commands need no station.`,
		Example: "  inspan guards show --agent examples/agents/fixer.prompt\n  inspan guards test 'git push --force origin main'",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(showCmd(a), testCmd(a))
	return cmd
}

// shownRule is a rule in force with its layer, for JSON.
type shownRule struct {
	Layer string `json:"layer"`
	events.Rule
}

// shownHook is a hook in force with its layer, for JSON.
type shownHook struct {
	Layer string `json:"layer"`
	events.Hook
}

func showGuards(a *app.App, l layers) error {
	rules, from := l.set.Rules(), l.set.Layers()
	var hooks []shownHook
	for _, on := range []string{events.OnRunStart, events.OnTurn, events.OnPreTool, events.OnPostTool, events.OnRunStop} {
		for _, d := range l.hooks(on, "") {
			hooks = append(hooks, shownHook{d.Layer, d.Hook})
		}
	}
	if a.JSON {
		out := struct {
			Digest string      `json:"digest"`
			Rules  []shownRule `json:"rules"`
			Hooks  []shownHook `json:"hooks"`
		}{Digest: l.set.Digest(), Rules: make([]shownRule, len(rules)), Hooks: append([]shownHook{}, hooks...)}
		for i, r := range rules {
			out.Rules[i] = shownRule{layerName(from[i]), r}
		}
		return a.PrintJSON(out)
	}
	p := a.Paint()
	rows := make([][]string, len(rules))
	for i, r := range rules {
		id := r.ID
		if r.Locked {
			id += " " + p.Dim("locked")
		}
		rows[i] = []string{action(a, r.Action), id, layerName(from[i]), cmp.Or(r.Tool, "*"), view.Clip(condition(r), 200)}
	}
	a.Table([]string{"ACTION", "RULE", "LAYER", "TOOL", "WHEN"}, rows)
	if len(hooks) > 0 {
		fmt.Fprintln(a.Out)
		rows = rows[:0]
		for _, h := range hooks {
			rows = append(rows, []string{h.On, h.ID, h.Layer, cmp.Or(h.Tool, "*"), view.Clip(asked(h.Hook), 200)})
		}
		a.Table([]string{"HOOK ON", "ID", "LAYER", "TOOL", "ASKED"}, rows)
	}
	fmt.Fprintf(a.Out, "\n%d rules, %d hooks, digest %s\n", len(rules), len(hooks), p.Bold(l.set.Digest()))
	return nil
}

// action colours what a rule or a verdict says.
func action(a *app.App, word string) string {
	p := a.Paint()
	switch word {
	case guard.Deny:
		return p.Red(word)
	case guard.Ask:
		return p.Yellow(word)
	}
	return p.Green(word)
}

// asked says where a hook is asked.
func asked(h events.Hook) string {
	switch {
	case len(h.Command) > 0:
		return "command " + strings.Join(h.Command, " ")
	case h.Subject != "":
		return "subject station.*.hook." + h.Subject
	}
	return "built in: " + h.Builtin
}

// condition says in one line when a rule holds.
func condition(r events.Rule) string {
	text := matched(r.Match)
	if r.Except != nil {
		text += " except " + matched(*r.Except)
	}
	return text
}

func matched(m events.Match) string {
	var parts []string
	if len(m.Argv) > 0 {
		parts = append(parts, strings.Join(m.Argv, " "))
	}
	if m.Glob != "" {
		parts = append(parts, m.Glob)
	}
	if len(m.FlagsAny) > 0 {
		parts = append(parts, "with any of "+strings.Join(m.FlagsAny, " "))
	}
	if len(m.FlagsAll) > 0 {
		parts = append(parts, "with all of "+strings.Join(m.FlagsAll, " "))
	}
	if m.RefspecForce {
		parts = append(parts, "with a +refspec")
	}
	if m.Path != "" {
		parts = append(parts, "a path like "+m.Path)
	}
	if m.PathOutside != "" {
		parts = append(parts, "a path outside of the "+m.PathOutside)
	}
	if len(parts) == 0 {
		return "every call"
	}
	return strings.Join(parts, ", ")
}
