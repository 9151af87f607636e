package gitwork

import (
	"context"

	"github.com/inspan/inspan/internal/git"
)

type commitArgs struct {
	Message string `json:"message"`
}

// Committed is the result of git_commit.
type Committed struct {
	// Commit is the new one, or the one that was there where nothing had changed.
	Commit string `json:"commit"`
	// Tree is what the commit has; it names the content.
	Tree   string `json:"tree"`
	Branch string `json:"branch"`
	Made   bool   `json:"made"`
	// Paths is how many paths changed; Nested are repositories inside of the tree, which are left out.
	Paths  int      `json:"paths"`
	Nested []string `json:"nested,omitempty"`
}

func (c *Committed) shorten() bool {
	more := len(c.Nested) > 0
	c.Nested = c.Nested[:len(c.Nested)/2]
	return more
}

// commit keeps all that changed in the tree.
func (w *work) commit(ctx context.Context, _ *guard, a commitArgs) (*Committed, error) {
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	done, err := r.Commit(ctx, a.Message, w.cfg.Author)
	if err != nil {
		return nil, err
	}
	return &Committed{Commit: done.ID, Tree: done.Tree, Branch: done.Branch, Made: done.Made, Paths: done.Paths,
		Nested: done.Nested}, nil
}

type branchArgs struct {
	Task string `json:"task"`
}

// Branched is the result of git_branch.
type Branched struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// branch makes and checks out the branch of an agent and a task.
func (w *work) branch(ctx context.Context, _ *guard, a branchArgs) (*Branched, error) {
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	if err := r.CreateBranch(ctx, git.BranchName(w.job.Agent, a.Task), "HEAD"); err != nil {
		return nil, err
	}
	h, err := r.Head(ctx)
	return &Branched{Branch: h.Branch, Commit: h.ID}, err
}
