package merge

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/sessions"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/core/view"
)

// cleanCommand is inspan clean.
type cleanCommand struct {
	App          *app.App
	older        string
	most         int
	untaken, dry bool
}

// Clean makes inspan clean.
func Clean(a *app.App) *cobra.Command {
	c := &cleanCommand{App: a}
	cmd := &cobra.Command{
		Use: "clean", Short: "Remove the stores that were kept of earlier runs on a copy", Args: app.Args(0),
		Long: `Removes the stores below $XDG_STATE_HOME/inspan/runs that inspan run kept of runs with a station of their own: those whose work was
merged, or that changed no file, and that are older than --older-than or beyond the newest --keep. Each inspan run does so with the
defaults. Work that was not merged is named and stays, unless --unmerged says otherwise; a store that is in use stays.`,
		Example: "  inspan clean --dry-run\n  inspan clean --older-than 0s\n  inspan clean --older-than 90d --unmerged",
		RunE:    c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.older, "older-than", "30d", "how old a store must be, such as 7d or 36h")
	f.IntVar(&c.most, "keep", workcopy.KeepMost, "how many of the newest stay, whatever --older-than says of more")
	f.BoolVar(&c.untaken, "unmerged", false, "also remove those that are that old and whose work was not merged")
	f.BoolVarP(&c.dry, "dry-run", "n", false, "only say what would be removed")
	return cmd
}

// cleaned is the report, for programs.
type cleaned struct {
	Removed  []workcopy.Kept `json:"removed"`
	Unmerged []workcopy.Kept `json:"unmerged"`
	DryRun   bool            `json:"dry_run"`
}

func (a *cleanCommand) run(*cobra.Command, []string) error {
	after, err := sessions.Span(a.older)
	if err != nil {
		return app.Usage("--older-than: %w", err)
	}
	if a.most < 0 {
		return app.Usage("--keep %d: want 0 or more", a.most)
	}
	all, err := workcopy.Stores()
	if err != nil {
		return err
	}
	spent, untaken := workcopy.Overdue(all, after, a.most, time.Now())
	if a.untaken {
		spent, untaken = append(spent, untaken...), nil
	}
	if !a.dry {
		spent, err = workcopy.Remove(spent)
	}
	if a.App.JSON {
		return a.App.PrintJSON(cleaned{app.OrEmpty(spent), app.OrEmpty(untaken), a.dry})
	}
	word := "removed"
	if a.dry {
		word = "would remove"
	}
	for _, k := range spent {
		fmt.Fprintf(a.App.Out, "%s  %s  %s\n", word, k.Run, terminal.Sanitize(k.Root))
	}
	for _, k := range untaken {
		fmt.Fprintf(a.App.Out, "kept, not merged  %s  %s  (%s old: inspan merge %s, or inspan clean --unmerged)\n", k.Run,
			terminal.Sanitize(k.Root), app.Age(k.At), k.Run)
	}
	fmt.Fprintf(a.App.Out, "%s of %s %s.\n", view.Plural(len(spent), "store"), view.Plural(len(all), "run"), word)
	return err
}
