package gitwork

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/inspan/inspan/internal/git"
)

// Rescue publishes, before a workspace is removed, each branch of its repository that has commits which no remote has. The
// scope is the workspace's path, such as "run/r1". whole is false where not all of the work can be kept so, as changes that
// were not committed: then the workspace should stay.
func (d *Desk) Rescue(ctx context.Context, scope, dir string) (kept []Published, whole bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil, true, nil
	}
	if err := d.probe(ctx); err != nil {
		return nil, false, err
	}
	w := &work{Desk: d, job: Job{Dir: dir, Scope: scope, Call: "cleanup"}}
	g, err := w.alone(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, g.leave(ctx, ctx.Err() != nil)) }()
	r, err := w.open(ctx)
	if err != nil {
		return nil, false, unlessStrange(err)
	}
	if whole, err = w.atRest(ctx, r); err != nil || !whole {
		return nil, false, unlessStrange(err)
	}
	refs, err := r.Unpushed(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(refs) > 0 && d.cfg.Shelf == nil {
		return nil, false, nil
	}
	for _, ref := range refs {
		p, err := w.publish(ctx, g, publishArgs{Branch: ref.Name})
		if err != nil {
			return kept, false, err
		}
		kept = append(kept, *p)
	}
	return kept, true, nil
}

// unlessStrange is nil for a repository that can not be worked with: it stays, and nobody need be told every hour.
func unlessStrange(err error) error {
	if errors.Is(err, git.ErrHostile) || errors.Is(err, git.ErrNotRepository) || errors.Is(err, git.ErrName) {
		return nil
	}
	return err
}

// atRest reports whether all work of a repository is in its branches.
func (w *work) atRest(ctx context.Context, r *git.Repo) (bool, error) {
	s, err := r.Status(ctx)
	if err != nil || !s.Clean() || len(s.Nested) > 0 {
		return false, err
	}
	if _, err := r.Resolve(ctx, "refs/stash"); !errors.Is(err, git.ErrNotFound) {
		return false, err
	}
	if s.Head.Branch != "" || s.Head.ID == "" {
		return true, nil
	}
	return r.Reachable(ctx, s.Head.ID)
}
