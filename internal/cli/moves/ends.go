package moves

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/inspan/inspan/internal/backup"
	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/transfer"
	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/move"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// moveEnd is one of the two places of a move: a context, or the folder of a station that does not run.
type moveEnd struct {
	context, store, users string
	// name is for people, and app reaches the place.
	name string
	app  *app.App
}

// complete finds out what the flags mean.
func (e *moveEnd) complete(a *app.App, stationName string) error {
	one := *a
	e.app = &one
	if e.context != "" {
		if err := app.UseNamed(&one, e.context); err != nil {
			return err
		}
		if one.Station != stationName {
			return app.Usage("context %s reaches station %s, not %s: name another context, or correct it with inspan context add %s --force",
				e.context, one.Station, stationName, e.context)
		}
		e.name = fmt.Sprintf("context %s (%s)", e.context, one.Address())
	}
	one.Station = stationName
	if e.store == "" {
		return nil
	}
	var err error
	if e.store, err = filepath.Abs(e.store); err != nil {
		return err
	}
	one.Context, one.Creds = app.Context{}, ""
	e.name = "folder " + e.store
	return nil
}

// target lets do use the place as a target.
func (e *moveEnd) target(ctx context.Context, c *moveCommand, do func(context.Context, move.Target) error) error {
	t := transfer.Target{Store: e.store, Users: e.users}
	return t.Connected(ctx, e.app, func(ctx context.Context, as transfer.Connect) error {
		return do(ctx, move.Target{Name: e.name, As: as})
	})
}

// source is the place as a source.
type source struct {
	move.Source
	// runs lists the runs, the newest first, and version is that of the services; empty where none answers.
	runs    func(context.Context) ([]run.Info, error)
	version string
	// own are connections to the place that may read the station's keys; nil where there are none.
	own transfer.Connect
}

// source lets do use the place as a source: as the upgrade user where that is known, else as the user of the context,
// whose controls a planner carries out.
func (e *moveEnd) source(ctx context.Context, c *moveCommand, do func(context.Context, source) error) error {
	if e.store != "" && !station.HasStreams(e.store) {
		return app.Exit(app.ExitUnknown, fmt.Errorf("--from-store %s has no station: inspan up --store names such a folder", e.store))
	}
	if e.store == "" && e.users == "" {
		return e.asUser(ctx, c, do)
	}
	t := transfer.Target{Store: e.store, Users: e.users}
	return t.Connected(ctx, e.app, func(ctx context.Context, as transfer.Connect) error {
		conn, err := as(ctx, topology.UpgradeUser)
		if err != nil {
			return fmt.Errorf("connect to the source as %s: %w", topology.UpgradeUser, err)
		}
		st, err := conn.Station(c.station)
		if err != nil {
			return err
		}
		return do(ctx, source{Source: move.Source{Name: e.name, Station: st, Steer: move.Steer(st, c.station)},
			runs: client.Over(st, conn, nil).Runs().List, own: as})
	})
}

func (e *moveEnd) asUser(ctx context.Context, c *moveCommand, do func(context.Context, source) error) error {
	cl, err := e.app.Connect(ctx)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	defer cl.Close()
	st, ok := cl.Inside().(*jet.Station)
	if !ok {
		return errors.New("the source has no streams to copy: a station of one file is copied as a file, while it is stopped")
	}
	src := source{Source: move.Source{Name: e.name, Station: st}, runs: cl.Runs().List}
	src.Steer = func(ctx context.Context, ctl events.HaltControl) error {
		ctx, cancel := context.WithTimeout(ctx, e.app.Wait)
		defer cancel()
		_, err := client.NewHalts(cl).Control(ctx, ctl)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w; where no service of the source runs, name its upgrade user with --from-users, or its folder with --from-store",
				err)
		}
		if no, ok := errors.AsType[*client.RefusedError](err); ok && no.Code == "bad_input" {
			return fmt.Errorf("%w; the services of the source are of an earlier version, which does not know that a station moves: name its upgrade user with --from-users",
				err)
		}
		return err
	}
	if all, err := client.StationsOf(ctx, cl); err == nil && len(all) > 0 {
		src.version = all[0].Version
	}
	return do(ctx, src)
}

// keys returns the keys that the station made for itself, or says how to give them.
func (s source) keys(ctx context.Context, c *moveCommand, names []string) (map[string][]byte, error) {
	if c.keys != "" {
		return backup.ReadKeys(c.keys, c.station)
	}
	if len(names) == 0 {
		return nil, nil
	}
	st := s.Station
	if s.own != nil {
		conn, err := s.own(ctx, topology.SetupUser)
		if err != nil {
			return nil, err
		}
		if st, err = conn.Station(c.station); err != nil {
			return nil, err
		}
	}
	keys, err := st.ReadKeys(ctx)
	if errors.Is(err, kernel.ErrDenied) || errors.Is(err, jet.ErrDenied) {
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("%w: name the setup user of the source with --from-users, or a file that inspan backup --keys wrote with --keys, or stop inspan up and name its folder with --from-store, or do without with --new-keys: nothing was changed",
			err))
	}
	return keys, err
}
