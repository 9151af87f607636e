// Package trusted has inspan trust: what a person accepted of directories that contribute to a station of this process.
package trusted

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/trust"
	"github.com/inspan/inspan/pkg/client"
)

// trustCommand is inspan trust.
type trustCommand struct {
	App    *app.App
	list   bool
	revoke string
}

// Command makes inspan trust.
func Command(a *app.App) *cobra.Command {
	c := &trustCommand{App: a}
	cmd := &cobra.Command{
		Use: "trust [DIR]", Short: "Accept the agents and scripts of a directory, or take that back",
		Long: `Shows what a directory contributes to a station that run, repl or up starts there, and accepts it as it is now: the folders
agents and scripts (or examples/agents, examples/scripts, or those that .inspan/config.yaml names), formulas, schedules, .inspan/config.yaml itself,
and a store .inspan that was not made here. It lists what they would run and reach: models, tools, hooks, MCP servers, isolation, network.
At a terminal it asks first.

Without this, those commands ask at a terminal, and refuse anywhere else. What is accepted is the content: after a change it is
asked about again, with what is different. A station uses a copy of what was accepted, whatever happens to the files after its start.
Folders that a person names, with a flag, a variable or in ~/.config/inspan/config.yaml, are that person's own act and are not asked about.`,
		Example: "  inspan trust\n  inspan trust ../other\n  inspan trust --list\n  inspan trust --revoke ../other",
		Args:    app.ArgsBetween(0, 1),
		RunE:    c.run,
	}
	cmd.Flags().BoolVar(&c.list, "list", false, "list what was accepted")
	cmd.Flags().StringVar(&c.revoke, "revoke", "", "take back what was accepted of this directory and of those below it")
	cmd.MarkFlagsMutuallyExclusive("list", "revoke")
	return cmd
}

func (a *trustCommand) run(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && (a.list || a.revoke != ""):
		return app.Usage("--list and --revoke take no DIR")
	case a.list:
		return a.printList()
	case a.revoke != "":
		return a.takeBack()
	case len(args) > 0:
		if err := os.Chdir(args[0]); err != nil {
			return app.Usage("%w", err)
		}
		if a.App.Layers, a.App.BadFiles = service.Discover(); a.App.BadFiles != nil {
			return app.Usage("%w", a.App.BadFiles)
		}
	}
	return a.accept(cmd.Context())
}

// row is one acceptance, for programs.
type row struct {
	Kind   string   `json:"kind"`
	Path   string   `json:"path"`
	Digest string   `json:"digest"`
	State  string   `json:"state,omitempty"`
	Runs   []string `json:"runs"`
}

// accept accepts what the working directory contributes.
func (a *trustCommand) accept(ctx context.Context) error {
	l := app.OwnStation{Store: a.App.Folder, Commands: app.ProjectCommands, Formulas: app.ProjectFormulas,
		Schedules: app.ProjectSchedules, Agents: a.App.Lookup("INSPAN_AGENTS", ""), Scripts: a.App.Lookup("INSPAN_SCRIPTS", "")}
	l.Guess()
	if err := l.Check(); err != nil {
		return err
	}
	all, record, err := a.App.Acceptance().Contributions(&l)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(c app.Contribution) bool { return !c.New })
	if len(fresh) == 0 && !a.App.JSON {
		what := "This directory contributes nothing."
		if len(all) > 0 {
			what = "All that this directory contributes was accepted already."
		}
		fmt.Fprintln(a.App.Out, what)
		return nil
	}
	if a.App.CanAsk() {
		if yes, err := a.App.Acceptance().Ask(ctx, fresh); err != nil || !yes {
			return errors.Join(err, app.Exit(app.ExitRefused, app.ErrNotTrusted))
		}
	}
	if len(fresh) > 0 {
		if err := app.Record(record, fresh); err != nil {
			return err
		}
	}
	if a.App.JSON {
		rows := []row{}
		for _, c := range fresh {
			rows = append(rows, row{Kind: c.Kind, Path: c.Path, Digest: c.Digest(), Runs: app.OrEmpty(c.Runs)})
		}
		return a.App.PrintJSON(rows)
	}
	if !a.App.CanAsk() {
		for _, line := range app.TrustLines(fresh) {
			fmt.Fprintln(a.App.Out, line)
		}
	}
	fmt.Fprintln(a.App.Out, "Accepted.")
	return nil
}

// printList lists what was accepted.
func (a *trustCommand) printList() error {
	record, err := trust.Open()
	if err != nil {
		return err
	}
	accepted, err := record.All()
	if err != nil {
		return err
	}
	rows := []row{}
	for _, at := range slices.Sorted(maps.Keys(accepted)) {
		e := accepted[at]
		rows = append(rows, row{Kind: e.Kind, Path: at, Digest: e.Digest, State: state(at, e), Runs: app.OrEmpty(e.Runs)})
	}
	if a.App.JSON {
		return a.App.PrintJSON(rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.App.Out, "Nothing was accepted yet.")
	}
	for _, r := range rows {
		fmt.Fprintf(a.App.Out, "%-8s  %-12s  %s\n", r.Kind, r.State, terminal.Sanitize(r.Path))
	}
	return nil
}

// state compares what was accepted with what is there.
func state(at string, e trust.Accepted) string {
	p, err := trust.Read(e.Kind, at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "gone"
	case err != nil || p.Digest() != e.Digest:
		return "changed"
	}
	return "as accepted"
}

func (a *trustCommand) takeBack() error {
	record, err := trust.Open()
	if err != nil {
		return err
	}
	removed, err := record.Revoke(a.revoke)
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return app.Exit(app.ExitUnknown,
			fmt.Errorf("nothing was accepted of %s: %w (inspan trust --list)", a.revoke, client.ErrNotFound))
	}
	if a.App.JSON {
		return a.App.PrintJSON(removed)
	}
	for _, at := range removed {
		fmt.Fprintf(a.App.Out, "not accepted any more: %s\n", terminal.Sanitize(at))
	}
	return nil
}
