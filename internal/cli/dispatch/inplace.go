package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// InPlace reports whether runs are to work in the directory itself.
func (f *CopyFlags) InPlace() bool { return f.inPlace }

// SoundInPlace refuses flags that do not go with --in-place.
func (f *RunFlags) SoundInPlace(a *app.App, c *workcopy.Copy) error {
	switch {
	case !f.inPlace:
		return nil
	case f.empty && a.Given("empty"):
		return app.Usage("--empty begins with nothing, --in-place with the files of the directory: leave one of them out")
	case c == nil:
		return app.Usage("--in-place: there is no project here to work in: go to its folder, or name it with --repo DIR")
	case f.collaboration == string(events.Parallel):
		return app.Usage("--in-place: one run works in a directory at a time, so --collaboration parallel means nothing: leave one of them out")
	}
	return nil
}

// Enter has a task work in the directory itself. The Visit must be ended with Done.
func (h host) Enter(ctx context.Context, a *app.App, c *workcopy.Copy, task *events.Task) (*workcopy.Visit, error) {
	root, here := h.workspace(a)
	if !here {
		return nil, app.Usage("--in-place: station %s is not known to be on this machine, whose files it would work on",
			a.Station)
	}
	if err := h.enforces(ctx, task.Agent); err != nil {
		return nil, err
	}
	v, err := c.InPlace(ctx, root, task, func(by workcopy.Place) (bool, error) {
		if by.Root != root {
			return false, nil
		}
		s, err := h.C.State(ctx, by.Run)
		if errors.Is(err, client.ErrNotFound) {
			return true, nil
		}
		return err == nil && s.Status.Ended(), err
	})
	if err != nil {
		return nil, err
	}
	if !a.JSON {
		for _, line := range v.Lines() {
			fmt.Fprintln(a.Err, a.Wrapped(line, 0))
		}
	}
	return v, nil
}

// enforces refuses an agent whose sandbox is known to keep nothing read-only. Where that is not known the toolrunner
// refuses it with the first call.
func (h host) enforces(ctx context.Context, agent string) error {
	mode := ""
	if h.own != nil {
		mode = h.own.SandboxMode()
	}
	all, err := h.C.Agents(ctx)
	if err != nil {
		return nil //nolint:nilerr // the toolrunner looks
	}
	if i := slices.IndexFunc(all, func(a events.Agent) bool { return a.Name == agent }); i >= 0 {
		if own := all[i].Sandbox.Mode; own != "auto" {
			mode = cmp.Or(own, mode)
		}
	}
	if mode == "host" || mode == "landlock" {
		return app.Exit(app.ExitRefused, fmt.Errorf("--in-place: the sandbox %s of agent %s cannot keep .git read-only: use bwrap, docker or gvisor, or leave --in-place out to work on a copy",
			mode, agent))
	}
	return nil
}

// Visit is a run in a directory itself.
type Visit = workcopy.Visit

// LastInPlace is the newest run of a session that worked in a directory itself and was not taken back; empty for none.
func LastInPlace(session string) (string, error) {
	all, err := workcopy.Places(time.Now())
	if err != nil {
		return "", err
	}
	places := workcopy.PickPlaces(all, session, "")
	if len(places) == 0 {
		return "", app.Usage("there is no input of the session %s to take back", session)
	}
	return places[0].Run, nil
}

// Leave ends a visit, and says what a person must know of it.
func Leave(ctx context.Context, a *app.App, v *workcopy.Visit, ended bool) error {
	notes, err := v.Done(context.WithoutCancel(ctx), ended)
	for _, n := range notes {
		fmt.Fprintln(a.Err, n)
	}
	return err
}
