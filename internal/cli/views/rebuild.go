// Package views has inspan rebuild: it makes the index, the snapshots and the archives of a station again from its log.
package views

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/audit"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/rebuild"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// rebuildCommand is inspan rebuild.
type rebuildCommand struct {
	App    *app.App
	target transfer.Target
}

// Rebuild makes inspan rebuild.
func Rebuild(a *app.App) *cobra.Command {
	c := &rebuildCommand{App: a}
	cmd := &cobra.Command{
		Use: "rebuild [RUN...]", Short: "Make the views of a station again from its log",
		Long: `Reads the log of every run, or of those named, and makes its views again: the row in the index, the snapshot, and the archive of a
run that ended. Rows that are right stay as they are; rows that are missing, wrong or damaged are written; rows of runs that the log
does not have are removed. Without a RUN, the rows of sessions are made again from their logs, too. It may run beside a station: a row that the persister writes meanwhile is never replaced by an older
one. Interrupted, it can be run again. It writes as the persister and the planner, and where the bucket of the views is gone as the
setup user: name the station's users with --users, or a stopped station of inspan up with --store.

The heads of runs are signed again with INSPAN_ANCHOR_KEY, or with the key beside the store; without a key, rows keep the anchors
that they have. A run whose log does not fold or ends before its anchor is named, and its rows stay as they are: see inspan audit.

Workspaces, agents and other settings are truth beside the log, and are not rebuilt: the output names each and why.

Exit codes: 0 all views are those of the log, 1 some are not, 2 wrong command line, 5 there is no such run.`,
		Example: "  inspan rebuild --store .inspan\n  inspan rebuild --users /etc/inspan/creds --server nats://nats:4222\n" +
			"  inspan rebuild run-k3v9x2m1qa --users /etc/inspan/creds --json",
		RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.target.Store, "store", "", "folder of a station of inspan up that does not run, instead of --server")
	f.StringVar(&c.target.Users, "users", "",
		"folder with persister.creds, planner.creds, and setup.creds where a bucket is gone, or a file of lines NATS_ROLE_PASSWORD=...; else these variables")
	return cmd
}

func (a *rebuildCommand) run(cmd *cobra.Command, runs []string) error {
	for _, id := range runs {
		if err := events.CheckID("run", id); err != nil {
			return err
		}
	}
	sign, err := signingKey(a.App, a.target.Store)
	if err != nil {
		return err
	}
	return a.target.Connected(cmd.Context(), a.App, func(ctx context.Context, as transfer.Connect) error {
		cfg, err := station.Views(ctx, a.App.Station, as)
		if err != nil {
			return denied(err)
		}
		cfg.Sign, cfg.Progress = sign, rebuildProgress(a.App, time.Now)
		return rebuildViews(ctx, a.App, cfg, runs)
	})
}

// signingKey reads the key of anchors: INSPAN_ANCHOR_KEY, else the one beside the store; nil where there is none.
func signingKey(a *app.App, store string) (ed25519.PrivateKey, error) {
	text := a.Lookup("INSPAN_ANCHOR_KEY", "")
	if text == "" && store != "" {
		b, err := os.ReadFile(filepath.Join(store, station.KeyFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the key of anchors: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	if text == "" {
		return nil, nil
	}
	key, err := audit.ParsePrivate(text)
	if err != nil {
		return nil, app.Usage("the key of anchors: %w", err)
	}
	return key, nil
}

// denied adds what to do where the user may not write the views.
func denied(err error) error {
	if errors.Is(err, kernel.ErrDenied) {
		return app.Exit(app.ExitRefused,
			fmt.Errorf("%w: name the station's users with --users, or stop inspan up and name its folder with --store", err))
	}
	return err
}

// progressEvery is how often a rebuild says how far it is.
const progressEvery = 2 * time.Second

func rebuildProgress(a *app.App, now func() time.Time) func(done, total int) {
	if a.JSON {
		return nil
	}
	next := now().Add(progressEvery)
	return func(done, total int) {
		if now().Before(next) || done == total {
			return
		}
		next = now().Add(progressEvery)
		fmt.Fprintf(a.Err, "%d of %s\n", done, view.Plural(total, "run"))
	}
}

func rebuildViews(ctx context.Context, a *app.App, cfg rebuild.Config, runs []string) error {
	rep, err := rebuild.All(ctx, cfg, runs...)
	switch {
	case errors.Is(err, kernel.ErrNotFound) && len(runs) > 0:
		return fmt.Errorf("%w: %w", client.ErrNotFound, err)
	case err != nil:
		return denied(err)
	}
	if a.JSON {
		err = a.PrintJSON(rep)
	} else {
		printRebuilt(a, rep)
	}
	if err == nil && len(rep.Faults) > 0 {
		return app.Exit(app.ExitFailed,
			fmt.Errorf("the views of %s were not rebuilt: look with inspan audit; the others are those of the log",
				view.Plural(len(rep.Faults), "run")))
	}
	return err
}

func printRebuilt(a *app.App, rep rebuild.Report) {
	var rows [][]string
	for _, v := range []struct {
		name  string
		count rebuild.Count
	}{{"index", rep.Index}, {"snapshots", rep.Snapshots}, {"sessions", rep.Sessions}, {"schedules",
		rep.Schedules}, {"work items", rep.Work}, {"addresses", rep.Agents}, {"merge queues", rep.Queues},
		{"halts", rep.Halts}, {"budgets", rep.Budgets}, {"harnesses", rep.Harnesses},
		{"workspaces", rep.Workspaces}} {
		row := []string{v.name}
		for _, o := range []rebuild.Outcome{rebuild.Same, rebuild.Made, rebuild.Corrected, rebuild.Removed} {
			row = append(row, fmt.Sprint(v.count[o]))
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(a.Out, "%s, %s read.\n", view.Plural(rep.Runs, "run"), view.Plural(int(rep.Events), "event")) //nolint:gosec // far below the limit
	a.Table([]string{"VIEW", ">RIGHT", ">MADE", ">CORRECTED", ">REMOVED"}, rows)
	if rep.Unsigned > 0 {
		fmt.Fprintf(a.Out, "%s of the index without an anchor: no signing key was given (INSPAN_ANCHOR_KEY).\n",
			view.Plural(rep.Unsigned, "row"))
	}
	for _, f := range rep.Faults {
		fmt.Fprintf(a.Err, "%s: %s\n", a.Paint().Red(f.Run), terminal.Sanitize(f.Why))
	}
	fmt.Fprintln(a.Out, "Not rebuilt:")
	for _, k := range rep.NotRebuilt {
		fmt.Fprintf(a.Out, "  %s: %s\n", k.What, k.Why)
	}
}
