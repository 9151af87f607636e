package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// maxRescued is how many branches of a workspace are published when it is removed: each takes up to wholeBytes or more.
const maxRescued = 320

// Rescue publishes, before a workspace is removed, each branch of its repository that has commits which no remote has,
// and work that is in no branch on branches of its own (git.Repo.Strays). What was published is read again and
// verified. The scope is the workspace's path, such as "run/r1". A branch that was published otherwise meanwhile is
// kept beside it. whole is false where not all of the work can be kept so, as repositories inside of it: then the
// workspace must stay. Doing it again publishes nothing twice.
func (d *Desk) Rescue(ctx context.Context, scope, dir string) (kept []Published, whole bool, err error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil, true, nil
	}
	if err := d.probe(ctx); err != nil {
		return nil, false, err
	}
	w := d.work(Job{Dir: dir, Scope: scope, Call: "cleanup"})
	g, err := w.alone(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, g.leave(ctx, ctx.Err() != nil)) }()
	return w.keepAll(ctx, g)
}

// keepAll publishes what no remote has; see Rescue.
func (w *work) keepAll(ctx context.Context, g *guard) (kept []Published, whole bool, err error) {
	d, scope := w.Desk, w.job.Scope
	r, err := w.open(ctx)
	if err != nil {
		return nil, false, unlessStrange(err)
	}
	s, err := r.Status(ctx)
	if err != nil {
		return nil, false, unlessStrange(err)
	}
	if _, err := r.Strays(ctx, w.cfg.Author); err != nil {
		return nil, false, unlessStrange(err)
	}
	refs, err := r.Unpushed(ctx)
	if err != nil {
		return nil, false, unlessStrange(err)
	}
	switch {
	case len(refs) > maxRescued:
		return nil, false, fmt.Errorf("save %d branches of %s, the limit is %d: %w (push or delete some: the workspace is retained)", len(refs), scope, maxRescued, git.ErrTooLarge)
	case len(refs) > 0 && d.cfg.KV == nil:
		return nil, false, nil
	}
	for _, ref := range refs {
		p, err := w.rescue(ctx, g, r, ref)
		if err != nil {
			return kept, false, fmt.Errorf("save %s of %s: %w", ref.Name, scope, err)
		}
		kept = append(kept, *p)
	}
	return kept, len(s.Nested) == 0 && !r.Submodules(), nil
}

// rescue publishes one branch, unless it is, and makes sure that it can be had again.
func (w *work) rescue(ctx context.Context, g *guard, r *git.Repo, ref git.Ref) (*Published, error) {
	as, done, err := w.free(ctx, r, ref)
	if err != nil {
		return nil, err
	}
	if as.Name != ref.Name {
		if err := r.Point(ctx, as); err != nil {
			return nil, err
		}
	}
	p := &Published{Branch: as.Name, Commit: as.ID, Artifact: events.BranchKey(w.job.Scope, as.Name)}
	if !done {
		if p, err = w.publish(ctx, g, publishArgs{Branch: as.Name}); err != nil {
			return nil, err
		}
	}
	rec, _, err := w.load(ctx, as.Name)
	switch {
	case err != nil:
		return nil, err
	case rec.Commit != p.Commit:
		return nil, fmt.Errorf("published %s: the branch is at %.12s and not at %.12s: %w", as.Name, rec.Commit, p.Commit,
			ErrMoved)
	}
	return p, r.Verify(ctx, &bundle{ctx: ctx, from: w.cfg.Blobs, refs: rec.Parts}, git.Ref{Name: as.Name, ID: rec.Commit})
}

