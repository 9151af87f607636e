package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/workcopy"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// CopyFlags say whether a run works on a copy of a directory of this machine.
type CopyFlags struct {
	empty bool
	with  []string
}

// Add defines the flags.
func (f *CopyFlags) Add(a *app.App, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.empty, "empty", os.Getenv("INSPAN_EMPTY") == "true",
		"begin in an empty workspace, not on a copy of the repository of this directory (INSPAN_EMPTY)")
	fl.StringArrayVar(&f.with, "with", nil,
		"file that the copy has although it is ignored or its name says that it holds a secret; may be repeated")
}

// find finds the repository that a run is to work on a copy of: the one that --repo names, else that of the working
// directory. It is nil where the run begins elsewhere.
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
	c, err := workcopy.Find(ctx, repo, f.with)
	if err != nil && !named && workcopy.None(err) && len(f.with) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, app.Usage("--repo: %w", err)
	}
	return c, nil
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
		fmt.Fprintln(a.Err, line)
	}
	return nil
}

// storeOf makes the folder of a station for one run that works on a copy.
func storeOf(run string) (string, error) {
	store, err := workcopy.StoreOf(run)
	if err != nil {
		return "", err
	}
	return store, os.MkdirAll(store, 0o700)
}
