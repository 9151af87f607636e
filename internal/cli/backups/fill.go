package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/station"
)

// Fill restores a whole station from a backup.
func Fill(ctx context.Context, a *app.App, to *transfer.Target, f transfer.Backup) error {
	cfg := station.RestoreConfig{Dir: f.Dir, NewKeys: f.NewKeys, GoOn: f.GoOn, By: a.Me(), Now: time.Now,
		Progress: Figures(a, time.Now)}
	if f.Keys != "" {
		var err error
		if cfg.Keys, err = backup.ReadKeys(f.Keys, a.Station); err != nil {
			return err
		}
	}
	m, err := station.CheckBackup(ctx, a.Station, cfg) // before a server is started for nothing
	if err != nil {
		return restoreFault(err)
	}
	return to.Connected(ctx, a, func(ctx context.Context, as transfer.Connect) error {
		r, err := station.Restore(ctx, a.Station, as, m, cfg)
		if err != nil {
			return restoreFault(err)
		}
		return report(a, r)
	})
}

// restoreFault gives an error its exit code.
func restoreFault(err error) error {
	switch {
	case errors.Is(err, backup.ErrNoBackup):
		return app.Exit(app.ExitUnknown, err)
	case errors.Is(err, backup.ErrDamaged):
		return app.Exit(app.ExitFailed, fmt.Errorf("%w: nothing was written", err))
	case errors.Is(err, backup.ErrNotEmpty):
		return app.Exit(app.ExitRefused, err)
	case errors.Is(err, station.ErrKeys), errors.Is(err, backup.ErrOtherStation):
		return app.Usage("%w", err)
	}
	return err
}

func report(a *app.App, r station.Restored) error {
	var err error
	if a.JSON {
		err = a.PrintJSON(r)
	} else {
		fmt.Fprintf(a.Out, "Restored station %s as of %s: %s, %s, %s, %s, %s in %s\n", r.Station,
			r.Cut.Format(time.RFC3339), view.Plural(int(r.Log), "event"), view.Plural(r.Runs, "run"), //nolint:gosec // far below the limit
			view.Plural(r.Objects, "object"), view.Plural(r.Inputs, "input"), view.Bytes(r.Bytes),
			r.Took.Round(time.Millisecond))
		fmt.Fprintf(a.Out, "Every run was audited: %s with faults; %s\n", view.Plural(len(r.Faults), "run"),
			view.Plural(r.Going, "open run"))
		for _, id := range r.Unkeyed {
			fmt.Fprintf(a.Err, "run %s: a call was under way with a key that is lost; it is not made again\n", id)
		}
		for _, f := range r.Faults {
			fmt.Fprintf(a.Err, "%s: %s\n", f.Run, terminal.Sanitize(f.Why))
		}
		if r.Halted {
			fmt.Fprintf(a.Out, "The station is halted. What its runs did after %s is not in it and is done again: check it, start the services, then: inspan release\n",
				r.Cut.Format(time.RFC3339))
		}
	}
	if err == nil && len(r.Faults) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("the station is filled, with faults in %s: look with inspan audit --all",
			view.Plural(len(r.Faults), "run")))
	}
	return err
}
