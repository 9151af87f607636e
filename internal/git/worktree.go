package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Worktree is another working tree of the same repository.
type Worktree struct {
	// Dir is its top, Branch empty where a commit is checked out.
	Dir, Branch, ID string
	// Missing is true where its directory is not there any more.
	Missing bool
}

// AddWorktree makes a working tree in dir, which must be empty or not be there, on a new branch at a commit. It shares
// objects and refs with this one and has files and an index of its own.
func (r *Repo) AddWorktree(ctx context.Context, dir, branch, from string) (*Repo, error) {
	if err := CheckName(branch); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("worktree %q: want an absolute path: %w", short(dir), ErrName)
	}
	id, err := r.Resolve(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := r.bounded(ctx, id); err != nil {
		return nil, err
	}
	if err := r.mkdir("worktrees"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if dir, err = realDir(dir); err != nil {
		return nil, err
	}
	if _, err := r.do(ctx, call{args: []string{"worktree", "add", "--quiet", "--no-track", "--no-guess-remote", "-b",
		branch, "--", dir, id}, tree: dir, bound: true}); err != nil {
		return nil, err
	}
	if err := r.point(dir); err != nil {
		return nil, err
	}
	return r.Worktree(ctx, dir)
}

// point makes a new working tree's .git file name the repository: git wrote down what stood in for it.
func (l *layout) point(dir string) error {
	text, err := readNoFollow(filepath.Join(dir, ".git"), maxPointer)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:")))
	return root.WriteFile(".git", []byte("gitdir: "+filepath.Join(l.common, "worktrees", name)+"\n"), 0o644)
}

// Worktree opens a working tree that was added to this repository. Its .git file must point into this repository and
// the repository back at it, else the error is ErrHostile.
func (r *Repo) Worktree(ctx context.Context, dir string) (*Repo, error) {
	tree, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	text, err := readNoFollow(filepath.Join(tree, ".git"), maxPointer)
	if err != nil {
		return nil, fmt.Errorf("worktree %s: %w", tree, errors.Join(err, ErrNotRepository))
	}
	at := strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
	if filepath.Dir(at) != filepath.Join(r.common, "worktrees") {
		return nil, fmt.Errorf("worktree %s points to %q and not into %s: %w (remove and add it again)", tree, short(at),
			r.common, ErrHostile)
	}
	w := &Repo{writer: r.writer}
	w.tree, w.gitDir = tree, at
	if err := r.check(); err != nil {
		return nil, err
	}
	back, err := readNoFollow(filepath.Join(at, "gitdir"), maxPointer)
	if err != nil || strings.TrimSpace(string(back)) != filepath.Join(tree, ".git") {
		return nil, fmt.Errorf("worktree %s does not match the record of its repository: %w (remove and add it again)", tree,
			errors.Join(err, ErrHostile))
	}
	return w, w.check()
}

// Worktrees lists all working trees, the main one first.
func (h *history) Worktrees(ctx context.Context) ([]Worktree, error) {
	out, err := h.run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	var all []Worktree
	for entry := range strings.SplitSeq(out, "\x00\x00") {
		var w Worktree
		for l := range strings.SplitSeq(entry, "\x00") {
			key, value, _ := strings.Cut(l, " ")
			switch key {
			case "worktree":
				w.Dir = value
			case "HEAD":
				w.ID = value
			case "branch":
				w.Branch = strings.TrimPrefix(value, "refs/heads/")
			case "prunable":
				w.Missing = true
			}
		}
		if w.Dir != "" {
			all = append(all, w)
		}
	}
	if len(all) > 0 { // git told of what stood in for it
		main := *h
		main.tree, main.gitDir = filepath.Dir(h.common), h.common
		head, err := main.Head(ctx)
		if err != nil {
			return nil, err
		}
		all[0] = Worktree{Dir: main.tree, Branch: head.Branch, ID: head.ID}
	}
	return all, nil
}

// RemoveWorktree removes a working tree and keeps its branch. One with changes is ErrDirty unless force is set. One
// that is gone is forgotten.
func (r *Repo) RemoveWorktree(ctx context.Context, dir string, force bool) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		_, err := r.run(ctx, "worktree", "prune")
		return err
	}
	w, err := r.Worktree(ctx, dir)
	if err != nil {
		return err
	}
	if !force {
		s, err := w.Status(ctx)
		if err != nil {
			return err
		}
		if !s.Clean() {
			return fmt.Errorf("remove worktree %s: %w (commit the changes, or force the removal)", dir, ErrDirty)
		}
	}
	// Asked to do it, git would start another git with the settings of that tree.
	if err := os.RemoveAll(w.tree); err != nil {
		return err
	}
	return r.inside(func(root *os.Root, top string) error {
		return root.RemoveAll(filepath.Join(top, "worktrees", filepath.Base(w.gitDir)))
	})
}
