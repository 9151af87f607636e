package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
)

func (a *app) branchesCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "branches", Short: "List and get git branches that runs left with the station",
		Long: `A run that works in git keeps its branch with the station, as a bundle: for other runs of its session or workflow, and when its
workspace is removed before its work was pushed. A scope is session/ID, workflow/ID or run/ID.`,
		Example: "  inspan branches list\n  inspan branches get run/run-k3v9x2m1qa agent/coder/run-k3v9x2m1qa", Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.branchesListCmd(), a.branchesGetCmd())
	return cmd
}

func (a *app) branchesListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list [SCOPE]", Short: "List the branches, all or those of a scope", Args: between(0, 1),
		Example: "  inspan branches list\n  inspan branches list session/demo --json | jq -r '.[].branch'",
		RunE: a.with(func(ctx context.Context, c *client.Client, argv []string) error {
			all, err := c.Branches(ctx, strings.Join(argv, ""))
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(all)
			}
			if len(all) == 0 {
				fmt.Fprintln(a.out, "There are no branches.")
				return nil
			}
			var rows [][]string
			for _, b := range all {
				what := "whole"
				switch {
				case len(b.Parts) == 0:
					what = "at the remote"
				case b.Thin:
					what = "what is new"
				}
				rows = append(rows, []string{view.Clip(b.Scope, 80), view.Clip(b.Branch, 120), view.Clip(b.Commit, 12), age(b.At), view.Bytes(b.Bytes), what})
			}
			a.table([]string{"SCOPE", "BRANCH", "COMMIT", ">AGE", ">SIZE", "KEPT"}, rows)
			return nil
		}),
	}
}

func (a *app) branchesGetCmd() *cobra.Command {
	var to string
	var force bool
	cmd := &cobra.Command{
		Use: "get SCOPE BRANCH", Short: "Write a branch into a file that git fetch reads", Args: args(2),
		Long: `Writes a git bundle. In a clone, "git fetch FILE BRANCH" brings its commits. One that has only what was new needs a clone of
the remote; a whole one can be cloned by itself.`,
		Example: "  inspan branches get workflow/w1 agent/coder/1 --to work.bundle\n  git fetch work.bundle agent/coder/1:agent/coder/1",
		RunE: a.with(func(ctx context.Context, c *client.Client, argv []string) error {
			if to == "" {
				to = strings.ReplaceAll(argv[1], "/", "-") + ".bundle"
			}
			return a.getBranch(ctx, c, argv[0], argv[1], to, force)
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "file to write; the name of the branch, with dashes, where it is not given")
	cmd.Flags().BoolVar(&force, "force", false, "write over a file that is there")
	return cmd
}

// getBranch writes the file whole or not at all.
func (a *app) getBranch(ctx context.Context, c *client.Client, scope, name, to string, force bool) error {
	if _, err := os.Lstat(to); err == nil && !force {
		return fmt.Errorf("%s is there already: name another file with --to, or write over it with --force", to)
	}
	half := to + ".part"
	f, err := os.OpenFile(half, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	one, err := c.Branch(ctx, scope, name, f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(half, to)
	}
	if err != nil {
		_ = os.Remove(half) // it is of no use
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"file": to, "branch": one})
	}
	fmt.Fprintf(a.out, "%s  %s\ngit fetch %s %s\n", view.Clip(to, 400), view.Bytes(one.Bytes), view.Clip(to, 400), view.Clip(one.Branch, 200))
	return nil
}
