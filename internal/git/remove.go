package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Limits of a proof by patches: how many commits of a branch, and of the one that it is looked for in, are compared.
const (
	maxPatches = 256
	maxWay     = 4096
)

// How a commit is in a branch.
const (
	// InHistory: the branch has the commit. Rebased: it has each of its changes, in commits of its own. Squashed: it has
	// all of them in one commit.
	InHistory = "history"
	Rebased   = "rebased"
	Squashed  = "squashed"
)

// Removal is a branch of a remote that is to go.
type Removal struct {
	URL string
	// Branch must be at Commit, and Into must have what that changed.
	Branch, Commit, Into string
}

// Removed is what became of it.
type Removed struct {
	// How its commit is in the other branch, which was at Tip.
	How, Tip string
	// Before is true where the remote had no such branch.
	Before bool
}

// Remove takes a branch away from a remote whose commit is proven to be in another branch of it, and asks the remote
// what it has then. A branch that is at another commit is ErrMoved, one that is not proven to be merged ErrUnmerged:
// both stay.
func (r *Repo) Remove(ctx context.Context, p Removal) (done Removed, err error) {
	for _, name := range []string{p.Branch, p.Into} {
		if err := CheckName(name); err != nil {
			return done, err
		}
	}
	if p.Branch == p.Into || !fullID.MatchString(p.Commit) {
		return done, fmt.Errorf("remove %s at %q, merged into %s: %w (name two branches and the full id of a commit)",
			p.Branch, short(p.Commit), p.Into, ErrName)
	}
	rem, err := r.g.remote(p.URL)
	if err != nil {
		return done, err
	}
	ref, into := "refs/heads/"+p.Branch, "refs/heads/"+p.Into
	there, err := rem.refs(ctx, ref, into)
	if err != nil {
		return done, err
	}
	switch is := there[ref]; {
	case is == "":
		return Removed{Before: true}, nil
	case is != p.Commit:
		return done, fmt.Errorf("remove %s: it is at %.12s and not at %.12s: %w (somebody worked on it; it stays)", p.Branch,
			is, p.Commit, ErrMoved)
	}
	if _, err := r.Fetch(ctx, Source{URL: p.URL, Branch: p.Into}); err != nil {
		return done, err
	}
	if done.Tip, err = r.Resolve(ctx, "refs/remotes/origin/"+p.Into); err != nil {
		return done, err
	}
	if done.How, err = (proof{&r.history}).merged(ctx, done.Tip, p.Commit); err == nil && done.How == "" {
		err = fmt.Errorf("remove %s: %s has not all that %.12s changes: %w (it stays)", p.Branch, p.Into, p.Commit,
			ErrUnmerged)
	}
	if err != nil {
		return done, err
	}
	a, err := r.exec(ctx, call{args: []string{"push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags",
		"--recurse-submodules=no",
		"--force-with-lease=" + ref + ":" + p.Commit, "--", rem.url, ":" + ref}, remote: rem, fine: []int{1}})
	if err != nil {
		return done, err
	}
	if a.code != 0 {
		kind, hint := meaning(a.out)
		if kind == nil {
			kind, hint = ErrRejected, "read the message of the remote"
		}
		return done, &Error{Op: "push", Exit: a.code, Kind: kind, Hint: hint, Detail: tidy(refused(a.out))}
	}
	if there, err = rem.refs(ctx, ref); err != nil {
		return done, fmt.Errorf("the remote accepted the removal, but its state now is unknown: %w", err)
	}
	if is := there[ref]; is != "" {
		return done, fmt.Errorf("the remote accepted the removal of %s, which is at %.12s now: %w", p.Branch, is, ErrRejected)
	}
	return done, nil
}

// proof compares what commits change.
type proof struct{ *history }

// merged says how a branch, whose last commit is tip, has what a commit and those before it changed; "" where that is
// not proven.
func (h proof) merged(ctx context.Context, tip, commit string) (how string, err error) {
	if in, err := h.Holds(ctx, tip, commit); err != nil || in {
		return InHistory, err
	}
	base, err := h.MergeBase(ctx, tip, commit)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	own, err := h.patches(ctx, maxPatches, base+".."+commit)
	if err != nil || len(own) == 0 {
		return "", err
	}
	theirs, err := h.patches(ctx, maxWay, base+".."+tip)
	if err != nil {
		return "", err
	}
	all := true
	for id := range own {
		all = all && theirs[id]
	}
	if all {
		return Rebased, nil
	}
	whole, err := h.patchIDs(ctx, "diff-tree", "-p", base, commit)
	for id := range whole {
		if err == nil && theirs[id] {
			return Squashed, nil
		}
	}
	return "", err
}

// patches are the ids of the changes of a range of commits; none where there are more than so many, or a merge is among
// those of a branch, whose changes no single patch shows.
func (h proof) patches(ctx context.Context, most int, span string) (map[string]bool, error) {
	args := []string{"rev-list", fmt.Sprintf("--max-count=%d", most+1), span}
	if most == maxWay {
		args = append(args, "--no-merges")
	}
	list, err := h.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(list)
	if len(ids) > most {
		return nil, nil
	}
	out, err := h.patchIDs(ctx, "diff-tree", "-p", "--stdin", list)
	if most == maxPatches && len(out) != len(ids) {
		return nil, err // one changes nothing, or is a merge
	}
	return out, err
}

// patchIDs are the ids of the patches that a command prints, whose standard input follows --stdin.
func (h proof) patchIDs(ctx context.Context, args ...string) (map[string]bool, error) {
	var in string
	if n := len(args); args[n-2] == "--stdin" {
		in, args = args[n-1], args[:n-1]
	}
	head := append([]string{args[0], "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", "--binary"},
		args[1:]...)
	var patch bytes.Buffer
	if _, err := h.do(ctx, call{args: head, stdin: strings.NewReader(in), stdout: &patch}); err != nil {
		return nil, err
	}
	var ids bytes.Buffer
	if _, err := h.do(ctx, call{args: []string{"patch-id", "--stable"}, stdin: &patch, stdout: &ids}); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(ids.String()) {
		if id, _, ok := strings.Cut(line, " "); ok && fullID.MatchString(id) {
			out[id] = true
		}
	}
	return out, nil
}
