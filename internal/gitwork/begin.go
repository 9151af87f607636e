package gitwork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/pkg/events"
)

// find brings the commit that work is to begin with: it is here, at the remote, or in what was published by the run
// that had it.
func (w *lines) find(ctx context.Context, r *git.Repo, a prepareArgs) error {
	if a.NewBranch == "" {
		return fmt.Errorf("begin at %q: %w (name a new_branch to begin there)", a.Begin, git.ErrName)
	}
	here := func() (bool, error) {
		_, err := r.Resolve(ctx, a.Begin)
		if errors.Is(err, git.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	if is, err := here(); is || err != nil {
		return err
	}
	if a.URL != "" {
		// A remote need not give what none of its branches has.
		if _, err := r.Fetch(ctx, git.Source{URL: a.URL, Ref: a.Begin, Depth: a.Depth}); errors.Is(err, git.ErrUnreachable) ||
			ctx.Err() != nil {
			return err
		}
		if is, err := here(); is || err != nil {
			return err
		}
	}
	for _, scope := range w.job.From {
		names, err := w.published(ctx, scope)
		if err != nil {
			return err
		}
		there := store{&place{Desk: w.Desk, job: w.job}}
		there.job.Scope = scope
		for _, name := range names {
			if err := there.take(ctx, r, name); err != nil && !errors.Is(err, git.ErrNotFound) && !errors.Is(err,
				git.ErrDamaged) && !errors.Is(err, errUnpublished) {
				return err
			}
			if is, err := here(); is || err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the start commit %.12s: %w (it was neither pushed nor published: fork at an earlier event, or with --same-workspace)", a.Begin, git.ErrNotFound)
}

// maxLooked is how many branches of a scope are taken to find a commit.
const maxLooked = 64

// published are the names of branches in a scope, that of the run first.
func (w *store) published(ctx context.Context, scope string) ([]string, error) {
	if w.cfg.KV == nil {
		return nil, nil
	}
	keys, err := w.cfg.KV.Keys(ctx, events.BranchKeysOf(scope))
	if err != nil {
		return nil, fmt.Errorf("published branches of %s: %w: %w", scope, ErrStore, err)
	}
	var names []string
	for _, k := range keys[:min(len(keys), maxLooked)] {
		var rec events.PublishedBranch
		b, err := w.cfg.KV.Get(ctx, k)
		if errors.Is(err, kernel.ErrNotFound) {
			continue // it went meanwhile
		}
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if err != nil {
			return nil, fmt.Errorf("published branch %s: %w: %w", k, ErrStore, err)
		}
		if names = append(names, rec.Branch); rec.Branch == w.job.Line {
			names[0], names[len(names)-1] = names[len(names)-1], names[0]
		}
	}
	return names, nil
}
