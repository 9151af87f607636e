package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Ref is a name and the commit it is at.
type Ref struct{ Name, ID string }

// maxBranches is how many local branches are looked at.
const maxBranches = 4096

// atRemote leaves out of a walk what the remote has. What other remotes have, whom somebody named in the tree, and what
// came of a bundle need not be there.
func atRemote() []string {
	return []string{"--not", "--exclude=refs/remotes/origin/bundle/*", "--glob=refs/remotes/origin"}
}

// Bundle writes the commits of all local branches that no branch of the remote has, as far as it was fetched or pushed
// to be known here, and gives the branches. ErrNothing means that all is there already.
func (r *Repo) Bundle(ctx context.Context, w io.Writer) ([]Ref, error) {
	refs, err := r.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("bundle: the remote has all commits: %w", ErrNothing)
	}
	args := []string{"bundle", "create", "--quiet", "-"}
	for _, ref := range refs {
		args = append(args, "refs/heads/"+ref.Name)
	}
	_, err = r.do(ctx, call{args: append(args, atRemote()...), stdout: w, limit: r.g.cfg.Limits.Pack})
	return refs, err
}

// Unpushed gives the local branches with commits that no branch of the remote has, as far as it was fetched or pushed
// to be known here.
func (h *history) Unpushed(ctx context.Context) ([]Ref, error) {
	out, err := h.run(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) > maxBranches {
		return nil, fmt.Errorf("%d local branches, the limit is %d: %w (delete some)", len(lines), maxBranches, ErrTooLarge)
	}
	var refs []Ref
	more := map[string]bool{} // by commit, where many branches are at one
	for _, l := range lines {
		id, name, ok := strings.Cut(l, " ")
		if !ok {
			continue
		}
		if _, known := more[id]; !known {
			n, err := h.line(ctx, append([]string{"rev-list", "--count", "--max-count=1", id}, atRemote()...)...)
			if err != nil {
				return nil, err
			}
			more[id] = n != "0"
		}
		if more[id] {
			refs = append(refs, Ref{strings.TrimPrefix(name, "refs/heads/"), id})
		}
	}
	return refs, nil
}

// Unbundle reads what Bundle wrote into a repository that has the commits before it. The branches are then found as
// bundle/NAME; branches of this repository are not touched. What is cut off or changed is ErrDamaged and changes
// nothing.
func (r *Repo) Unbundle(ctx context.Context, from io.Reader) ([]Ref, error) {
	at, remove, err := r.g.spooled(from)
	if err != nil {
		return nil, err
	}
	defer remove()
	heads, err := r.g.run(ctx, call{args: []string{"bundle", "list-heads", at}})
	if err != nil || strings.TrimSpace(heads) == "" {
		return nil, fmt.Errorf("unbundle: the bundle names no branch: %w", errors.Join(ErrDamaged, err))
	}
	file := &remote{url: at, scheme: "file"}
	_, err = r.do(ctx, call{args: []string{"fetch", "--prune", "--no-tags", "--no-recurse-submodules",
		"--no-auto-maintenance", "--no-write-fetch-head", "--", at, "+refs/heads/*:refs/remotes/origin/bundle/*"},
		remote: file, bound: true})
	if err != nil {
		return nil, fmt.Errorf("unbundle: %w: %w", ErrDamaged, err)
	}
	out, err := r.run(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes/origin/bundle")
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for l := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		if id, name, ok := strings.Cut(l, " "); ok {
			refs = append(refs, Ref{strings.TrimPrefix(name, "refs/remotes/origin/"), id})
		}
	}
	return refs, nil
}

// spooled writes a bundle to a file in a directory of its own, which remove takes away.
func (g *Git) spooled(from io.Reader) (at string, remove func(), err error) {
	dir, err := os.MkdirTemp(g.cfg.Temp, "inspan-bundle-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // it is in the folder for temporary files
	at = filepath.Join(dir, "b")
	if err := spool(at, from, g.cfg.Limits.Pack); err != nil {
		remove()
		return "", nil, err
	}
	return at, remove, nil
}

// bundledAt returns an error where a bundle has anything but one branch at its commit.
func (g *Git) bundledAt(ctx context.Context, at string, ref Ref) error {
	heads, err := g.run(ctx, call{args: []string{"bundle", "list-heads", at}})
	if err == nil && strings.TrimSpace(heads) != ref.ID+" refs/heads/"+ref.Name {
		err = fmt.Errorf("it is not at %.12s", ref.ID)
	}
	return err
}

// spool writes at most so many bytes to a new file.
func spool(path string, from io.Reader, limit int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(from, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("a pack has more than %d bytes: %w (raise the limit)", limit, ErrTooLarge)
	}
	if err != nil {
		return err
	}
	return f.Close()
}
