// Package backups copies whole stations into folders, and fills empty stations from them.
package backups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
)

// backupCommand is inspan backup.
type backupCommand struct {
	App    *app.App
	target transfer.Target
	keys   string
}

// Backup makes inspan backup.
func Backup(a *app.App) *cobra.Command {
	c := &backupCommand{App: a}
	cmd := &cobra.Command{
		Use: "backup DIR", Short: "Copy the whole station into a folder, while it runs",
		Long: `Copies one point of the station: all events up to it, tasks and answers that no service has judged, timers, agents and
settings, objects and artifacts. The station goes on meanwhile. inspan restore DIR fills an empty station of the same name
from it, where the runs go on. The manifest is written last: a folder without one is no backup, and the next inspan backup
of the same folder begins again, but keeps the objects that are there.

Not in it: keys that the station made for itself, which --keys writes to a file of their own; keys and passwords of the
environment; the key of anchors and the list of users beside the store; workspaces of one machine; dead letters. It needs
the right backup, with --keys also the setup user. The figures go to standard error as they grow.`,
		Example: "  inspan backup /var/backups/inspan/monday\n  inspan backup /var/backups/inspan/monday --json | jq .bytes\n" +
			"  inspan backup /mnt/b/monday --keys /etc/inspan/station.keys --users /etc/inspan/creds\n" +
			"  inspan backup /mnt/b/monday --store .inspan --keys /etc/inspan/station.keys",
		Args: app.Args(1),
	}
	connected := a.Connected(c.running)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.target.Store != "" {
			return c.stopped(cmd.Context(), args[0])
		}
		return connected(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&c.target.Store, "store", "", "folder of a station of inspan up that does not run, instead of --server")
	f.StringVar(&c.target.Users, "users", "",
		"with --keys, where the server has users: folder with setup.creds, or a file with a line NATS_SETUP_PASSWORD=...; else this variable")
	f.StringVar(&c.keys, "keys", "", "file outside of DIR to write the station's own keys to, for inspan restore --keys")
	return cmd
}

// running copies a station that runs.
func (c *backupCommand) running(ctx context.Context, from *client.Client, args []string) error {
	src, ok := from.Inside().(backup.Source)
	if !ok {
		return errors.New("this station has no streams to copy: a station of one file is copied as a file, while it is stopped")
	}
	if c.keys != "" {
		err := c.target.Connected(ctx, c.App, func(ctx context.Context, as transfer.Connect) error {
			conn, err := as(ctx, topology.SetupUser)
			if err != nil {
				return err
			}
			return c.writeKeys(ctx, conn, args[0])
		})
		if err != nil {
			return err
		}
	}
	return c.take(ctx, src, args[0])
}

// stopped copies the station of a store that no process has.
func (c *backupCommand) stopped(ctx context.Context, dir string) error {
	return c.target.Connected(ctx, c.App, func(ctx context.Context, as transfer.Connect) error {
		conn, err := as(ctx, topology.UpgradeUser)
		if err != nil {
			return err
		}
		if c.keys != "" {
			if err := c.writeKeys(ctx, conn, dir); err != nil {
				return err
			}
		}
		st, err := conn.Station(c.App.Station)
		if err != nil {
			return err
		}
		return c.take(ctx, st, dir)
	})
}

func (c *backupCommand) writeKeys(ctx context.Context, conn *jet.Conn, dir string) error {
	st, err := conn.Station(c.App.Station)
	if err != nil {
		return err
	}
	keys, err := st.ReadKeys(ctx)
	if errors.Is(err, kernel.ErrDenied) || errors.Is(err, jet.ErrDenied) {
		return app.Exit(app.ExitRefused,
			fmt.Errorf("%w: name the setup user with --users, or stop inspan up and name its folder with --store", err))
	}
	if err != nil {
		return err
	}
	return backup.WriteKeys(c.keys, dir, c.App.Station, keys)
}

func (c *backupCommand) take(ctx context.Context, src backup.Source, dir string) error {
	began := time.Now()
	m, err := backup.Take(ctx, backup.TakeConfig{Source: src, Station: c.App.Station, Dir: dir, Version: service.Version(),
		Now: time.Now, Progress: Figures(c.App, time.Now)})
	switch {
	case errors.Is(err, backup.ErrExists):
		return app.Usage("%w", err)
	case errors.Is(err, jet.ErrDenied):
		return app.Exit(app.ExitRefused,
			fmt.Errorf("%w: the user needs the right backup (inspan user add NAME --may watch,backup)", err))
	case err != nil:
		return err
	}
	if c.App.JSON {
		return c.App.PrintJSON(m)
	}
	fmt.Fprintf(c.App.Out, "Backup of station %s as of %s: %s, %s (%d open), %s, %s in %s: %s\n", m.Station,
		m.Cut.Format(time.RFC3339), view.Plural(int(m.Log), "event"), view.Plural(m.Runs, "run"), m.Open, //nolint:gosec // far below the limit
		view.Plural(m.Objects, "object"), view.Bytes(m.Bytes), time.Since(began).Round(time.Millisecond), dir)
	if m.Inputs > 0 {
		fmt.Fprintf(c.App.Out, "With %s that no service had judged\n", view.Plural(m.Inputs, "input"))
	}
	if len(m.Keys) > 0 && c.keys == "" {
		fmt.Fprintf(c.App.Err, "The keys that the station made for itself are not in it: keep them with --keys FILE, once\n")
	}
	fmt.Fprintf(c.App.Out, "Restore it into an empty station: inspan restore %s --station %s --store NEW\n", dir, m.Station)
	return nil
}

// figuresEvery is how often figures are shown.
const figuresEvery = 2 * time.Second

// Figures shows how far a copy is, on standard error.
func Figures(a *app.App, now func() time.Time) backup.Progress {
	next := now().Add(figuresEvery)
	return func(what string, done, total uint64) {
		if now().Before(next) {
			return
		}
		next = now().Add(figuresEvery)
		if total > 0 {
			fmt.Fprintf(a.Err, "%s: %d of %d\n", what, done, total)
		} else {
			fmt.Fprintf(a.Err, "%s: %d\n", what, done)
		}
	}
}
