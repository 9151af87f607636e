package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/client"
)

// diffCommand is inspan diff.
type diffCommand struct {
	App  *app.App
	stat bool
	step string
}

// Diff makes inspan diff.
func Diff(a *app.App) *cobra.Command {
	c := &diffCommand{App: a}
	cmd := &cobra.Command{
		Use: "diff RUN", Short: "Show what a run changed in its copy of the repository", Args: app.Args(1),
		Long: `Prints what a run changed since it began, in the form that git apply reads: what was not committed when it began is not in it.
Nothing is fetched into the repository of this directory, and nothing is changed.

With --step it prints what the calls of edit, write and apply_patch of one step changed, from the events of the run, whether it has ended or
not. What commands changed is in no event: the calls that may have changed more are named.`,
		Example: "  inspan diff run-k3v9x2m1qa\n  inspan diff run-k3v9x2m1qa --step build\n  inspan diff run-k3v9x2m1qa --stat\n  inspan diff run-k3v9x2m1qa --json | jq -r '.paths[]'",
		RunE:    inPlace(a, c.ofPlaces, stored(a, c.run)),
	}
	cmd.Flags().StringVar(&c.step, "step", "",
		"only what the calls of this step changed: its name, or its number in the plan")
	cmd.Flags().BoolVar(&c.stat, "stat", false, "only the names of the files, and how much of each changed")
	return cmd
}

func (a *diffCommand) run(ctx context.Context, c *client.Client, args []string) (err error) {
	if a.step != "" {
		return a.ofStep(ctx, c, args[0])
	}
	m, err := find(ctx, a.App, c, args[0])
	if errors.Is(err, git.ErrNothing) && !a.App.JSON {
		return nil
	}
	if err != nil {
		return err
	}
	if m.base == "" {
		return fmt.Errorf("the commit that the work of %s began at is not known: inspan merge %s --into BRANCH brings it",
			args[0], args[0])
	}
	_, r, b, err := open(ctx, c, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return a.show(ctx, r, report{Run: args[0], Branch: b.Branch, Commit: b.Commit, Base: m.base})
}

// show prints what was changed since the base of a report.
func (a *diffCommand) show(ctx context.Context, r *git.Result, out report) error {
	var text bytes.Buffer
	if err := r.Diff(ctx, out.Base, a.stat, &text); err != nil {
		return err
	}
	if a.App.JSON {
		paths, err := r.Paths(ctx, out.Base)
		if err != nil {
			return err
		}
		out.Paths, out.Diff = app.OrEmpty(paths), text.String()
		return a.App.PrintJSON(out)
	}
	if !a.App.Term.TTY {
		_, err := a.App.Out.Write(text.Bytes())
		return err
	}
	a.print(text.String())
	return nil
}

// print prints a diff on a terminal, without what a terminal acts on: an agent wrote it.
func (a *diffCommand) print(diff string) {
	for _, l := range terminal.Diff(diff, a.App.Paint(), len(diff)+1) {
		fmt.Fprintln(a.App.Out, l)
	}
}
