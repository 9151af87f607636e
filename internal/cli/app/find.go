package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/operator"
	"github.com/inspan/inspan/internal/station"
	"github.com/inspan/inspan/pkg/client"
)

// NamesServer reports whether the command line, the environment, a context or a file names the server.
func (a *App) NamesServer() bool {
	return a.Given("server") || a.Context.Name != "" || a.Lookup("INSPAN_NATS_URL", "") != ""
}

// Given reports whether a flag is on the command line.
func (a *App) Given(flag string) bool {
	return a.Cmd != nil && a.Cmd.Flags().Changed(flag)
}

// Locate finds the station of this project: the one that wrote its record into the store of the working directory, or
// of one above it. Whoever names a server means that one.
func (a *App) Locate(ctx context.Context, store string) bool {
	if a.Local || a.NamesServer() {
		return false
	}
	dir, err := os.Getwd()
	if err != nil {
		return false
	}
	r, ok := station.Find(ctx, dir, store)
	if !ok {
		return false
	}
	a.Server, a.Record = r.URL, r
	if !a.Given("station") && a.Lookup("INSPAN_STATION", "") == "" {
		a.Station = r.Station
	}
	return true
}

// stoppedReaders are the commands that show what is stored and need no service to do it.
var stoppedReaders = []string{"runs", "inspect", "logs", "why", "export", "cost", "gates", "audit", "merge", "diff",
	"undo"}

// openStopped opens the store of a station that does not run, for a command that only looks: that of this directory, or
// the one that was kept of the run. Nothing goes on in it meanwhile.
func (a *App) openStopped(ctx context.Context, cmd *cobra.Command, args []string) (c *client.Client, shut func(),
	err error) {
	if a.NamesServer() || !slices.Contains(stoppedReaders, cmd.Name()) || a.Given("follow") {
		return nil, nil, ErrNoServer
	}
	store, ok := a.stoppedStore()
	kept := ""
	if len(args) > 0 && takes(cmd) == "RUN" {
		if k, found := KeptOf(ctx, a, args[0]); found {
			store, ok, args[0], kept = k.Store, true, k.Run, k.Run
			a.OwnStore = k.Store // the commands that are named next need it
		}
	}
	if !ok {
		return nil, nil, ErrNoServer
	}
	if c, shut, err = a.OpenStore(ctx, store); err != nil {
		return nil, nil, UnderWay(kept, err)
	}
	fmt.Fprintf(a.Err, "No station runs: this is from the store %s.\n", store)
	if kept != "" && cmd.Name() == "why" {
		fmt.Fprintf(a.Err, "Where the run has not ended, inspan resume %s goes on with it.\n", kept)
	}
	return c, shut, nil
}

// KeptRun is a run that had a station of its own, whose store was kept.
type KeptRun struct {
	// Run is its whole id, At about when it was created.
	Run, Store string
	At         time.Time
}

// KeptOf is the kept run that a person means. Where the directory has the store of a station, too, which does not run,
// LastRun is the newest of both: of a run that is in the station's store, ok is false.
func KeptOf(ctx context.Context, a *App, ref string) (k KeptRun, ok bool) {
	if a.Kept == nil {
		return k, false
	}
	if k, ok = a.Kept(ctx, ref); !ok || ref != LastRun {
		return k, ok
	}
	store, found := a.stoppedStore()
	if !found {
		return k, true
	}
	c, shut, err := a.OpenStore(ctx, store)
	if err != nil {
		return k, true
	}
	defer shut()
	defer c.Close()
	all, err := c.Runs().List(ctx)
	return k, err != nil || len(all) == 0 || all[0].CreatedAt.Before(k.At)
}

// UnderWay says of a run whose store another process has open what a person can do.
func UnderWay(run string, err error) error {
	if run == "" || !errors.Is(err, station.ErrHeld) {
		return err
	}
	return fmt.Errorf("run %s is under way in another terminal, which has its station: look and answer there; "+
		"inspan up starts a station that several terminals use (%w)", run, err)
}

// OpenStore opens the store of a station that does not run, to look at what is in it; shut closes it.
func (a *App) OpenStore(ctx context.Context, store string) (c *client.Client, shut func(), err error) {
	st, err := Start(ctx, a, OwnStation{Store: store, Sandbox: "auto"}, Starting{Still: true})
	if err != nil {
		return nil, nil, err
	}
	shut = func() { _ = st.Close(context.WithoutCancel(ctx)) } // nothing was written
	if c, err = operator.On(st.Conn(), st.Name()); err != nil {
		shut()
		return nil, nil, err
	}
	return c, shut, nil
}

// stoppedStore is the store of a station in the working directory or above it.
func (a *App) stoppedStore() (string, bool) {
	if filepath.IsAbs(a.Folder) {
		return a.Folder, station.Stopped(a.Folder)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		if path := filepath.Join(dir, a.Folder); station.Stopped(path) {
			return path, true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", false
		}
		dir = up
	}
}
