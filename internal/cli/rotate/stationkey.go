package rotate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/keychain"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
)

// stationKeyCommand is inspan rotate station-key.
type stationKeyCommand struct {
	App    *app.App
	target transfer.Target
	dryRun bool
}

func stationKeyCmd(a *app.App) *cobra.Command {
	c := &stationKeyCommand{App: a}
	cmd := &cobra.Command{
		Use: "station-key", Short: "Replace the key that idempotency keys are made with",
		Long: `Gives a station a new key for the idempotency keys of calls. call.started records the number of the key, so a call that began before goes on
with the key that it began with, however often it is made again; calls that begin later use the new one. So the old key stays in the station,
readable by toolrunners alone.

A station of inspan up must be stopped (--store); at servers elsewhere the user setup does it (--users), and the toolrunners must be started
again to use the new key. Toolrunners with INSPAN_STATION_KEY keep that setting: it is the key of the number 0.`,
		Example: "  inspan rotate station-key --store .inspan\n  inspan rotate station-key --dry-run --store .inspan\n" +
			"  inspan rotate station-key --server nats://nats:4222 --users /etc/inspan/creds",
		Args: app.Args(0), RunE: c.run,
	}
	f := cmd.Flags()
	f.StringVar(&c.target.Store, "store", "", "folder of a station of inspan up that does not run, instead of --server")
	f.StringVar(&c.target.Users, "users", "",
		"folder with setup.creds, or a file of lines NATS_SETUP_PASSWORD=...; else that variable")
	f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be done")
	return cmd
}

// rotatedRing is what inspan rotate station-key prints as JSON.
type rotatedRing struct {
	Station string `json:"station"`
	// Number is that of the key that calls begin with from the next start of a toolrunner on.
	Number int `json:"number"`
	// Older keys are there for the calls that began with them.
	Older  int  `json:"older_keys"`
	DryRun bool `json:"dry_run,omitempty"`
}

func (a *stationKeyCommand) run(cmd *cobra.Command, _ []string) error {
	if a.target.Store != "" {
		if r, alive := station.Find(cmd.Context(), ".", a.target.Store); alive {
			return app.Exit(app.ExitRefused, fmt.Errorf("station %s runs in %s: stop it, rotate its key, and start it again",
				r.Station, r.Store))
		}
	}
	out := rotatedRing{Station: a.App.Station, DryRun: a.dryRun}
	err := a.target.Connected(cmd.Context(), a.App, func(ctx context.Context, as transfer.Connect) error {
		conn, err := as(ctx, topology.SetupUser)
		if err != nil {
			return fmt.Errorf("connect as %s: %w", topology.SetupUser, err)
		}
		st, err := conn.Station(a.App.Station)
		if err != nil {
			return err
		}
		out.Number, err = rotateRing(ctx, st.KV(topology.ConfigBucket), time.Now(), a.dryRun)
		return err
	})
	switch {
	case errors.Is(err, kernel.ErrDenied):
		return app.Exit(app.ExitRefused, fmt.Errorf("%w: only the user %s may: name it with --users, or a stopped station of inspan up with --store",
			err, topology.SetupUser))
	case errors.Is(err, kernel.ErrExists):
		return app.Exit(app.ExitFailed, errors.New("somebody else replaced the key meanwhile: nothing was changed here"))
	case err != nil:
		return err
	}
	out.Older = out.Number
	if a.App.JSON {
		return a.App.PrintJSON(out)
	}
	if a.dryRun {
		fmt.Fprintf(a.App.Out, "Would give station %s key %d for idempotency keys.\n", out.Station, out.Number)
		return nil
	}
	fmt.Fprintf(a.App.Out, "%s Station %s has key %d for idempotency keys. Calls that are under way go on with theirs.\n",
		a.App.Paint().Green("✓"), out.Station, out.Number)
	if a.target.Store == "" {
		fmt.Fprintln(a.App.Err, a.App.Paint().Yellow("Start the toolrunners again: they use it from their next start on."))
	}
	return nil
}

// rotateRing adds a key in one move, and returns its number. It returns kernel.ErrExists where another was faster.
func rotateRing(ctx context.Context, config kernel.KV, now time.Time, dry bool) (number int, err error) {
	value, revision, err := config.Load(ctx, topology.StationKeyKey)
	if errors.Is(err, kernel.ErrNotFound) {
		value, revision, err = nil, 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("station keys: %w", err)
	}
	ring, err := keychain.ReadRing(value, nil)
	if err != nil {
		return 0, err
	}
	next, err := ring.With(rand.Text()+rand.Text(), now)
	if err != nil || dry {
		return ring.Newest() + 1, err
	}
	_, err = config.Swap(ctx, topology.StationKeyKey, next, revision)
	return ring.Newest() + 1, err
}
