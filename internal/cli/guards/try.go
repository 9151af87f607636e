package guards

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/guard"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/services/gatekeeper/actions"
)

// testCommand is inspan guards test.
type testCommand struct {
	App    *app.App
	layers layers
}

func testCmd(a *app.App) *cobra.Command {
	c := &testCommand{App: a}
	cmd := &cobra.Command{
		Use: "test CALL", Short: "Judge a call as the gatekeeper would, without making it",
		Long: `Judges a call by the rules in force and says which rule spoke, its layer, and the simple command that met it. CALL is a
command line for bash, or the name of a tool and its arguments as JSON. Nothing is run and no hook is asked; those that
would be asked are named. A verdict of a run may still differ: it also knows the budget and the calls made before.

Exit codes: 0 the call is allowed, 3 a person is asked, 4 it is denied, 2 the command line is wrong, 1 a file cannot be
read.`,
		Example: `  inspan guards test 'rm -rf build && git push --force'
  inspan guards test 'write {"path":"../notes.txt","content":"x"}' --agent examples/agents/fixer.prompt
  inspan guards test 'go test ./...' --json`,
		Args: app.Args(1),
		RunE: c.run,
	}
	c.layers.flags(a, cmd)
	return cmd
}

func (a *testCommand) run(_ *cobra.Command, argv []string) error {
	tool, input, err := readCall(argv[0])
	if err != nil {
		return err
	}
	if err := a.layers.load(a.App); err != nil {
		return err
	}
	return printTried(a.App, a.layers.try(tool, input))
}

// judged is what guards test found, for JSON.
type judged struct {
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

// readCall reads 'tool {json}', or a command line for bash.
func readCall(text string) (tool string, input json.RawMessage, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "{") && toolName(name) {
		if json.Valid([]byte(rest)) {
			return name, json.RawMessage(rest), nil
		}
		if strings.HasSuffix(rest, "}") && strings.Contains(rest, `"`) {
			return "", nil, app.Usage("the arguments of %s are not JSON; for a command line that looks so, write bash {\"command\":\"...\"}", name)
		}
	}
	if strings.TrimSpace(text) == "" {
		return "", nil, app.Usage("the call is empty; write a command line, or a tool and its arguments as JSON")
	}
	input, err = json.Marshal(map[string]string{"command": text})
	return "bash", input, err
}

func toolName(s string) bool {
	return s != "" && len(s) <= 128 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_:/-") == ""
}

// try judges a call as gate.Look does before it looks at the budget.
func (l *layers) try(tool string, input json.RawMessage) judged {
	out := judged{Tool: tool, Input: input, Digest: l.set.Digest()}
	action := actions.Of(tool, input)
	for _, argv := range action.Commands {
		out.Commands = append(out.Commands, readable(argv))
	}
	if l.agent != nil && !slices.Contains(l.agent.Tools, tool) {
		out.Verdict, out.Rule, out.Layer = guard.Deny, "allowed-set", "agent"
		out.Reason = fmt.Sprintf("agent %s may use %s only", l.agent.Name, cmp.Or(strings.Join(l.agent.Tools, ", "),
			"no tool"))
		return out
	}
	f := l.set.Explain(action)
	out.Verdict, out.Rule, out.Layer, out.Reason, out.Command = f.Action, f.Rule, layerName(f.Layer), f.Reason,
		readable(f.Command)
	if f.Action != guard.Deny {
		for _, d := range l.hooks(events.OnPreTool, tool) {
			out.Hooks = append(out.Hooks, d.Name())
		}
	}
	return out
}

// readable shows words of which parts are only known when they run.
func readable(argv []string) []string {
	var out []string
	for _, w := range argv {
		w = strings.ReplaceAll(w, guard.Many, "?")
		out = append(out, strings.ReplaceAll(w, guard.Unknown, "?"))
	}
	return out
}

// printTried prints what was found and returns the exit code as an error.
func printTried(a *app.App, t judged) error {
	var err error
	switch t.Verdict {
	case guard.Deny:
		err = app.Exit(app.ExitRefused, nil)
	case guard.Ask:
		err = app.Exit(app.ExitPaused, nil)
	}
	if a.JSON {
		return errors.Join(a.PrintJSON(t), err)
	}
	rule := cmp.Or(terminal.Sanitize(t.Rule), "none speaks of it")
	if t.Layer != "" {
		rule += "  " + a.Paint().Dim(t.Layer)
	}
	why := t.Reason
	if t.Verdict == guard.Ask {
		why = strings.TrimSuffix(why, ".") + "; a person is asked at a gate"
	}
	met := ""
	if t.Command != nil {
		met = quoted(t.Command)
	}
	a.Pairs([][2]string{{"Verdict", action(a, t.Verdict)}, {"Tool", terminal.Sanitize(t.Tool)}, {"Rule", rule},
		{"Why", view.Clip(why, 1000)},
		{"Met by", view.Clip(met, 1000)}, {"Hooks", strings.Join(t.Hooks, ", ")}, {"Digest", t.Digest}})
	if len(t.Commands) > 1 {
		fmt.Fprintln(a.Out, "\n"+a.Paint().Dim("Simple commands that were found:"))
		for _, c := range t.Commands {
			fmt.Fprintln(a.Out, "  "+view.Clip(quoted(c), 400))
		}
	}
	return err
}

// quoted writes words so that those with spaces can be distinguished.
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
