package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/hook"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gatekeeper"
)

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

func (l *layers) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.agentPath, "agent", "", "agent file whose rules and hooks stand above the others")
	cmd.Flags().StringVar(&l.policyPath, "policy", a.set("INSPAN_POLICY", ""), "policy file of the station (INSPAN_POLICY)")
}

// load reads the layers as the services do.
func (l *layers) load(a *app) error {
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
		if strings.HasPrefix(w.Path, "guards") || strings.HasPrefix(w.Path, "permissions") || strings.HasPrefix(w.Path, "hooks") || strings.HasPrefix(w.Path, "rules") {
			fmt.Fprintln(a.err, harmless(w.String()))
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

func (a *app) guardsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "guards", Short: "Look at the guard rules, and try them on a call",
		Long: `Guard rules judge every tool call before it runs: allow, ask (a person is asked at a gate) or deny. They come in layers:
those that are built in, those of the station's policy file (INSPAN_POLICY), those of the agent file. Among the rules that
match, deny wins over ask and ask over allow, then the later layer. These commands need no station.`,
		Example: "  inspan guards show --agent examples/agents/fixer.prompt\n  inspan guards test 'git push --force origin main'",
		Args:    cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.guardsShowCmd(), a.guardsTestCmd())
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

func (a *app) guardsShowCmd() *cobra.Command {
	var l layers
	var raw bool
	cmd := &cobra.Command{
		Use: "show", Short: "Show the rules and hooks in force, each with the layer it came from",
		Long: `Shows every rule in force with the layer it came from, the hooks in the order they are asked, and the digest that the
verdicts of a run name. With --bytes it prints the rule set in canonical form and nothing else: the same program and the
same files give the same bytes, so that what was changed is found by comparing.`,
		Example: "  inspan guards show\n  inspan guards show --agent examples/agents/fixer.prompt --json\n  inspan guards show --bytes | sha256sum",
		Args:    args(0),
		RunE: func(*cobra.Command, []string) error {
			if err := l.load(a); err != nil {
				return err
			}
			if raw {
				b, err := l.set.Bytes()
				if err != nil {
					return err
				}
				_, err = a.out.Write(b)
				return err
			}
			return a.showGuards(l)
		},
	}
	l.flags(a, cmd)
	cmd.Flags().BoolVar(&raw, "bytes", false, "print the rule set in canonical form; its SHA-256 is the digest")
	return cmd
}

func (a *app) showGuards(l layers) error {
	rules, from := l.set.Rules(), l.set.Layers()
	var hooks []shownHook
	for _, on := range []string{events.OnRunStart, events.OnTurn, events.OnPreTool, events.OnPostTool, events.OnRunStop} {
		for _, d := range l.hooks(on, "") {
			hooks = append(hooks, shownHook{d.Layer, d.Hook})
		}
	}
	if a.json {
		out := struct {
			Digest string      `json:"digest"`
			Rules  []shownRule `json:"rules"`
			Hooks  []shownHook `json:"hooks"`
		}{Digest: l.set.Digest(), Rules: make([]shownRule, len(rules)), Hooks: append([]shownHook{}, hooks...)}
		for i, r := range rules {
			out.Rules[i] = shownRule{layerName(from[i]), r}
		}
		return a.printJSON(out)
	}
	p := a.paint()
	rows := make([][]string, len(rules))
	for i, r := range rules {
		id := r.ID
		if r.Locked {
			id += " " + p.dim("locked")
		}
		rows[i] = []string{a.action(r.Action), id, layerName(from[i]), cmp.Or(r.Tool, "*"), view.Clip(condition(r), 200)}
	}
	a.table([]string{"ACTION", "RULE", "LAYER", "TOOL", "WHEN"}, rows)
	if len(hooks) > 0 {
		fmt.Fprintln(a.out)
		rows = rows[:0]
		for _, h := range hooks {
			rows = append(rows, []string{h.On, h.ID, h.Layer, cmp.Or(h.Tool, "*"), view.Clip(asked(h.Hook), 200)})
		}
		a.table([]string{"HOOK ON", "ID", "LAYER", "TOOL", "ASKED"}, rows)
	}
	fmt.Fprintf(a.out, "\n%d rules, %d hooks, digest %s\n", len(rules), len(hooks), p.bold(l.set.Digest()))
	return nil
}

// action colours what a rule or a verdict says.
func (a *app) action(word string) string {
	p := a.paint()
	switch word {
	case guard.Deny:
		return p.red(word)
	case guard.Ask:
		return p.yellow(word)
	}
	return p.green(word)
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

// tried is what guards test found, for JSON.
type tried struct {
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	Verdict string          `json:"verdict"`
	Rule    string          `json:"rule,omitempty"`
	Layer   string          `json:"layer,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	// Command is the simple command that met the rule, with ? for what is only known when it runs.
	Command []string `json:"command,omitempty"`
	// Commands are all simple commands that were found in a shell text.
	Commands [][]string `json:"commands,omitempty"`
	Digest   string     `json:"rules_digest"`
	// Hooks would be asked before the call may begin.
	Hooks []string `json:"hooks,omitempty"`
}

func (a *app) guardsTestCmd() *cobra.Command {
	var l layers
	cmd := &cobra.Command{
		Use: "test CALL", Short: "Judge a call as the gatekeeper would, without making it",
		Long: `Judges a call by the rules in force and says which rule spoke, its layer, and the simple command that met it. CALL is a
command line for bash, or the name of a tool and its arguments as JSON. Nothing is run and no hook is asked; those that
would be asked are named. A verdict of a run may still differ: it also knows the budget and the calls made before.

Exit codes: 0 the call is allowed, 3 a person is asked, 4 it is denied, 2 the command line is wrong, 1 a file can not be
read.`,
		Example: `  inspan guards test 'rm -rf build && git push --force'
  inspan guards test 'write {"path":"../notes.txt","content":"x"}' --agent examples/agents/fixer.prompt
  inspan guards test 'go test ./...' --json`,
		Args: args(1),
		RunE: func(_ *cobra.Command, argv []string) error {
			tool, input, err := readCall(argv[0])
			if err != nil {
				return err
			}
			if err := l.load(a); err != nil {
				return err
			}
			return a.tell(l.try(tool, input))
		},
	}
	l.flags(a, cmd)
	return cmd
}

// readCall reads 'tool {json}', or a command line for bash.
func readCall(text string) (tool string, input json.RawMessage, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "{") && toolName(name) {
		if json.Valid([]byte(rest)) {
			return name, json.RawMessage(rest), nil
		}
		if strings.HasSuffix(rest, "}") && strings.Contains(rest, `"`) {
			return "", nil, usage("the arguments of %s are not JSON; for a command line that looks so, write bash {\"command\":\"...\"}", name)
		}
	}
	if strings.TrimSpace(text) == "" {
		return "", nil, usage("the call is empty; write a command line, or a tool and its arguments as JSON")
	}
	input, err = json.Marshal(map[string]string{"command": text})
	return "bash", input, err
}

