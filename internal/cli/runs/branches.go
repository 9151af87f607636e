package runs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

// Branches makes inspan branches and the commands below it.
func Branches(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "branches", Short: "List and get git branches that runs left with the station",
		Long: `A run that works in git keeps its branch with the station, as a bundle: for other runs of its session or workflow, and when its
workspace is removed before its work was pushed. A scope is session/ID, workflow/ID or run/ID.`,
		Example: "  inspan branches list\n  inspan branches get run/run-k3v9x2m1qa agent/coder/run-k3v9x2m1qa",
		Args:    cobra.ArbitraryArgs, RunE: app.Group,
	}
	cmd.AddCommand(branchListCmd(a), branchGetCmd(a))
	return cmd
}

// branchListCommand is inspan branches list.
type branchListCommand struct {
	App *app.App
}

func branchListCmd(a *app.App) *cobra.Command {
	c := &branchListCommand{App: a}
	return &cobra.Command{
		Use: "list [SCOPE]", Short: "List the branches, all or those of a scope", Args: app.ArgsBetween(0, 1),
		Example: "  inspan branches list\n  inspan branches list session/demo --json | jq -r '.[].branch'",
		RunE:    a.Connected(c.run),
	}
}

func (a *branchListCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	all, err := c.Branches().List(ctx, strings.Join(argv, ""))
	if err != nil {
		return err
	}
	l := app.Listing{Heads: []string{"SCOPE", "BRANCH", "COMMIT", ">AGE", ">SIZE", "KEPT"},
		Empty: "There are no branches."}
	for _, b := range all {
		what := "whole"
		switch {
		case len(b.Parts) == 0:
			what = "at the remote"
		case b.Thin:
			what = "what is new"
		}
		l.Add(b.Branch, b, view.Clip(b.Scope, 80), view.Clip(b.Branch, 120), view.Clip(b.Commit, 12), app.Age(b.At),
			view.Bytes(b.Bytes), what)
	}
	return a.App.Print(l)
}

// branchGetCommand is inspan branches get.
type branchGetCommand struct {
	App   *app.App
	to    string
	force bool
}

func branchGetCmd(a *app.App) *cobra.Command {
	c := &branchGetCommand{App: a}
	cmd := &cobra.Command{
		Use: "get SCOPE BRANCH", Short: "Write a branch into a file that git fetch reads", Args: app.Args(2),
		Long: `Writes a git bundle. In a clone, "git fetch FILE BRANCH" brings its commits. One that has only what was new needs a clone of
the remote; a whole one can be cloned by itself.`,
		Example: "  inspan branches get workflow/w1 agent/coder/1 --to work.bundle\n  git fetch work.bundle agent/coder/1:agent/coder/1",
		RunE:    a.Connected(c.run),
	}
	cmd.Flags().StringVar(&c.to, "to", "", "file to write; the name of the branch, with dashes, where it is not given")
	cmd.Flags().BoolVar(&c.force, "force", false, "write over a file that is there")
	return cmd
}

func (a *branchGetCommand) run(ctx context.Context, c *client.Client, argv []string) error {
	if a.to == "" {
		a.to = strings.ReplaceAll(argv[1], "/", "-") + ".bundle"
	}
	return getBranch(ctx, a.App, c, argv[0], argv[1], a.to, a.force)
}

// getBranch writes the file whole or not at all.
func getBranch(ctx context.Context, a *app.App, c *client.Client, scope, name, to string, force bool) error {
	if _, err := os.Lstat(to); err == nil && !force {
		return fmt.Errorf("%s is there already: name another file with --to, or write over it with --force", to)
	}
	half := to + ".part"
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	one, err := c.Branches().Write(ctx, scope, name, f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(half, to)
	}
	if err != nil {
		_ = os.Remove(half) // it is of no use
		return err
	}
	if a.JSON {
		return a.PrintJSON(map[string]any{"file": to, "branch": one})
	}
	fmt.Fprintf(a.Out, "%s  %s\ngit fetch %s %s\n", view.Clip(to, 400), view.Bytes(one.Bytes), view.Clip(to, 400),
		view.Clip(one.Branch, 200))
	return nil
}
