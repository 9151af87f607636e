package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/archive"
	"github.com/inspan/inspan/internal/archive/at"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
)

// Backup is what a whole station is filled from.
type Backup struct {
	Dir string
	// Keys is a file; NewKeys does without it. GoOn does not halt the station.
	Keys          string
	NewKeys, GoOn bool
}

// Filler fills a station from a backup.
type Filler func(ctx context.Context, a *app.App, to *Target, b Backup) error

// restoreCommand is inspan restore.
type restoreCommand struct {
	App    *app.App
	from   []string
	list   bool
	target Target
	// backup is what a whole station is filled from, and fill does it.
	backup Backup
	fill   Filler
}

// Restore makes inspan restore. fill is for whole stations.
func Restore(a *app.App, fill Filler) *cobra.Command {
	c := &restoreCommand{App: a, fill: fill}
	cmd := &cobra.Command{
		Use: "restore DIR | --from ARCHIVE [RUN...]", Short: "Fill an empty station from a backup, or bring runs back from an archive",
		Long: `With DIR, the folder of an inspan backup: reads all of it and compares every digest before anything is written, fills an
empty station of the same name, makes its views, and audits every run. A station that has other events is refused.
Interrupted, it is done again; start no service before it is done. The station is then halted: what its runs did after the
moment of the backup is not in it, and would be done again. Look first, then inspan release; --go-on does without. It
writes as the user upgrade: on a server with users see the runbook.

With --from, the folder or bucket that INSPAN_ARCHIVE names: writes the events of archived runs back, byte for byte and through the same guarded appends as any event, after every
one was checked; before them objects, artifacts, published branches and the files of workspaces that follow their runs,
and the agents. Open runs go on: a gate waits for its answer, a call that was deferred is tried again. A run that exists
with other events is left alone and named. Interrupted, it can be done again. --list shows what is in an archive and what
is not, and changes nothing. Messages that no service had taken yet, dead letters, sessions, and files that are on the
machine of a toolrunner alone (INSPAN_WORKSPACE_MODE=local or shared) are in no archive.`,
		Example: "  inspan restore /var/backups/inspan/monday --store .inspan --keys /etc/inspan/station.keys\n  inspan restore /var/backups/inspan/monday --users /etc/inspan/creds --json\n  inspan restore --from /var/backups/inspan --list\n  inspan restore --from /var/backups/inspan --store .inspan\n  inspan restore --from /mnt/a --from /mnt/b --users /etc/inspan/creds --same-key\n  inspan restore --from bucket run-k3v9x2m1qa",
		RunE:    c.run,
	}
	cmd.Flags().StringArrayVar(&c.from, "from", nil,
		"folder of the archive, or s3://BUCKET/PREFIX; given again, what is longer counts; \"bucket\" is what the station's own object store has of ended runs")
	cmd.Flags().BoolVar(&c.list, "list", false, "show what is in the archive and what is not, and restore nothing")
	cmd.Flags().StringVar(&c.backup.Keys, "keys", "", "with DIR: file that inspan backup --keys wrote")
	cmd.Flags().BoolVar(&c.backup.NewKeys, "new-keys", false,
		"with DIR: do without the keys; idempotent calls that had started are not made again, and messages that come once more may start a second run")
	cmd.Flags().BoolVar(&c.backup.GoOn, "go-on", false, "with DIR: do not halt the restored station")
	c.target.flags(cmd)
	return cmd
}

func (a *restoreCommand) run(cmd *cobra.Command, runs []string) error {
	switch {
	case len(a.from) == 0 && len(runs) == 1:
		a.backup.Dir = runs[0]
		return a.fill(cmd.Context(), a.App, &a.target, a.backup)
	case len(a.from) == 0:
		return app.Usage("inspan restore wants DIR, the folder of a backup, or --from DIR, the folder or bucket that INSPAN_ARCHIVE named")
	case a.backup != Backup{}:
		return app.Usage("--keys, --new-keys and --go-on go with inspan restore DIR, without --from")
	}
	if a.list {
		return listArchives(cmd.Context(), a.App, a.from, runs)
	}
	return a.target.open(cmd.Context(), a.App, func(to *archive.Restorer, how archive.How) error {
		return restoreRuns(cmd.Context(), a.App, to, a.from, runs, how)
	})
}

// failedRun is a run that was not brought.
type failedRun struct {
	Run string `json:"run"`
	Why string `json:"why"`
}

func restoreRuns(ctx context.Context, a *app.App, to *archive.Restorer, from, only []string, how archive.How) error {
	var done []archive.Brought
	var failed []failedRun
	var all []archive.Source
	for _, dir := range from {
		src, err := source(ctx, to, dir)
		if err != nil {
			return err
		}
		all = append(all, src)
	}
	src := archive.Join(all...)
	if _, err := to.Agents(ctx, src, a.Station); err != nil {
		return err
	}
	runs, err := src.Runs(ctx)
	if err != nil {
		return err
	}
	for _, m := range runs {
		if m.Station != a.Station || len(only) > 0 && !slices.Contains(only, m.Run) {
			continue
		}
		b, err := to.Bring(ctx, src, m, how)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, failedRun{m.Run, err.Error()})
			continue
		}
		done = append(done, b)
	}
	return printRestored(a, done, failed)
}

func source(ctx context.Context, to *archive.Restorer, dir string) (archive.Source, error) {
	if dir == "bucket" {
		return to.Bucket(), nil
	}
	d, err := at.Open(ctx, dir)
	if errors.Is(err, archive.ErrNone) {
		return nil, app.Exit(app.ExitUnknown, fmt.Errorf("--from %s: %w", dir, err))
	}
	return d, err
}

// printRestored prints what was done; one run that was not is exit code 1.
func printRestored(a *app.App, done []archive.Brought, failed []failedRun) error {
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"brought": app.OrEmpty(done), "failed": app.OrEmpty(failed)}); err != nil {
			return err
		}
	} else {
		p, rows := a.Paint(), [][]string{}
		for _, b := range done {
			rows = append(rows, []string{b.Run, p.State(string(b.Status)), fmt.Sprint(b.Events), fmt.Sprint(b.Copied),
				fmt.Sprint(b.Objects), filesOf(b), fmt.Sprint(b.Artifacts), b.From})
			if b.Missing > 0 {
				fmt.Fprintf(a.Err, "run %s: %s were not in the archive either\n", b.Run, view.Plural(b.Missing, "object"))
			}
			reportFiles(a, b)
		}
		a.Table([]string{"RUN", "STATUS", ">EVENTS", ">NEW", ">OBJECTS", "FILES", ">ARTIFACTS", "FROM STATION"}, rows)
		for _, f := range failed {
			fmt.Fprintf(a.Err, "%s: %s\n", p.Red(f.Run), terminal.Sanitize(f.Why))
		}
	}
	if len(failed) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("%s not restored; the others are", view.Plural(len(failed), "run")))
	}
	return nil
}
