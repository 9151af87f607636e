package gitwork

import (
	"context"
	"errors"
	"fmt"

	"github.com/inspan/inspan/internal/git"
)

type mergeArgs struct {
	From    []string `json:"from"`
	Into    string   `json:"into"`
	Message string   `json:"message"`
	// Onto and Commits are what a person was shown: where the branch that is merged into is (none before its first
	// commit), and where each of From is. Where one has moved on nothing is merged.
	Onto    string   `json:"onto"`
	Commits []string `json:"commits"`
}

// ontoNone stands for a branch that has no commit yet.
const ontoNone = "none"

// Merged is the result of git_merge.
type Merged struct {
	// Commit is where the branch is now.
	Commit string `json:"commit"`
	Branch string `json:"branch"`
	// Merged are the branches that are in it; Conflicts are those that are not, each kept as it is.
	Merged    []MergedBranch `json:"merged"`
	Conflicts []Conflict     `json:"conflicts,omitempty"`
	// Moved are the sides that are not where they were meant to be: then nothing was merged.
	Moved []MovedSide `json:"moved,omitempty"`
}

// MovedSide is a branch that is not at the commit that was to be merged.
type MovedSide struct {
	Branch string `json:"branch"`
	Was    string `json:"was"`
	Is     string `json:"is"`
}

// MergedBranch is one that is in the other now.
type MergedBranch struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// How is nothing, forward or merge.
	How string `json:"how"`
}

// Conflict is a branch that people or agents must merge.
type Conflict struct {
	Branch string `json:"branch"`
	// Ours and Theirs are the two commits.
	Ours   string         `json:"ours"`
	Theirs string         `json:"theirs"`
	Paths  []ConflictPath `json:"paths"`
	// More counts paths that are left out here.
	More int `json:"more,omitempty"`
}

// ConflictPath is a file that both sides changed, with the ids of its contents; empty where a side has no such file.
type ConflictPath struct {
	Path   string `json:"path"`
	Base   string `json:"base,omitempty"`
	Ours   string `json:"ours,omitempty"`
	Theirs string `json:"theirs,omitempty"`
}

// shorten leaves out half of the longest list of paths.
func (m *Merged) shorten() bool {
	most := -1
	for i, c := range m.Conflicts {
		if len(c.Paths) > 0 && (most < 0 || len(c.Paths) > len(m.Conflicts[most].Paths)) {
			most = i
		}
	}
	if most < 0 {
		return false
	}
	c := &m.Conflicts[most]
	keep := len(c.Paths) / 2
	c.More += len(c.Paths) - keep
	c.Paths = c.Paths[:keep]
	return true
}

