package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Blob is one side's content of a path.
type Blob struct {
	// ID is empty where the side has no such file. Mode is git's, such as 100644.
	ID, Mode string
}

// Conflict is a path that two sides changed. The three contents stay in the repository: see Repo.Read.
type Conflict struct {
	Path               string
	Base, Ours, Theirs Blob
}

// Merged is what Merge did.
type Merged struct {
	// ID is the commit that the branch is at.
	ID string
	// How is "nothing" where the other was merged before, "forward" where the branch could just move on, or "merge".
	How string
}

// Merge merges a branch or commit into the branch that is checked out, whose tree must be clean (else ErrDirty). It is
// worked out without the working tree: a conflict is a *ConflictError with all its paths, and nothing was changed.
func (r *Repo) Merge(ctx context.Context, other, message string, who Author) (Merged, error) {
	env, err := who.env()
	if err != nil {
		return Merged{}, err
	}
	s, err := r.Status(ctx)
	switch {
	case err != nil:
		return Merged{}, err
	case !s.Clean():
		return Merged{}, fmt.Errorf("merge: %w (commit the changes, or finish the operation in progress)", ErrDirty)
	case s.Head.ID == "":
		return Merged{}, fmt.Errorf("merge into a branch without a commit: %w (commit or check out first)", ErrNotFound)
	}
	theirs, err := r.Resolve(ctx, other)
	if err != nil {
		return Merged{}, err
	}
	ours := s.Head.ID
	base, err := r.exec(ctx, call{args: []string{"merge-base", ours, theirs}, fine: []int{1}})
	if err != nil {
		return Merged{}, err
	}
	switch strings.TrimSpace(base.out) { // one that is before the other is all that they share
	case theirs:
		return Merged{ID: ours, How: "nothing"}, nil
	case ours:
		return Merged{ID: theirs, How: "forward"}, r.advance(ctx, ours, theirs, "merge: forward")
	}
	tree, err := r.mergeTree(ctx, ours, theirs)
	if err != nil {
		return Merged{}, err
	}
	if message == "" {
		message = "Merge " + other
	}
	id, err := r.record(ctx, tree, []string{ours, theirs}, message, env)
	if err != nil {
		return Merged{}, err
	}
	return Merged{ID: id, How: "merge"}, r.advance(ctx, ours, id, "merge")
}

// Grown reports whether a commit is another one, or what comes of that by nothing but clean merges of some of the
// sides.
func (w *writer) Grown(ctx context.Context, commit, from string, sides []string) (bool, error) {
	for _, id := range append([]string{commit, from}, sides...) {
		if !fullID.MatchString(id) {
			return false, fmt.Errorf("commit %q: want a full id: %w", short(id), ErrName)
		}
	}
	if commit == from {
		return true, nil
	}
	if in, err := w.IsAncestor(ctx, from, commit); err != nil || !in {
		return false, err
	}
	args := append([]string{"rev-list", "--parents", fmt.Sprintf("--max-count=%d", len(sides)+1), commit, "--not", from},
		sides...)
	out, err := w.run(ctx, args...)
	if err != nil {
		return false, err
	}
	all := strings.Split(strings.TrimSpace(out), "\n")
	if len(all) > len(sides) {
		return false, nil
	}
	for _, line := range all {
		ids := strings.Fields(line)
		if len(ids) == 0 {
			continue
		}
		if len(ids) != 3 {
			return false, nil
		}
		clean, err := w.mergeTree(ctx, ids[1], ids[2])
		if errors.Is(err, ErrConflict) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if tree, err := w.line(ctx, "rev-parse", "--verify", ids[0]+"^{tree}"); err != nil || tree != clean {
			return false, err
		}
	}
	return true, nil
}

// advance moves the tree and then the branch. In between the tree is ahead of the branch, which Status shows.
func (w *writer) advance(ctx context.Context, from, to, why string) error {
	if err := w.bounded(ctx, to); err != nil {
		return err
	}
	// A file that was only touched is no change.
	if _, err := w.exec(ctx, call{args: []string{"update-index", "-q", "--refresh"}, fine: []int{1}}); err != nil {
		return err
	}
	if _, err := w.do(ctx, call{args: []string{"read-tree", "-m", "-u", "--no-recurse-submodules", from, to},
		bound: true}); err != nil {
		return err
	}
	return w.move(ctx, "HEAD", to, from, why)
}

// mergeTree works out a merge and gives its tree.
func (w *writer) mergeTree(ctx context.Context, ours, theirs string) (string, error) {
	a, err := w.exec(ctx, call{args: []string{"merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs},
		fine: []int{1}, bound: true})
	if err != nil {
		return "", err
	}
	entries := strings.Split(strings.TrimRight(a.out, "\x00\n"), "\x00")
	if !fullID.MatchString(entries[0]) {
		return "", fmt.Errorf("merge %.12s and %.12s: %w (they share no commit, or the output of git is unexpected)", ours,
			theirs, ErrConflict)
	}
	if a.code == 0 {
		return entries[0], nil
	}
	e := &ConflictError{Ours: ours, Theirs: theirs, Marked: entries[0]}
	at := map[string]int{}
	for _, entry := range entries[1:] {
		meta, path, ok := strings.Cut(entry, "\t")
		f := strings.Fields(meta)
		if !ok || len(f) != 3 {
			continue
		}
		i, seen := at[path]
		if !seen {
			i = len(e.Conflicts)
			at[path] = i
			e.Conflicts = append(e.Conflicts, Conflict{Path: path})
		}
		c := &e.Conflicts[i]
		for stage, side := range map[string]*Blob{"1": &c.Base, "2": &c.Ours, "3": &c.Theirs} {
			if f[2] == stage {
				*side = Blob{ID: f[1], Mode: f[0]}
			}
		}
	}
	return "", e
}

// Read gives the content of a blob by its id, at most limit bytes, else ErrTooLarge.
func (h *history) Read(ctx context.Context, id string, limit int64) ([]byte, error) {
	if !fullID.MatchString(id) {
		return nil, fmt.Errorf("blob %q: want a full id: %w", short(id), ErrName)
	}
	var b bytes.Buffer
	_, err := h.do(ctx, call{args: []string{"cat-file", "blob", id}, stdout: &b, limit: limit})
	return b.Bytes(), err
}

// ReadAt gives the content of a file in a commit or tree by its path.
func (h *history) ReadAt(ctx context.Context, id, path string, limit int64) ([]byte, error) {
	if !fullID.MatchString(id) {
		return nil, fmt.Errorf("commit %q: want a full id: %w", short(id), ErrName)
	}
	out, err := h.run(ctx, "ls-tree", "-z", "--full-tree", id, "--", path)
	if err != nil {
		return nil, err
	}
	if f := strings.Fields(strings.SplitN(out, "\t", 2)[0]); len(f) == 3 && f[1] == "blob" {
		return h.Read(ctx, f[2], limit)
	}
	return nil, fmt.Errorf("%.12s has no file %q: %w (list its files)", id, short(path), ErrNotFound)
}