func toolName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_:/-") == ""
}

// try judges a call as gate.Look does before it looks at the budget.
func (l *layers) try(tool string, input json.RawMessage) tried {
	out := tried{Tool: tool, Input: input, Digest: l.set.Digest()}
	action := gatekeeper.Action(tool, input)
	for _, argv := range action.Commands {
		out.Commands = append(out.Commands, known(argv))
	}
	if l.agent != nil && !slices.Contains(l.agent.Tools, tool) {
		out.Verdict, out.Rule, out.Layer = guard.Deny, "allowed-set", "agent"
		out.Reason = fmt.Sprintf("agent %s may use %s only", l.agent.Name, cmp.Or(strings.Join(l.agent.Tools, ", "), "no tool"))
		return out
	}
	f := l.set.Explain(action)
	out.Verdict, out.Rule, out.Layer, out.Reason, out.Command = f.Action, f.Rule, layerName(f.Layer), f.Reason, known(f.Command)
	if f.Action != guard.Deny {
		for _, d := range l.hooks(events.OnPreTool, tool) {
			out.Hooks = append(out.Hooks, d.Name())
		}
	}
	return out
}

// known shows words of which parts are only known when they run.
func known(argv []string) []string {
	var out []string
	for _, w := range argv {
		w = strings.ReplaceAll(w, guard.Many, "?")
		out = append(out, strings.ReplaceAll(w, guard.Unknown, "?"))
	}
	return out
}

// tell prints what was found and returns the exit code as an error.
func (a *app) tell(t tried) error {
	var err error
	switch t.Verdict {
	case guard.Deny:
		err = exitWith(exitRefused, nil)
	case guard.Ask:
		err = exitWith(exitPaused, nil)
	}
	if a.json {
		return errors.Join(a.printJSON(t), err)
	}
	rule := cmp.Or(harmless(t.Rule), "none speaks of it")
	if t.Layer != "" {
		rule += "  " + a.paint().dim(t.Layer)
	}
	why := t.Reason
	if t.Verdict == guard.Ask {
		why = strings.TrimSuffix(why, ".") + "; a person is asked at a gate"
	}
	met := ""
	if t.Command != nil {
		met = quoted(t.Command)
	}
	a.pairs([][2]string{{"Verdict", a.action(t.Verdict)}, {"Tool", harmless(t.Tool)}, {"Rule", rule}, {"Why", view.Clip(why, 1000)},
		{"Met by", view.Clip(met, 1000)}, {"Hooks", strings.Join(t.Hooks, ", ")}, {"Digest", t.Digest}})
	if len(t.Commands) > 1 {
		fmt.Fprintln(a.out, "\n"+a.paint().dim("Simple commands that were found:"))
		for _, c := range t.Commands {
			fmt.Fprintln(a.out, "  "+view.Clip(quoted(c), 400))
		}
	}
	return err
}

// quoted writes words so that those with spaces can be told apart.
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n'\"") {
			words[i] = fmt.Sprintf("%q", w)
		}
	}
	return strings.Join(words, " ")
}
