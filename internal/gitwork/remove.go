package gitwork

import (
	"context"
	"fmt"

	"github.com/inspan/inspan/internal/git"
)

type removeArgs struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Into   string `json:"into"`
	URL    string `json:"url"`
}

// Removed is the result of git_remove: the remote has no such branch.
type Removed struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// How the commit is in the other branch, at Tip; empty where the branch was gone before.
	How string `json:"how,omitempty"`
	Tip string `json:"tip,omitempty"`
}

// remove takes a branch away from the remote that is proven to be merged. A branch that is gone is no fault: the answer
// of an earlier attempt may have been lost.
func (w *work) remove(ctx context.Context, _ *guard, a removeArgs) (*Removed, error) {
	if a.URL == "" {
		a.URL = w.job.Repo
	}
	if a.URL == "" {
		return nil, fmt.Errorf("remove: the run has no repository: %w (pass url)", git.ErrName)
	}
	if err := w.allowed(a.URL); err != nil {
		return nil, err
	}
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	done, err := r.Remove(ctx, git.Removal{URL: a.URL, Branch: a.Branch, Commit: a.Commit, Into: a.Into})
	if err != nil {
		return nil, err
	}
	return &Removed{Branch: a.Branch, Commit: a.Commit, How: done.How, Tip: done.Tip}, nil
}
