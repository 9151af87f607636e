// Package shipped has the commands about the agents that come with the program: agent catalog, agent try.
package shipped

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/scaffold/shipped"
	"github.com/inspan/inspan/pkg/events"
)

// catalogCommand is inspan agent catalog.
type catalogCommand struct{ App *app.App }

// Catalog makes inspan agent catalog.
func Catalog(a *app.App) *cobra.Command {
	c := &catalogCommand{a}
	return &cobra.Command{
		Use:   "catalog [NAME]",
		Short: "List the agents that come with this program, with the tools that each may use",
		Long: `Lists the agents that come with this program: what each does and which tools it may use. Behind a colon stands
what of a tool is permitted: a path or a pattern, "some" or "most" where there are several, "asks" where a person is
asked but for some uses. With NAME it shows one in full: its rules by tool, its limits, what decides that it is done,
and its trial.

"inspan agent init --from NAME" copies one into a project, "inspan agent try NAME" shows it at work.`,
		Example: `  inspan agent catalog
  inspan agent catalog reviewer
  inspan agent catalog --json | jq -r '.agents[] | select(.tools | any(.tool == "bash") | not) | .name'`,
		Args:              app.ArgsBetween(0, 1),
		ValidArgsFunction: names,
		RunE:              c.run,
	}
}

// names completes the names of the agents.
func names(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return shipped.Names(), cobra.ShellCompDirectiveNoFileComp
}

// entry is an agent of the catalogue.
type entry struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Tools       []view.Permit `json:"tools"`
	MaxSteps    int           `json:"max_steps"`
	TimeoutMS   int64         `json:"timeout_ms"`
	ToolCalls   int           `json:"tool_calls"`
	Tokens      int64         `json:"tokens"`
	Autonomy    int           `json:"autonomy"`
	// Output is true where its last message is JSON with a schema.
	Output bool `json:"output"`
	// Checks of its file, and those of its trial.
	Checks []string `json:"checks"`
	Trial  trial    `json:"trial"`
	File   string   `json:"file,omitempty"`
}

type trial struct {
	Task   string   `json:"task"`
	Checks []string `json:"checks"`
}

func entryOf(a shipped.Agent) (entry, error) {
	t, err := a.Trial()
	return entry{Name: a.Name, Description: a.Description, Tools: view.Permits(a.Agent), MaxSteps: a.MaxSteps,
		TimeoutMS: a.TimeoutMS, ToolCalls: a.MaxToolCalls, Tokens: a.MaxTokens, Autonomy: a.Autonomy,
		Output: len(a.OutputSchema) > 0, Checks: checkNames(a.Accept),
		Trial: trial{Task: t.Task, Checks: checkNames(t.Accept)}}, err
}

func checkNames(a *events.Accept) []string {
	all := []string{}
	if a != nil {
		for _, c := range a.Checks {
			all = append(all, c.String())
		}
	}
	return all
}

func (c *catalogCommand) run(_ *cobra.Command, args []string) error {
	if len(args) == 1 {
		return c.one(args[0])
	}
	all, err := shipped.All()
	if err != nil {
		return err
	}
	if c.App.JSON {
		entries := []entry{}
		for _, a := range all {
			e, err := entryOf(a)
			if err != nil {
				return err
			}
			entries = append(entries, e)
		}
		return c.App.PrintJSON(map[string]any{"agents": entries})
	}
	var rows [][]string
	for _, a := range all {
		rows = append(rows, []string{a.Name, a.Description, view.PermitsText(a.Agent)})
	}
	c.App.Table([]string{"NAME", "WHAT IT DOES", "TOOLS"}, rows)
	p := c.App.Paint()
	fmt.Fprintln(c.App.Out)
	c.App.Pairs([][2]string{{"see one at work", p.Cyan("inspan agent try NAME")},
		{"take one", p.Cyan("inspan agent init --from NAME")}})
	return nil
}

// find returns an agent; one that does not ship has an exit code of its own.
func find(name string) (shipped.Agent, error) {
	a, err := shipped.Find(name)
	if errors.Is(err, shipped.ErrUnknown) {
		return a, app.Exit(app.ExitUnknown, err)
	}
	return a, err
}

func (c *catalogCommand) one(name string) error {
	a, err := find(name)
	if err != nil {
		return err
	}
	e, err := entryOf(a)
	if err != nil {
		return err
	}
	if c.App.JSON {
		e.File = string(a.File)
		return c.App.PrintJSON(e)
	}
	p := c.App.Paint()
	fmt.Fprintf(c.App.Out, "%s  %s\n\n", p.Bold(e.Name), e.Description)
	var tools [][2]string
	for _, t := range e.Tools {
		tools = append(tools, [2]string{t.Tool, rules(t)})
	}
	c.App.Pairs(tools)
	fmt.Fprintln(c.App.Out)
	c.App.Pairs([][2]string{
		{"limits", fmt.Sprintf("%d turns, %s, %d tool calls, %d tokens; autonomy %d", e.MaxSteps,
			time.Duration(e.TimeoutMS)*time.Millisecond, e.ToolCalls, e.Tokens, e.Autonomy)},
		{"done if", strings.Join(append(e.Checks, "the checks of the task pass"), ", and ")},
		{"trial", e.Trial.Task},
		{"decided by", strings.Join(e.Trial.Checks, ", ")}})
	fmt.Fprintln(c.App.Out)
	c.App.Pairs([][2]string{{"see it at work", p.Cyan("inspan agent try " + e.Name)},
		{"take it", p.Cyan("inspan agent init --from " + e.Name)}})
	return nil
}

// rules are those of a permit in words.
func rules(t view.Permit) string {
	var out []string
	for _, r := range []struct {
		word string
		of   []string
	}{{"allowed", t.Allow}, {"a person is asked", t.Ask}, {"denied", t.Deny}} {
		if len(r.of) > 0 {
			out = append(out, r.word+": "+strings.Join(r.of, ", "))
		}
	}
	if len(out) == 0 {
		return "allowed"
	}
	return strings.Join(out, "; ")
}
