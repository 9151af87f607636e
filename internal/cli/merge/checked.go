package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inspan/inspan/internal/core/acceptance"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/run"
)

// checked reports whether acceptance checks vouch for the files of a branch at a commit. Where they decide about the
// run that was named, or about the one that made the commit, and have not passed on exactly these files, it is an
// error.
func (a *mergeCommand) checked(ctx context.Context, c *client.Client, r *git.Result, m made,
	commit string) (bool, error) {
	var runs []run.State
	if m.run != nil {
		runs = append(runs, *m.run)
	}
	if m.session != "" && (m.run == nil || delivered(*m.run) != commit) {
		s, err := makerOf(ctx, c, m.session, commit)
		if err != nil {
			return false, err
		}
		if s.Created != nil {
			runs = append(runs, s)
		}
	}
	var trees, names []string
	for _, s := range runs {
		passed, checked := acceptance.Trees(s)
		if checked {
			trees, names = append(trees, passed...), append(names, s.HarnessID)
		}
	}
	tree, err := r.Tree(ctx)
	if err != nil || len(names) == 0 {
		return false, err
	}
	if slices.Contains(trees, tree) {
		return true, nil
	}
	passed := "no tree of a commit"
	if len(trees) > 0 {
		passed = strings.Join(slices.Compact(trees), ", ")
	}
	why := fmt.Sprintf("the acceptance checks of %s have not passed on these files: commit %s has the tree %s, and the checks passed on %s",
		strings.Join(names, ", "), view.Clip(commit, 12), tree, passed)
	if a.unchecked {
		if !a.App.JSON {
			fmt.Fprintf(a.App.Err, "Unverified: %s.\n", why)
		}
		return false, nil
	}
	id := names[0]
	return false, fmt.Errorf("nothing was merged: %s\ninspan diff %s shows it; inspan inspect %s shows the checks; inspan merge %s --unchecked merges it all the same",
		why, id, id, id)
}

// delivered is the commit that a run says that it delivered.
func delivered(s run.State) string {
	if s.Result == nil || s.Result.Delivery == nil {
		return ""
	}
	return s.Result.Delivery.Commit
}

// makerOf is the run of a session that delivered a commit; without events where none is known.
func makerOf(ctx context.Context, c *client.Client, session, commit string) (run.State, error) {
	all, err := c.Runs().List(ctx)
	if err != nil {
		return run.State{}, err
	}
	for _, i := range all { // the newest first
		if i.SessionID != session {
			continue
		}
		s, err := c.State(ctx, i.HarnessID)
		if err != nil {
			return run.State{}, err
		}
		if delivered(s) == commit {
			return s, nil
		}
	}
	return run.State{}, nil
}
