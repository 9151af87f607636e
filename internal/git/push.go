package git

import (
	"context"
	"fmt"
	"strings"
)

// Push is what goes to a remote.
type Push struct {
	URL string
	// Branch is the local branch. To is its name at the remote, the same if empty. Commit, if set, is where the branch
	// must be, else the error is ErrMoved; nothing but that commit is sent.
	Branch, To, Commit string
	// Over, if set, is the commit that the remote's branch must be at: it is replaced even if history is lost by it.
	// Empty: the push only ever adds.
	Over     string
	Progress func(Progress)
}

// Pushed is what the remote has after a push.
type Pushed struct {
	// Branch at the remote, and the commit that it was asked for and found at.
	Branch, ID string
}

// Push sends a branch and asks the remote what it has then. A remote that moved on is ErrRejected, also one that takes
// the push and has another commit there.
func (r *Repo) Push(ctx context.Context, p Push) (Pushed, error) {
	rem, err := r.g.remote(p.URL)
	if err != nil {
		return Pushed{}, err
	}
	if p.To == "" {
		p.To = p.Branch
	}
	for _, name := range []string{p.Branch, p.To} {
		if err := CheckName(name); err != nil {
			return Pushed{}, err
		}
	}
	id, err := r.pushable(ctx, p.Branch, p.Commit)
	if err != nil {
		return Pushed{}, err
	}
	args := []string{"push", "--porcelain", "--progress", "--no-verify", "--no-signed", "--no-follow-tags",
		"--recurse-submodules=no", "--no-thin"}
	if p.Over != "" {
		if !fullID.MatchString(p.Over) {
			return Pushed{}, fmt.Errorf("push over %q: want a full commit id: %w", short(p.Over), ErrName)
		}
		args = append(args, "--force-with-lease=refs/heads/"+p.To+":"+p.Over)
	}
	ref := "refs/heads/" + p.To
	a, err := r.exec(ctx, call{args: append(args, "--", rem.url, id+":"+ref), remote: rem, progress: p.Progress,
		fine: []int{1}})
	if err != nil {
		return Pushed{}, err
	}
	if a.code != 0 {
		kind, hint := meaning(a.out)
		if kind == nil {
			kind, hint = ErrRejected, "read the message of the remote"
		}
		return Pushed{}, &Error{Op: "push", Exit: a.code, Kind: kind, Hint: hint, Detail: tidy(refused(a.out))}
	}
	there, err := rem.refs(ctx, ref)
	if err != nil {
		return Pushed{}, fmt.Errorf("the remote accepted the push, but its state now is unknown: %w", err)
	}
	if there[ref] != id {
		return Pushed{Branch: p.To, ID: there[ref]},
			fmt.Errorf("the remote accepted %.12s for %s and now has %q: %w (fetch and check who moved the branch)", id, p.To,
				there[ref], ErrRejected)
	}
	// So that Bundle knows what is there.
	if _, err := r.run(ctx, "update-ref", "refs/remotes/origin/"+p.To, id); err != nil {
		return Pushed{}, err
	}
	return Pushed{Branch: p.To, ID: id}, nil
}

// pushable is the commit of a branch, which must be the one that is meant if that is named.
func (w *writer) pushable(ctx context.Context, branch, commit string) (string, error) {
	id, err := w.Resolve(ctx, "refs/heads/"+branch)
	if err == nil && commit != "" && commit != id {
		err = fmt.Errorf("push %s: the branch is at %.12s and not at %.12s: %w (inspect the new commits, and push that commit)", branch, id, commit, ErrMoved)
	}
	return id, err
}

// refused gives the lines of push --porcelain that tell about refs that were not taken.
func refused(out string) string {
	var lines []string
	for l := range strings.SplitSeq(out, "\n") {
		if strings.HasPrefix(l, "!") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "\n")
}
