// Package agents has the commands about agents and their tools: agents, agent init, agent import, tools.
package agents

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// listCommand is inspan agents.
type listCommand struct {
	App   *app.App
	dir   string
	watch bool
}

// List makes inspan agents.
func List(a *app.App) *cobra.Command {
	c := &listCommand{App: a}
	cmd := &cobra.Command{
		Use: "agents", Short: "List the agents registered on the station, or those of a folder",
		Long: `Lists the agents that are registered on the station. With --dir it reads the agent files of a folder as the station would, without
one: each sound agent with its file, what in it has no effect yet, and what is wrong with the others, with the line and the
nearest key that is known. It fails where a file is wrong, so that it can stand in a check before a commit.`,
		Example: "  inspan agents\n  inspan agents --json\n  inspan agents --dir agents", Args: app.Args(0),
		RunE: c.run,
	}
	cmd.Flags().StringVar(&c.dir, "dir", "", "folder of agent files to read")
	app.WatchFlag(cmd, &c.watch)
	return cmd
}

func (a *listCommand) run(cmd *cobra.Command, args []string) error {
	if a.dir != "" && (a.watch || a.App.Form == app.FormWide || a.App.Form == app.FormName) {
		return app.Usage("--dir reads files: --watch, -o wide and -o name are for the agents of a station")
	}
	if a.dir != "" {
		return listFolder(a.App, a.dir)
	}
	return a.App.Connected(func(ctx context.Context, c *client.Client, _ []string) error {
		return listRegistered(ctx, a.App, c, a.watch)
	})(cmd, args)
}

func listRegistered(ctx context.Context, a *app.App, c *client.Client, watch bool) error {
	return a.List(ctx, watch, func(ctx context.Context) (app.Listing, error) {
		l := app.Listing{Heads: []string{"NAME", "MODEL", "+SANDBOX", "+>STEPS", "+DIGEST", "TOOLS", "DESCRIPTION"},
			Empty: "No agent is registered. Start the station with: inspan up --agents DIR"}
		agents, err := c.Agents(ctx)
		for _, g := range agents {
			l.Add(g.Name, g, g.Name, g.Model, cmp.Or(g.Sandbox.Mode, "auto"), fmt.Sprint(g.MaxSteps),
				view.Clip(g.Digest, 12), view.PermitsText(g), a.Paint().Dim(view.Clip(g.Description, 80)))
		}
		return l, err
	})
}

// agentInFile is an agent and its file.
type agentInFile struct {
	events.Agent
	File string `json:"file"`
}

// listFolder lists the agents of a folder as a station would register them, with the defaults of the configuration.
func listFolder(a *app.App, dir string) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	found, warnings, err := cfg.AgentDefaults.LoadDir(dir)
	faults, other := agentfile.Faults(err)
	if other != nil {
		return other
	}
	var agents []agentInFile
	for _, name := range slices.Sorted(maps.Keys(found)) {
		agents = append(agents, agentInFile{found[name], filepath.Join(dir, found[name].Project, found[name].Role,
			name+agentfile.Ext)})
	}
	if a.JSON {
		err = a.PrintJSON(map[string]any{"agents": app.OrEmpty(agents), "warnings": app.OrEmpty(warnings),
			"errors": app.OrEmpty(faults)})
	} else {
		printFiles(a, dir, agents, warnings, faults)
	}
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%d things are wrong with the agent files of %s", len(faults), dir)
	}
	return err
}

func printFiles(a *app.App, dir string, agents []agentInFile, warnings []agentfile.Warning, faults []*agentfile.Error) {
	p := a.Paint()
	if len(agents) > 0 {
		var rows [][]string
		for _, g := range agents {
			rows = append(rows, []string{g.Name, g.Model, g.File, view.PermitsText(g.Agent)})
		}
		a.Table([]string{"NAME", "MODEL", "FILE", "TOOLS"}, rows)
	} else if len(faults) == 0 {
		fmt.Fprintf(a.Out, "There is no agent file in %s. Make one with: inspan agent init NAME --dir %s\n", dir, dir)
	}
	for _, w := range warnings {
		fmt.Fprintf(a.Err, "%s  %s\n", p.Yellow("note "), terminal.Sanitize(w.String()))
	}
	for _, f := range faults {
		fmt.Fprintf(a.Err, "%s  %s\n", p.Red("wrong"), terminal.Sanitize(f.Error()))
	}
}
