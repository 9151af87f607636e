package merge

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
)

// Undo makes inspan undo.
func Undo(a *app.App) *cobra.Command {
	c := &mergeCommand{App: a, undo: true}
	return &cobra.Command{
		Use: "undo RUN", Short: "Take what a run changed out of the files of this directory again", Args: app.Args(1),
		Long: `Takes back what inspan merge brought: each change of the run is taken out of the files, all or none, and nothing is committed.
What you changed at other places stays. Where you changed the same places since, nothing is changed and the files are named.
Commits stay; after a merge with a commit, "git revert" is the other way.`,
		Example: "  inspan undo last\n  inspan undo run-k3v9x2m1qa --json",
		RunE:    stored(a, c.run),
	}
}

// takeOut changes the files back.
func (a *mergeCommand) takeOut(ctx context.Context, r *git.Result, m made, out report) error {
	if m.base == "" {
		return fmt.Errorf("the commit that the work of %s began at is not known: git revert takes a merge back", out.Run)
	}
	if err := r.Undo(ctx, m.base); err != nil {
		return fmt.Errorf("nothing was changed: %w\nThe work of %s was not merged here, or the files were changed at the same places since. inspan diff %s shows what the run changed",
			err, out.Run, out.Run)
	}
	if err := workcopy.NoteWork(a.OwnStore, ""); err != nil { // it is to be kept as before
		return err
	}
	out.How = "undo"
	if a.JSON {
		return a.PrintJSON(out)
	}
	fmt.Fprintf(a.Out, "%s changed back, nothing committed.\n", view.Plural(len(out.Paths), "file"))
	return nil
}
