package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CloneBase makes dir, which must be empty or not be there but for the names to ignore, a repository at a Base, without
// a remote: it reads the objects of the person's repository and writes into its own. pack is what Local.Base wrote.
func (g *Git) CloneBase(ctx context.Context, b Base, pack io.Reader, dir string, ignore []string) (*Repo, error) {
	if !(Source{Ignore: ignore}).empty(dir) {
		return nil, fmt.Errorf("clone into %s: %w (choose an empty directory)", dir, ErrNotEmpty)
	}
	if !fullID.MatchString(b.Commit) || b.Head != "" && !fullID.MatchString(b.Head) {
		return nil, fmt.Errorf("clone of %s: its commits have no ids: %w", b.Root, ErrDamaged)
	}
	r, err := g.Init(ctx, dir, "main")
	if err != nil {
		return nil, err
	}
	if b.Objects != "" {
		if info, err := os.Lstat(b.Objects); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("clone of %s: %w: %w (the repository was moved or removed)", b.Root, ErrNotFound,
				errors.Join(err, errNoLender))
		}
		if err := os.MkdirAll(filepath.Dir(r.alternates()), 0o755); err != nil {
			return nil, err
		}
		r.lender = b.Objects
		if err := os.WriteFile(r.alternates(), []byte(b.Objects+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	if b.Shallow != "" {
		if err := os.WriteFile(filepath.Join(r.common, "shallow"), []byte(b.Shallow), 0o644); err != nil {
			return nil, err
		}
	}
	known := func() error { // the person has it: it is never sent back
		if b.Head == "" {
			return nil
		}
		_, err := r.run(ctx, "update-ref", "refs/remotes/origin/person", b.Head)
		return err
	}
	if b.Objects != "" { // what is in the pack comes after it
		if err := known(); err != nil {
			return nil, err
		}
	}
	if b.Pack {
		if err := r.Take(ctx, pack, Ref{Name: baseBranch, ID: b.Commit}); err != nil {
			return nil, err
		}
	}
	if err := known(); err != nil {
		return nil, err
	}
	return r, r.Checkout(ctx, b.Commit)
}
