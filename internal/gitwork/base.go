package gitwork

import (
	"context"
	"errors"

	"github.com/inspan/inspan/internal/git"
)

// File is a file of a commit.
type File = git.File

// Files gives files of a commit from the repository of a workspace, as git.Repo.Files does. It only reads, and so waits
// for no other work in the workspace.
func (d *Desk) Files(ctx context.Context, dir, commit string, want func(path string) bool,
	take func(File) error) error {
	r, err := d.reader(ctx, dir)
	if err != nil {
		return err
	}
	return r.Files(ctx, commit, want, take)
}

// Standing is what a repository has checked out.
type Standing struct {
	// Commit is empty before the first one.
	Commit string
	// Branch is empty where none is checked out.
	Branch string
	// Ahead says that Commit is another one than the base and has it among its ancestors, Clean that no file differs.
	Ahead, Clean bool
}

// Standing says what the repository of a workspace has checked out; base may be empty for a run that began without a
// commit.
func (d *Desk) Standing(ctx context.Context, dir, base string) (s Standing, err error) {
	r, err := d.reader(ctx, dir)
	if err != nil {
		return s, err
	}
	status, err := r.FreshStatus(ctx)
	if err != nil {
		return s, err
	}
	s.Commit, s.Branch, s.Clean = status.Head.ID, status.Head.Branch, status.Clean()
	if s.Ahead = s.Commit != "" && s.Commit != base; s.Ahead && base != "" {
		s.Ahead, err = r.Holds(ctx, s.Commit, base)
	}
	return s, err
}

// TreeOf is the tree that a commit of the files in a copy of a workspace has, by the ignore rules among them and the
// repository of the workspace; empty where that has none. What is left out of the copy is as in the commit that is
// checked out.
func (d *Desk) TreeOf(ctx context.Context, dir, copied string, left func(path string) bool) (string, error) {
	r, err := d.reader(ctx, dir)
	if errors.Is(err, errNone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return r.TreeOf(ctx, copied, left)
}

func (d *Desk) reader(ctx context.Context, dir string) (*git.Repo, error) {
	if err := d.probe(ctx); err != nil {
		return nil, err
	}
	return d.work(Job{Dir: dir}).open(ctx)
}
