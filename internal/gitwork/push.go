package gitwork

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/git"
)

type pushArgs struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	URL    string `json:"url"`
	To     string `json:"to"`
}

// Pushed is the result of git_push: what the remote said that it has.
type Pushed struct {
	URL    string `json:"url"`
	Branch string `json:"branch"`
	// Commit is where the remote's branch is. Where somebody built on what was pushed it is a later one, and Holds is
	// the commit that was pushed, which is among those before it.
	Commit string `json:"commit"`
	Holds  string `json:"holds,omitempty"`
}

// aim fills in what a push leaves to the run, and checks it.
func (w *work) aim(a *pushArgs) error {
	if a.URL == "" {
		a.URL = w.job.Repo
	}
	if a.URL == "" {
		return fmt.Errorf("push: the run has no repository: %w (pass url)", git.ErrName)
	}
	if a.To == "" {
		a.To = a.Branch
	}
	for _, name := range []string{a.Branch, a.To} {
		if err := git.CheckName(name); err != nil {
			return err
		}
	}
	if a.Commit == "" {
		return fmt.Errorf("push %s: no commit is named: %w (pass the full id of its current commit)", a.Branch, git.ErrName)
	}
	return w.allowed(a.URL)
}

// push sends a branch that is still at the commit that was meant, and asks the remote what it has then.
func (w *work) push(ctx context.Context, g *guard, a pushArgs) (*Pushed, error) {
	if err := w.aim(&a); err != nil {
		return nil, err
	}
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	done, err := r.Push(ctx, git.Push{URL: a.URL, Branch: a.Branch, To: a.To, Commit: a.Commit, Progress: w.progress()})
	if err == nil {
		return &Pushed{URL: a.URL, Branch: a.To, Commit: done.ID}, nil
	}
	if errors.Is(err, git.ErrRejected) || errors.Is(err, git.ErrUnreachable) {
		// An answer may have been lost, and somebody may have built on what was pushed before.
		if there, e := w.pushed(ctx, g, a); e == nil && there != nil {
			return there, nil
		}
	}
	return nil, err
}

// pushed asks the remote whether it has the commit on the branch; nil where it has not.
func (w *work) pushed(ctx context.Context, _ *guard, a pushArgs) (*Pushed, error) {
	if err := w.aim(&a); err != nil {
		return nil, err
	}
	there, err := w.cfg.Git.RemoteBranch(ctx, a.URL, a.To)
	if err != nil || there == "" {
		return nil, err
	}
	if there == a.Commit {
		return &Pushed{URL: a.URL, Branch: a.To, Commit: there}, nil
	}
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := r.Fetch(ctx, git.Source{URL: a.URL, Branch: a.To}); err != nil {
		return nil, err
	}
	// The tree's own word is not enough: what is told of the remote stands in what the remote has.
	if in, err := r.Holds(ctx, there, a.Commit); err != nil || !in {
		return nil, err
	}
	return &Pushed{URL: a.URL, Branch: a.To, Commit: there, Holds: a.Commit}, nil
}
