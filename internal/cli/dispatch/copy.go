package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// CopyFlags say whether a run works on a copy of a directory of this machine.
type CopyFlags struct {
	empty, inPlace bool
	with           []string
}

// Add defines the flags.
func (f *CopyFlags) Add(a *app.App, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.empty, "empty", os.Getenv("INSPAN_EMPTY") == "true",
		"begin in an empty workspace, not on a copy of this directory (INSPAN_EMPTY)")
	fl.BoolVar(&f.inPlace, "in-place", false,
		"work in this directory itself, not on a copy; .git and .inspan are closed to it; inspan undo takes the run back")
	fl.StringArrayVar(&f.with, "with", nil,
		"file that the run may see although it is ignored or its name says that it holds a secret; may be repeated")
}

// find finds the repository, or the directory without one, that a run is to work on a copy of: the one that --repo
// names, else that of the working directory. It is nil where the run begins elsewhere.
func (f *CopyFlags) find(ctx context.Context, a *app.App, repo string) (*workcopy.Copy, error) {
	named := workcopy.IsPath(repo)
	switch {
	case named && f.empty && a.Given("empty"):
		return nil, app.Usage("--empty begins with nothing, and --repo names a directory: leave one of them out")
	case !named && (repo != "" || f.empty):
		if len(f.with) > 0 {
			return nil, app.Usage("--with goes with a copy of a directory of this machine")
		}
		return nil, nil
	case !named:
		repo = "."
	}
	return f.at(ctx, repo, named)
}

// at finds the repository, or the project without one, of a directory; nil where there is none that was not named.
func (f *CopyFlags) at(ctx context.Context, dir string, named bool) (*workcopy.Copy, error) {
	c, err := workcopy.Find(ctx, dir, f.with)
	if errors.Is(err, git.ErrNotRepository) && (named || workcopy.IsProject(dir)) {
		c, err = workcopy.Folder(ctx, dir, f.with)
	}
	if err != nil && !named && workcopy.None(err) && len(f.with) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, app.Usage("--repo: %w", err)
	}
	return c, nil
}

// CopyOf finds the repository or project of a directory that a program names; nil where there is none, or none is
// wanted.
func (f *CopyFlags) CopyOf(ctx context.Context, dir string) (*workcopy.Copy, error) {
	if f.empty {
		return nil, nil
	}
	return f.at(ctx, dir, false)
}

// FindCopy finds the repository that the flags mean, for a conversation; see find.
func (f *RunFlags) FindCopy(ctx context.Context, a *app.App) (*workcopy.Copy, error) {
	return f.find(ctx, a, f.repo)
}

// RepoFlag defines the flag that names a directory of this machine.
func (f *RunFlags) RepoFlag(cmd *cobra.Command, text string) {
	cmd.Flags().StringVar(&f.repo, "repo", "", text)
}

// Place has a task work where its session does: on the copy that it has, or on a new one. c may be nil.
func (h host) Place(ctx context.Context, a *app.App, c *workcopy.Copy, f RunFlags, task *events.Task) error {
	if c == nil {
		_, err := h.continued(ctx, task)
		return err
	}
	return h.copied(ctx, a, c, workcopy.IsPath(f.repo), task)
}

// continued has a task go on in the copy that its session works on, if it does.
func (h host) continued(ctx context.Context, task *events.Task) (bool, error) {
	if task.Session == "" || task.Repo != "" {
		return false, nil
	}
	all, err := h.C.Runs().List(ctx)
	if errors.Is(err, client.ErrDenied) {
		return false, nil // who may not look works in the session all the same
	}
	if err != nil {
		return false, err
	}
	for _, i := range slices.Backward(all) { // the first run of the session is the last of the list
		if i.SessionID != task.Session {
			continue
		}
		s, err := h.C.State(ctx, i.HarnessID)
		if err != nil || s.Created == nil {
			return false, err
		}
		_, ok := gitwork.LocalID(s.Created.Repo)
		if ok {
			workcopy.Aim("", task)
		}
		return ok, nil
	}
	return false, nil
}

// workspace is the workspace root of a host, where it is on this machine.
func (h host) workspace(a *app.App) (string, bool) {
	if h.own != nil {
		return h.own.Workspace(), true
	}
	return a.Record.Workspace, a.Record.Workspace != ""
}

// copied has a task work on a copy. It is left as it is where the host is elsewhere, or where the session has files
// already, unless the directory was named.
func (h host) copied(ctx context.Context, a *app.App, c *workcopy.Copy, named bool, task *events.Task) error {
	root, here := h.workspace(a)
	why := fmt.Sprintf("station %s is not known to be on this machine: push the repository and give its address with --repo", a.Station)
	if here && task.Session != "" {
		_, err := h.C.Sessions().Get(ctx, task.Session)
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			return err
		}
		here, why = err != nil, fmt.Sprintf("session %s has a workspace already", task.Session)
		if on, err := h.continued(ctx, task); err != nil || on && !named {
			return err
		}
	}
	switch {
	case !here && named:
		return app.Usage("--repo: %s", why)
	case !here && !a.JSON && task.Session == "":
		fmt.Fprintf(a.Err, "Not on a copy of %s: %s.\n", c.Root(), why)
		return nil
	case !here:
		return nil
	}
	if err := c.Into(ctx, root, task); err != nil {
		return err
	}
	for _, line := range c.Lines(*task) {
		fmt.Fprintln(a.Err, a.Wrapped(line, 0))
	}
	return nil
}

// storeOf makes the folder of a station for one run that works on a copy, and removes those of earlier runs that are
// over the limits and whose work was taken.
func storeOf(a *app.App, run string) (string, error) {
	if all, err := workcopy.Stores(); err == nil {
		spent, _ := workcopy.Overdue(all, workcopy.KeepFor, workcopy.KeepMost, time.Now())
		if _, err := workcopy.Remove(spent); err != nil {
			fmt.Fprintf(a.Err, "inspan: stores of earlier runs: %v\n", err)
		}
	}
	store, err := workcopy.StoreOf(run)
	if err != nil {
		return "", err
	}
	return store, os.MkdirAll(store, 0o700)
}
