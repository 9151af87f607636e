package backups

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/service"
)

// makeCommand is inspan space make.
type makeCommand struct {
	App *app.App
	age time.Duration
}

// MakeSpace makes inspan space make.
func MakeSpace(a *app.App) *cobra.Command {
	c := &makeCommand{App: a}
	cmd := &cobra.Command{
		Use: "make BACKUP DIR --ended-before AGE", Short: "Copy a backup without the events of runs that ended long ago",
		Long: `Makes room in a station whose log grows: copies BACKUP, the folder of an inspan backup, to DIR, and leaves out the events
of runs that had ended that long before the backup, each with its whole tree of children, and the objects and artifacts that
only they refer to. One event stands for each such run: inspan runs and inspan inspect still show how it ended and what it
cost, its id starts no second run, and inspan audit follows its chain. A station is then filled from DIR, and is as small as
that. Open runs, sessions, agents, work items, schedules and mail are copied as they are.

BACKUP stays as it is, and is from then on the only place that has the events that were left out: keep it as long as you must
be able to show them. inspan restore BACKUP into a store of its own shows them again. Make room while the station is halted
or stopped: what happens after the moment of the backup is in neither. It needs no station, only the two folders.`,
		Example: "  inspan halt \"make room\"\n  inspan backup /mnt/b/2026 --keys /etc/inspan/station.keys --users /etc/inspan/creds\n" +
			"  inspan space make /mnt/b/2026 /mnt/b/small --ended-before 2160h\n" +
			"  inspan restore /mnt/b/small --store NEW --keys /etc/inspan/station.keys\n" +
			"  inspan space make /mnt/b/2026 /mnt/b/small --ended-before 720h --json | jq .pruned_runs",
		Args: app.Args(2),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	cmd.Flags().DurationVar(&c.age, "ended-before", 0,
		"how long before the backup a run had ended whose events are left out, for example 2160h (90 days)")
	return cmd
}

// copyOf is a copy of a backup as the commands make it.
func copyOf(a *app.App, from, to string) backup.CopyConfig {
	return backup.CopyConfig{From: from, Dir: to, Station: a.Station, By: a.Me(), Version: service.Version(),
		Progress: Figures(a, time.Now)}
}

func (c *makeCommand) run(ctx context.Context, from, to string) error {
	if !c.App.Given("ended-before") || c.age < 0 {
		return app.Usage("--ended-before says which runs are left out, for example --ended-before 2160h for those that ended 90 days before the backup")
	}
	began := time.Now()
	done, err := backup.Prune(ctx, backup.PruneConfig{Age: c.age, CopyConfig: copyOf(c.App, from, to)})
	switch {
	case errors.Is(err, backup.ErrExists):
		return app.Usage("%w", err)
	case err != nil:
		return restoreFault(err)
	case c.App.JSON:
		return c.App.PrintJSON(done.Copy)
	}
	before, after := done.Of, done.Copy
	fmt.Fprintf(c.App.Out, "Left out %s of %s that ended before %s: %s of %s, %s of %s, in %s: %s\n",
		view.Plural(int(before.Log-after.Log), "event"), //nolint:gosec // far below the limit
		view.Plural(done.Left, "run"), before.Cut.Add(-c.age).UTC().Format(time.RFC3339),
		view.Plural(int(after.Log), "event"), view.Plural(int(before.Log), "event"), //nolint:gosec // far below the limit
		view.Bytes(after.Bytes), view.Bytes(before.Bytes), time.Since(began).Round(time.Millisecond), to)
	if done.Left == 0 {
		fmt.Fprintln(c.App.Out, "No run and its whole tree had ended by then: DIR has all that BACKUP has")
		return nil
	}
	fmt.Fprintf(c.App.Out, "Keep %s: it alone has what was left out. Fill an empty station from the copy: inspan restore %s --station %s --store NEW\n",
		filepath.Clean(from), to, after.Station)
	return nil
}
