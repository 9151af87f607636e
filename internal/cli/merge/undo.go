package merge

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
)

// Undo makes inspan undo.
func Undo(a *app.App) *cobra.Command {
	c := &mergeCommand{App: a, undo: true}
	cmd := &cobra.Command{
		Use: "undo RUN", Short: "Take what a run changed out of the files of this directory again", Args: app.Args(1),
		Long: `Takes back what inspan merge brought: each change of the run is taken out of the files, and nothing is committed. What you changed at
other places stays. Where you changed the same places since, nothing is changed and the files are named; --force makes those what they
were before the run, and what you changed in them is lost.
A run that worked in the directory itself (--in-place) is taken back in the same way, and a session with all of its runs that were not
taken back yet. Files that git ignored when it began, and those whose names say that they hold secrets, stay as they are.
Files that are as before the run already are left alone: an undo that was broken off is finished by another one.
Commits stay; after a merge with a commit, "git revert" is the other way.`,
		Example: "  inspan undo last\n  inspan undo run-k3v9x2m1qa --force\n  inspan undo run-k3v9x2m1qa --json | jq -r '.undone.back[]'",
		RunE:    inPlace(a, c.takeBack, stored(a, c.run)),
	}
	cmd.Flags().BoolVar(&c.force, "force", false,
		"also change back files that you changed at the same places: those changes are lost")
	return cmd
}

// takeOut changes the files back.
func (a *mergeCommand) takeOut(ctx context.Context, r *git.Result, m made, out report) error {
	if m.base == "" {
		return fmt.Errorf("the commit that the work of %s began at is not known: git revert takes a merge back", out.Run)
	}
	u, err := r.Undo(ctx, m.base, a.force)
	if errors.Is(err, git.ErrConflict) {
		next := fmt.Sprintf("inspan undo %s --force makes them what they were before the run", out.Run)
		if a.force {
			next = "move away what is in their place, and do it again"
		}
		return fmt.Errorf("nothing was changed: %w\nThe work of %s was not merged here, or you changed these files since. inspan diff %s shows what the run changed; %s",
			err, out.Run, out.Run, next)
	}
	if err != nil {
		return err
	}
	if err := workcopy.NoteWork(a.App.OwnStore, ""); err != nil { // it is to be kept as before
		return err
	}
	out.How = "undo"
	if a.App.JSON {
		out.Undone = &git.Undone{Back: app.OrEmpty(u.Back), Overwritten: app.OrEmpty(u.Overwritten),
			Already: app.OrEmpty(u.Already)}
		return a.App.PrintJSON(out)
	}
	for _, p := range u.Overwritten {
		fmt.Fprintf(a.App.Out, "overwritten  %s\n", terminal.Sanitize(p))
	}
	already := ""
	if n := len(u.Already); n > 0 {
		already = fmt.Sprintf(" %s as before the run already.", view.Plural(n, "file"))
	}
	fmt.Fprintf(a.App.Out, "%s changed back, nothing committed.%s\n", view.Plural(len(u.Back), "file"), already)
	return nil
}