// merge merges branches one after the other; one that conflicts is told and left as it is.
func (w *work) merge(ctx context.Context, g *guard, a mergeArgs) (*Merged, error) {
	names := a.From
	if a.Into != "" {
		names = append([]string{a.Into}, names...)
	}
	for _, name := range names {
		if err := git.CheckName(name); err != nil {
			return nil, err
		}
	}
	if len(a.From) == 0 {
		return nil, fmt.Errorf("merge: no branch given: %w (name at least one)", git.ErrName)
	}
	r, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	from, err := w.sides(ctx, r, a.From)
	if err != nil {
		return nil, err
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	if moved, err := w.moved(ctx, r, a, from); err != nil || len(moved) > 0 {
		return w.standing(ctx, r, moved, err)
	}
	if err := g.clean(ctx, r); err != nil {
		return nil, err
	}
	if err := w.into(ctx, r, a.Into, from); err != nil {
		return nil, err
	}
	out := &Merged{Merged: []MergedBranch{}}
	for _, ref := range from {
		if err := w.join(ctx, r, ref, a.Message, out); err != nil {
			return nil, err
		}
	}
	h, err := r.Head(ctx)
	out.Commit, out.Branch = h.ID, h.Branch
	return out, err
}

// sides finds branches, in their order.
func (w *lines) sides(ctx context.Context, r *git.Repo, names []string) ([]git.Ref, error) {
	from := make([]git.Ref, 0, len(names))
	for _, name := range names {
		ref, err := w.side(ctx, r, name)
		if err != nil {
			return nil, err
		}
		from = append(from, ref)
	}
	return from, nil
}

// standing is the result of a merge that was not made because sides have moved.
func (w *lines) standing(ctx context.Context, r *git.Repo, moved []MovedSide, err error) (*Merged, error) {
	if err != nil {
		return nil, err
	}
	h, err := r.Head(ctx)
	return &Merged{Commit: h.ID, Branch: h.Branch, Merged: []MergedBranch{}, Moved: moved}, err
}

// moved are the sides that are not where the call wants them. What this very merge has done before does not count: a
// commit that is in already stays the one that is meant, wherever its branch is by now.
func (w *lines) moved(ctx context.Context, r *git.Repo, a mergeArgs, from []git.Ref) (all []MovedSide, err error) {
	if len(a.Commits) > 0 && len(a.Commits) != len(from) {
		return nil, fmt.Errorf("merge of %d branches at %d commits: %w (name one commit for each, in their order)",
			len(from), len(a.Commits), git.ErrName)
	}
	onto, err := w.target(ctx, r, a.Into)
	if err != nil {
		return nil, err
	}
	for i, id := range a.Commits {
		if from[i].ID == id {
			continue
		}
		in, err := has(ctx, r, onto, id)
		if err != nil {
			return nil, err
		}
		if !in {
			all = append(all, MovedSide{Branch: from[i].Name, Was: id, Is: from[i].ID})
			continue
		}
		from[i].ID = id
	}
	if a.Onto == "" {
		return all, nil
	}
	if onto.ID == "" && a.Onto == ontoNone {
		return all, nil
	}
	same := false
	if onto.ID != "" && a.Onto != ontoNone {
		if same, err = r.Grown(ctx, onto.ID, a.Onto, a.Commits); errors.Is(err, git.ErrNotFound) {
			err = nil // it is nowhere here
		}
	}
	if !same && err == nil {
		all = append(all, MovedSide{Branch: onto.Branch, Was: a.Onto, Is: onto.ID})
	}
	return all, err
}

// target is the branch that others are merged into. One that is nowhere yet begins where the tree stands.
func (w *lines) target(ctx context.Context, r *git.Repo, into string) (git.Head, error) {
	h, err := r.Head(ctx)
	if err != nil || into == "" || into == h.Branch {
		return h, err
	}
	ref, err := w.side(ctx, r, into)
	if errors.Is(err, git.ErrNotFound) {
		return h, nil
	}
	return git.Head{Branch: into, ID: ref.ID}, err
}

// has reports whether a branch has a commit; it has none that is nowhere here.
func has(ctx context.Context, r *git.Repo, at git.Head, id string) (bool, error) {
	if at.ID == "" {
		return false, nil
	}
	in, err := r.IsAncestor(ctx, id, at.ID)
	if errors.Is(err, git.ErrNotFound) {
		return false, nil
	}
	return in, err
}

// join merges one branch and notes what came of it.
func (w *lines) join(ctx context.Context, r *git.Repo, ref git.Ref, message string, out *Merged) error {
	if message == "" {
		message = "Merge branch '" + ref.Name + "'"
	}
	done, err := r.Merge(ctx, ref.ID, message, w.cfg.Author)
	if e, ok := errors.AsType[*git.ConflictError](err); ok {
		c := Conflict{Branch: ref.Name, Ours: e.Ours, Theirs: e.Theirs, Paths: []ConflictPath{}}
		for _, p := range e.Conflicts {
			c.Paths = append(c.Paths, ConflictPath{Path: p.Path, Base: p.Base.ID, Ours: p.Ours.ID, Theirs: p.Theirs.ID})
		}
		out.Conflicts = append(out.Conflicts, c)
		return nil
	}
	if err != nil {
		return err
	}
	out.Merged = append(out.Merged, MergedBranch{Branch: ref.Name, Commit: ref.ID, How: done.How})
	return nil
}

// into checks out the branch that others are merged into. One that is nowhere yet begins where the tree stands, or at
// the first of them where it stands nowhere.
func (w *lines) into(ctx context.Context, r *git.Repo, branch string, from []git.Ref) error {
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	if branch == "" || branch == s.Head.Branch && s.Head.ID != "" {
		return nil
	}
	if !s.Clean() {
		return fmt.Errorf("merge into %s: %w (commit the changes, or finish the operation in progress)", branch, git.ErrDirty)
	}
	_, err = w.side(ctx, r, branch)
	switch {
	case err == nil:
		return w.onto(ctx, r, branch)
	case !errors.Is(err, git.ErrNotFound):
		return err
	}
	if s.Head.ID == "" {
		return w.create(ctx, r, branch, from[0].ID)
	}
	return r.CreateBranch(ctx, branch, "HEAD")
}

// side finds a branch: of this repository, of those that were published, or of the remote.
func (w *lines) side(ctx context.Context, r *git.Repo, name string) (git.Ref, error) {
	id, err := r.Resolve(ctx, "refs/heads/"+name)
	if err == nil || !errors.Is(err, git.ErrNotFound) {
		return git.Ref{Name: name, ID: id}, err
	}
	if err := w.bring(ctx, r, name); err != nil {
		return git.Ref{}, err
	}
	for _, ref := range []string{git.Published + name, "refs/remotes/origin/" + name} {
		id, err := r.Resolve(ctx, ref)
		if err == nil || !errors.Is(err, git.ErrNotFound) {
			return git.Ref{Name: name, ID: id}, err
		}
	}
	return git.Ref{}, fmt.Errorf("branch %q: %w (neither in the repository nor published: git_publish it in the run that has it)", name, git.ErrNotFound)
}
