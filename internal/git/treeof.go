package git

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
)

// CommitTree is the tree of a commit: it names the content of all of its files. It is empty for no commit.
func (w *writer) CommitTree(ctx context.Context, commit string) (string, error) {
	if commit == "" {
		return "", nil
	}
	return w.line(ctx, "rev-parse", "--verify", commit+"^{tree}")
}

// HeadTree reads where the working tree stands, and the tree of that commit, as CommitTree gives it.
func (w *writer) HeadTree(ctx context.Context) (Head, string, error) {
	return headTree(ctx, &w.history)
}

// TreeOf is the tree that a commit of the files in a directory has, which is a copy of the working tree, by the ignore
// rules in it. Neither the index nor a branch of the repository is read or changed. Paths that are left out of the copy
// are as in the commit that is checked out.
func (w *writer) TreeOf(ctx context.Context, dir string, left func(path string) bool) (string, error) {
	at, err := w.Head(ctx)
	if err != nil {
		return "", err
	}
	tree, err := realDir(dir)
	if err != nil {
		return "", err
	}
	aside, err := os.MkdirTemp(w.g.cfg.Temp, "inspan-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(aside)
	of := *w
	of.tree = tree
	c := call{env: []string{"GIT_INDEX_FILE=" + filepath.Join(aside, "index")}, private: []string{aside},
		args: []string{"read-tree", cmp.Or(at.ID, "--empty")}}
	if _, err := of.do(ctx, c); err != nil {
		return "", err
	}
	s, err := statusWith(ctx, &of.history, c)
	if err != nil {
		return "", err
	}
	s.Changes = slices.DeleteFunc(s.Changes, func(c Change) bool { return left(c.Path) })
	if err := of.stage(ctx, s, c); err != nil {
		return "", err
	}
	c.args = []string{"write-tree"}
	return firstLine(of.do(ctx, c))
}
