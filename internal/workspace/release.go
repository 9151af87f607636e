package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/pkg/events"
)

// Directories below the workspace root: .trees/NAME/FENCE-INSTANCE/tree, and the keeper's store beside the tree.
const (
	treesDir = ".trees"
	treeDir  = "tree"
	storeDir = "store"
)

func workdirName(fence uint64, instance string) string {
	return strconv.FormatUint(fence, 10) + "-" + instance
}

// Ended says that a run has ended. Its tree is given back where no one else is at work in it; done is false where calls
// of the run have not come to their end yet, so that it should be said again.
func (t *Trees) Ended(ctx context.Context, workspace, run string) (done bool, err error) {
	t.mu.Lock()
	_, known := t.open[workspace]
	t.mu.Unlock()
	if !known {
		return true, nil
	}
	tr, give, err := t.of(ctx, workspace)
	if err != nil {
		return false, err
	}
	defer give()
	c := tr.held
	if c == nil || c.rec.Owner == "" {
		return true, nil
	}
	if _, here := c.runs[run]; here {
		c.runs[run] = true
		t.mark(run, false)
	}
	for _, ended := range c.runs {
		if !ended {
			return true, nil
		}
	}
	if c.visits > 0 {
		return false, nil
	}
	if err := t.free(ctx, tr, c, run); err != nil && !errors.Is(err, ErrLost) {
		return false, err
	}
	return true, nil
}

// free gives a tree back, with what was not kept of it. It must be called with the turn of the tree.
func (t *Trees) free(ctx context.Context, tr *tree, c *claim, run string) error {
	if c.dirty {
		if err := t.keep(ctx, tr, c, run+"/end"); err != nil {
			return err
		}
	}
	err := t.append(ctx, tr, c, &events.WorkspaceReleasedData{Event: "workspace_released", Fence: c.rec.Fence,
		WorkspaceLearned: c.learned()})
	if err != nil {
		return err
	}
	for run := range c.runs {
		t.mark(run, false)
	}
	clear(c.runs)
	if !t.cfg.AtEnd || !strings.HasPrefix(c.rec.Workspace, "run/") {
		return nil
	}
	if goes, err := t.Cleanup().passing(ctx, c.rec, c.dir); err != nil || !goes {
		return err
	}
	return t.Cleanup().pass(ctx, tr, c)
}

// Close gives back all trees that no one is at work in, so that other instances need not wait for a lease to lapse.
func (t *Trees) Close(ctx context.Context) error {
	t.mu.Lock()
	var all []string
	for w := range t.open {
		all = append(all, w)
	}
	t.mu.Unlock()
	slices.Sort(all)
	var errs []error
	for _, w := range all {
		errs = append(errs, t.close(ctx, w))
	}
	return errors.Join(errs...)
}

func (t *Trees) close(ctx context.Context, workspace string) error {
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	c := tr.held
	if c == nil || c.visits > 0 || c.rec.Owner == "" {
		return nil
	}
	if err := t.free(ctx, tr, c, c.rec.Run); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// Repository reports whether a tree has a git repository, as far as is known of it.
func (t *Trees) Repository(ctx context.Context, workspace string) (bool, error) {
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return false, err
	}
	defer done()
	if c := tr.held; c != nil && c.base != "" {
		if _, err := os.Lstat(filepath.Join(c.dir, ".git")); err == nil {
			return true, nil
		}
	}
	s, err := t.cfg.Log.Latest(ctx, workspace)
	return s.Repository, err
}
