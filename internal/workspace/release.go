package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
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

// Ended says that a run has ended. Its tree is given back where no one else is at work in it; done is false where calls of the
// run have not come to their end yet, so that it should be said again.
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
	rec := withoutReported(c, c.rec)
	rec.Owner, rec.At = "", t.cfg.Now().UTC()
	if err := t.writeRecord(ctx, tr, c, rec); err != nil {
		return err
	}
	for run := range c.runs {
		t.mark(run, false)
	}
	clear(c.runs)
	if !t.cfg.AtEnd || !strings.HasPrefix(rec.Workspace, "run/") {
		return nil
	}
	if goes, err := t.passing(ctx, rec, c.dir); err != nil || !goes {
		return err
	}
	return t.pass(ctx, tr, c)
}

// pass takes a tree away that was given back here. Where somebody has claimed it since, it is that one's.
func (t *Trees) pass(ctx context.Context, tr *tree, c *claim) error {
	err := t.forget(ctx, tr, c.revision)
	if errors.Is(err, kernel.ErrExists) {
		t.lose(tr)
		return nil
	}
	return err
}

// passing reports whether a tree goes some time after its runs: trees of sessions stay, those that a run is to come back to,
// and those with a repository whose work is neither at a remote nor kept elsewhere.
func (t *Trees) passing(ctx context.Context, rec Record, dir string) (bool, error) {
	switch {
	case !strings.HasPrefix(rec.Workspace, "run/") && !strings.HasPrefix(rec.Workspace, "workflow/"):
		return false, nil
	case rec.Repository && t.cfg.Rescue == nil:
		return false, nil
	}
	if left, err := t.left(ctx, rec); err != nil || !left || !rec.Repository {
		return left, err
	}
	return t.cfg.Rescue(ctx, rec.Workspace, dir)
}

// left reports whether all runs that came into a tree have ended, here or elsewhere.
func (t *Trees) left(ctx context.Context, rec Record) (bool, error) {
	if len(rec.Runs) >= maxRuns || len(rec.Runs) > 0 && t.cfg.Over == nil {
		return false, nil
	}
	for _, run := range rec.Runs {
		if over, err := t.cfg.Over(ctx, run); err != nil || !over {
			return false, err
		}
	}
	return true, nil
}

// Forget takes all that was kept of a tree out of the record, as where its session was deleted. Whoever holds the tree has
// lost it.
func (t *Trees) Forget(ctx context.Context, workspace string) error {
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	for range claims {
		if err = t.forget(ctx, tr, 0); !errors.Is(err, kernel.ErrExists) {
			return err
		}
	}
	return err
}

// forget empties the record, where it still has the revision; 0 is whatever it has now.
func (t *Trees) forget(ctx context.Context, tr *tree, at uint64) error {
	rec, revision, err := Load(ctx, t.cfg.KV, tr.workspace)
	if err != nil || revision == 0 {
		return err
	}
	if at > 0 {
		revision = at
	}
	empty := Record{Workspace: rec.Workspace, Fence: rec.Fence + 1, At: t.cfg.Now().UTC()}
	if _, err := t.swap(ctx, empty, revision); err != nil {
		return err
	}
	t.lose(tr)
	return nil
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

// Tidy removes what no one uses any more: directories of instances that are gone and own ones, After they were last used.
// A directory of a living instance is that one's business.
func (t *Trees) Tidy(ctx context.Context) error {
	if t.cfg.Snapshots == nil {
		return nil
	}
	base := filepath.Join(t.cfg.Root, treesDir)
	names, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tidy workspaces: %w", err)
	}
	var errs []error
	for _, n := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, t.tidy(ctx, filepath.Join(base, n.Name()), strings.ReplaceAll(n.Name(), "=", "/")))
	}
	return errors.Join(errs...)
}

func (t *Trees) tidy(ctx context.Context, dir, workspace string) error {
	places, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	tr, done, err := t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	if c := tr.held; c != nil && c.rec.Owner == "" && c.visits == 0 && t.cfg.Now().Sub(c.used) > t.cfg.After {
		goes, err := t.passing(ctx, c.rec, c.dir)
		if err != nil {
			return fmt.Errorf("tidy workspace %s: %w", workspace, err)
		}
		if goes {
			if err := t.pass(ctx, tr, c); err != nil {
				return err
			}
		}
		t.lose(tr)
	}
	for _, p := range places {
		at := filepath.Join(dir, p.Name())
		if c := tr.held; c != nil && c.base == at {
			continue
		}
		_, instance, ok := strings.Cut(p.Name(), "-")
		if !ok || instance == t.cfg.Instance {
			continue // lost, and still visited: it goes with the last visit
		}
		info, err := p.Info()
		if err != nil || t.cfg.Now().Sub(info.ModTime()) <= t.cfg.After {
			continue
		}
		alive, err := t.cfg.Leases.Alive(ctx, instance)
		if err != nil {
			return fmt.Errorf("tidy workspaces: %w", err)
		}
		if !alive {
			if stays, err := t.only(ctx, workspace, filepath.Join(at, treeDir)); err != nil || stays {
				if err != nil {
					return fmt.Errorf("tidy workspace %s: %w", workspace, err)
				}
				continue
			}
			if err := git.RemoveAll(at); err != nil {
				return fmt.Errorf("tidy workspaces: %w", err)
			}
		}
	}
	return nil
}

// only keeps what a lost instance left in a repository where no snapshot may have it, and reports whether the directory must stay.
func (t *Trees) only(ctx context.Context, workspace, dir string) (stays bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); !t.cfg.AtSteps || t.cfg.Rescue == nil || err != nil {
		return false, nil //nolint:nilerr // there is no repository
	}
	kept, err := t.cfg.Rescue(ctx, workspace, dir)
	return !kept, err
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
	rec, _, err := Load(ctx, t.cfg.KV, workspace)
	return rec.Repository, err
}
