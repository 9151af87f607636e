package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// Cleanup takes away what no one uses any more of the trees of an instance: directories, and what the station has of
// trees.
type Cleanup struct{ t *Trees }

// Cleanup returns what takes away unused trees.
func (t *Trees) Cleanup() Cleanup { return Cleanup{t} }

// Tidy removes what no one uses any more: directories of instances that are gone and own ones, After they were last
// used. A directory of a living instance is that one's business.
func (cl Cleanup) Tidy(ctx context.Context) error {
	if cl.t.cfg.Snapshots == nil {
		return nil
	}
	base := filepath.Join(cl.t.cfg.Root, treesDir)
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
		errs = append(errs, cl.tidy(ctx, filepath.Join(base, n.Name()), strings.ReplaceAll(n.Name(), "=", "/")))
	}
	return errors.Join(errs...)
}

func (cl Cleanup) tidy(ctx context.Context, dir, workspace string) error {
	places, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	tr, done, err := cl.t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	if c := tr.held; c != nil && c.rec.Owner == "" && c.visits == 0 && cl.t.cfg.Now().Sub(c.used) > cl.t.cfg.After {
		goes, err := cl.passing(ctx, c.rec, c.dir)
		if err != nil {
			return fmt.Errorf("tidy workspace %s: %w", workspace, err)
		}
		if goes {
			if err := cl.pass(ctx, tr, c); err != nil {
				return err
			}
		}
		cl.t.lose(tr)
	}
	for _, p := range places {
		at := filepath.Join(dir, p.Name())
		if c := tr.held; c != nil && c.base == at {
			continue
		}
		_, instance, ok := strings.Cut(p.Name(), "-")
		if !ok || instance == cl.t.cfg.Instance {
			continue // lost, and still visited: it goes with the last visit
		}
		info, err := p.Info()
		if err != nil || cl.t.cfg.Now().Sub(info.ModTime()) <= cl.t.cfg.After {
			continue
		}
		alive, err := cl.t.cfg.Leases.Alive(ctx, instance)
		if err != nil {
			return fmt.Errorf("tidy workspaces: %w", err)
		}
		if !alive {
			if stays, err := cl.only(ctx, workspace, filepath.Join(at, treeDir)); err != nil || stays {
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

// only keeps what a lost instance left in a repository where no snapshot may have it, and reports whether the directory
// must stay.
func (cl Cleanup) only(ctx context.Context, workspace, dir string) (stays bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); !cl.t.cfg.AtSteps || cl.t.cfg.Rescue == nil || err != nil {
		return false, nil //nolint:nilerr // there is no repository
	}
	kept, err := cl.t.cfg.Rescue(ctx, workspace, dir)
	return !kept, err
}

// Forget says that nothing is kept of a tree any more, as where its session was deleted. Whoever holds the tree has
// lost it.
func (cl Cleanup) Forget(ctx context.Context, workspace string) error {
	tr, done, err := cl.t.of(ctx, workspace)
	if err != nil {
		return err
	}
	defer done()
	for range claims {
		if err = cl.forget(ctx, tr, 0); !errors.Is(err, kernel.ErrExists) {
			return err
		}
	}
	return err
}

// forget does that where the log still ends with the event of that sequence; 0 is whatever it ends with now.
func (cl Cleanup) forget(ctx context.Context, tr *tree, at uint64) error {
	s, err := cl.t.cfg.Log.Latest(ctx, tr.workspace)
	if err != nil || s.Sequence == 0 {
		return err
	}
	if at > 0 && at != s.Sequence {
		return fmt.Errorf("workspace %s: %w", tr.workspace, kernel.ErrExists)
	}
	_, err = cl.t.cfg.Log.Append(ctx, tr.workspace, s.Sequence,
		&events.WorkspaceForgottenData{Event: "workspace_forgotten",
			Fence: s.Fence + 1})
	if err != nil {
		return err
	}
	cl.t.lose(tr)
	return nil
}

// pass takes a tree away that was given back here. Where somebody has claimed it since, it is that one's.
func (cl Cleanup) pass(ctx context.Context, tr *tree, c *claim) error {
	err := cl.forget(ctx, tr, c.sequence)
	if errors.Is(err, kernel.ErrExists) {
		cl.t.lose(tr)
		return nil
	}
	return err
}

// passing reports whether a tree goes some time after its runs: trees of sessions stay, those that a run is to come
// back to, and those with a repository whose work is neither at a remote nor kept elsewhere.
func (cl Cleanup) passing(ctx context.Context, rec Record, dir string) (bool, error) {
	switch {
	case !strings.HasPrefix(rec.Workspace, "run/") && !strings.HasPrefix(rec.Workspace, "workflow/"):
		return false, nil
	case rec.Repository && cl.t.cfg.Rescue == nil:
		return false, nil
	}
	if left, err := cl.left(ctx, rec); err != nil || !left || !rec.Repository {
		return left, err
	}
	return cl.t.cfg.Rescue(ctx, rec.Workspace, dir)
}

// left reports whether all runs that came into a tree have ended, here or elsewhere.
func (cl Cleanup) left(ctx context.Context, rec Record) (bool, error) {
	if len(rec.Runs) >= events.MaxWorkspaceRuns || len(rec.Runs) > 0 && cl.t.cfg.Over == nil {
		return false, nil
	}
	for _, run := range rec.Runs {
		if over, err := cl.t.cfg.Over(ctx, run); err != nil || !over {
			return false, err
		}
	}
	return true, nil
}