// free is the name that a branch is published by: its own, but where another line of work was published by that one.
// done is true where what is published, as it is returned, has all of the branch.
func (w *work) free(ctx context.Context, r *git.Repo, ref git.Ref) (as git.Ref, done bool, err error) {
	beside := git.Ref{Name: git.RescuedPrefix + "branch-" + ref.ID[:12], ID: ref.ID}
	if git.CheckName(ref.Name) != nil { // git takes more names than others do
		return beside, false, nil
	}
	rec, _, err := w.load(ctx, ref.Name)
	if errors.Is(err, errUnpublished) {
		return ref, false, nil
	}
	if err != nil || rec.Commit == ref.ID {
		return ref, len(rec.Parts) > 0, err
	}
	if err := w.take(ctx, r, ref.Name); err != nil && !errors.Is(err, git.ErrNotFound) && !errors.Is(err, git.ErrDamaged) {
		return ref, false, err
	}
	for _, line := range []struct {
		old, new string
		done     bool
	}{{ref.ID, rec.Commit, true}, {rec.Commit, ref.ID, false}} {
		adds, err := r.IsAncestor(ctx, line.old, line.new)
		switch {
		case err != nil && !errors.Is(err, git.ErrNotFound):
			return ref, false, err
		case adds && line.done && len(rec.Parts) == 0:
			return beside, false, nil // of others, who say that the remote has it
		case adds && line.done:
			return git.Ref{Name: ref.Name, ID: rec.Commit}, true, nil
		case adds:
			return ref, false, nil
		}
	}
	return beside, false, nil
}

// unlessStrange is nil for a repository that cannot be worked with: it stays, and no one need be told every hour.
func unlessStrange(err error) error {
	if errors.Is(err, git.ErrHostile) || errors.Is(err, git.ErrNotRepository) || errors.Is(err, git.ErrName) {
		return nil
	}
	return err
}

// standardKeep is how long published branches stay where nothing else is said.
const standardKeep = 30 * 24 * time.Hour

// until is how long what is published in a scope stays: that of a session as long as the session, the zero time; all
// other for a time that begins anew when it is published anew.
func (d *Desk) until(scope string, now time.Time) time.Time {
	if strings.HasPrefix(scope, "session/") {
		return time.Time{}
	}
	return now.Add(d.cfg.Keep).UTC()
}

// Retire moves all that was published in the scope of a session that was deleted to another one, where it stays for as
// long as that of runs does. It may be done again: what was moved before stays.
func (d *Desk) Retire(ctx context.Context, scope, to string) error {
	return d.each(ctx, events.BranchKeysOf(scope), func(key string, rec events.PublishedBranch) error {
		rec.Scope, rec.Until = to, d.until(to, time.Now())
		b, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		err = d.cfg.KV.Create(ctx, events.BranchKey(to, rec.Branch), b)
		if err != nil && !errors.Is(err, kernel.ErrExists) {
			return err
		}
		return d.cfg.KV.Delete(ctx, key)
	})
}

// Expire takes published branches out of sight whose time is over, and returns how many. Those of sessions stay.
func (d *Desk) Expire(ctx context.Context, now time.Time) (n int, err error) {
	err = d.each(ctx, events.BranchKeys, func(key string, rec events.PublishedBranch) error {
		if rec.Until.IsZero() {
			rec.Until = d.until(rec.Scope, rec.At)
		}
		if rec.Until.IsZero() || now.Before(rec.Until) {
			return nil
		}
		if err := d.cfg.KV.Delete(ctx, key); err != nil {
			return err
		}
		n++
		return nil
	})
	return n, err
}

// each looks at all records whose keys begin so.
func (d *Desk) each(ctx context.Context, prefix string, do func(key string, rec events.PublishedBranch) error) error {
	if d.cfg.KV == nil {
		return nil
	}
	keys, err := d.cfg.KV.Keys(ctx, prefix)
	if err != nil {
		return fmt.Errorf("published branches: %w", err)
	}
	var errs []error
	for _, k := range keys {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var rec events.PublishedBranch
		b, err := d.cfg.KV.Get(ctx, k)
		if errors.Is(err, kernel.ErrNotFound) {
			continue // it went meanwhile
		}
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if err == nil {
			err = do(k, rec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("published branch %s: %w", k, err))
		}
	}
	return errors.Join(errs...)
}
