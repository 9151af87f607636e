package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/agentfile"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

func (a *app) agentsCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "agents", Short: "List the agents registered on the station, or those of a folder",
		Long: `Lists the agents that are registered on the station. With --dir it reads the agent files of a folder as the station would, without
one: each sound agent with its file, what in it has no effect yet, and what is wrong with the others, with the line and the
nearest key that is known. It fails where a file is wrong, so that it can stand in a check before a commit.`,
		Example: "  inspan agents\n  inspan agents --json\n  inspan agents --dir agents", Args: args(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir != "" {
				return a.agentsIn(dir)
			}
			return a.with(func(ctx context.Context, c *client.Client, _ []string) error { return a.registered(ctx, c) })(cmd, args)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder of agent files to read")
	return cmd
}

func (a *app) registered(ctx context.Context, c *client.Client) error {
	agents, err := c.Agents(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(agents)
	}
	if len(agents) == 0 {
		fmt.Fprintln(a.out, "No agent is registered. Start the station with: inspan up --agents DIR")
		return nil
	}
	var rows [][]string
	for _, g := range agents {
		rows = append(rows, []string{g.Name, g.Model, strings.Join(g.Tools, " "), a.paint().dim(view.Clip(g.Description, 80))})
	}
	a.table([]string{"NAME", "MODEL", "TOOLS", "DESCRIPTION"}, rows)
	return nil
}

// filed is an agent and its file.
type filed struct {
	events.Agent
	File string `json:"file"`
}

// agentsIn lists the agents of a folder as a station would register them, with the defaults of the configuration.
func (a *app) agentsIn(dir string) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	found, warnings, err := cfg.AgentDefaults.LoadDir(dir)
	faults, other := faultsOf(err)
	if other != nil {
		return other
	}
	var agents []filed
	for _, name := range slices.Sorted(maps.Keys(found)) {
		agents = append(agents, filed{found[name], filepath.Join(dir, found[name].Project, found[name].Role, name+agentfile.Ext)})
	}
	if a.json {
		err = a.printJSON(map[string]any{"agents": orEmpty(agents), "warnings": orEmpty(warnings), "errors": orEmpty(faults)})
	} else {
		a.printFiles(dir, agents, warnings, faults)
	}
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("%d things are wrong with the agent files of %s", len(faults), dir)
	}
	return err
}

func (a *app) printFiles(dir string, agents []filed, warnings []agentfile.Warning, faults []*agentfile.Error) {
	p := a.paint()
	if len(agents) > 0 {
		var rows [][]string
		for _, g := range agents {
			rows = append(rows, []string{g.Name, g.Model, g.File, strings.Join(g.Tools, " ")})
		}
		a.table([]string{"NAME", "MODEL", "FILE", "TOOLS"}, rows)
	} else if len(faults) == 0 {
		fmt.Fprintf(a.out, "There is no agent file in %s. Make one with: inspan agent init NAME --dir %s\n", dir, dir)
	}
	for _, w := range warnings {
		fmt.Fprintf(a.err, "%s  %s\n", p.yellow("note "), harmless(w.String()))
	}
	for _, f := range faults {
		fmt.Fprintf(a.err, "%s  %s\n", p.red("wrong"), harmless(f.Error()))
	}
}

// faultsOf takes a joined error apart into what is wrong with files and what is not about them.
func faultsOf(err error) (faults []*agentfile.Error, other error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart
		for _, one := range joined.Unwrap() {
			more, rest := faultsOf(one)
			faults, other = append(faults, more...), errors.Join(other, rest)
		}
		return faults, other
	}
	if f, ok := errors.AsType[*agentfile.Error](err); ok {
		return []*agentfile.Error{f}, nil
	}
	return nil, err
}
