package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
)

// inPlace does a command for a run that worked in a directory itself; others are for at a station.
func inPlace(a *app.App, do func(ctx context.Context, places []workcopy.Place) error,
	at func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		places, err := placesOf(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if len(places) == 0 {
			return at(cmd, args)
		}
		return do(cmd.Context(), places)
	}
}

// placesOf are the runs in place that a person means; none where a run on a copy is meant.
func placesOf(ctx context.Context, ref string) ([]workcopy.Place, error) {
	all, err := workcopy.Places(time.Now())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	dir, err := os.Getwd()
	if c, findErr := workcopy.Find(ctx, ".", nil); findErr == nil {
		dir = c.Root()
	}
	if err != nil {
		return nil, err
	}
	found := workcopy.PickPlaces(all, ref, dir)
	if ref != app.LastRun || len(found) == 0 {
		return found, nil
	}
	copies, err := workcopy.Stores()
	if k, ok := workcopy.Pick(copies, ref, dir); ok && k.At.After(found[0].At) && k.Run != found[0].Run {
		return nil, err // that of a run on a copy is newer
	}
	return found, err
}

// takeBack takes runs in place out of the files again.
func (a *mergeCommand) takeBack(ctx context.Context, places []workcopy.Place) (err error) {
	r, base, err := workcopy.Between(ctx, places, a.force)
	if errors.Is(err, workcopy.ErrNotSeen) {
		return fmt.Errorf("nothing was changed: %w: inspan undo %s --force takes back all that was changed in %s since it began, by whomever", err, places[0].Run, places[0].Dir)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out := report{Run: places[0].Run, Base: base.Commit, Paths: []string{}}
	if out.Paths, err = r.Paths(ctx, base.Commit); err != nil {
		return err
	}
	if err := a.takeOut(ctx, r, made{base: base.Commit}, out); err != nil {
		return err
	}
	return workcopy.TakenBack(places)
}

// ofPlaces shows what runs in place changed.
func (a *diffCommand) ofPlaces(ctx context.Context, places []workcopy.Place) (err error) {
	if a.step != "" {
		return a.App.Connected(func(ctx context.Context, c *client.Client, args []string) error {
			return a.ofStep(ctx, c, args[0])
		})(a.App.Cmd, []string{places[0].Run})
	}
	r, base, err := workcopy.Between(ctx, places, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return a.show(ctx, r, report{Run: places[0].Run, Base: base.Commit})
}
