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

// Published begins the names of refs that Take makes: "refs/published/NAME" is found by Resolve, Merge and Checkout.
const Published = "refs/published/"

// Share writes one local branch in a form that Take reads elsewhere. With thin, what a remote has as far as is known
// here is left out, so that the reader must have it; ErrNothing means that a remote has all of it. A repository that
// has not its whole history can only be shared thin.
func (r *Repo) Share(ctx context.Context, w io.Writer, branch string, thin bool) (Ref, error) {
	if err := CheckName(branch); err != nil {
		return Ref{}, err
	}
	ref := "refs/heads/" + branch
	id, err := r.Resolve(ctx, ref)
	if err != nil {
		return Ref{}, err
	}
	args := []string{"bundle", "create", "--quiet", "-", ref}
	if thin {
		n, err := r.line(ctx, append([]string{"rev-list", "--count", id}, atRemote()...)...)
		if err != nil {
			return Ref{}, err
		}
		if n == "0" {
			return Ref{branch, id}, fmt.Errorf("share %q: the remote has all its commits: %w (fetch it from the remote)",
				short(branch), ErrNothing)
		}
		args = append(args, atRemote()...)
	}
	_, err = r.do(ctx, call{args: args, stdout: w, limit: r.g.cfg.Limits.Pack})
	return Ref{branch, id}, err
}

// Shallow reports whether the history of the repository is cut off.
func (l *layout) Shallow() bool {
	info, err := os.Lstat(filepath.Join(l.common, "shallow"))
	return err == nil && info.Size() > 0
}

// Take reads what Share wrote; the branch is then found as Published + its name, and must be at the commit of ref. What
// is cut off, changed or at another commit is ErrDamaged; where commits before it are missing it is ErrNotFound.
func (r *Repo) Take(ctx context.Context, from io.Reader, ref Ref) error {
	if err := CheckName(ref.Name); err != nil {
		return err
	}
	at, remove, err := r.g.spooled(from)
	if err != nil {
		return err
	}
	defer remove()
	if err := r.g.bundledAt(ctx, at, ref); err != nil {
		return fmt.Errorf("take %q: %w: %w", short(ref.Name), ErrDamaged, err)
	}
	_, err = r.do(ctx, call{args: []string{"fetch", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance",
		"--no-write-fetch-head", "--", at,
		"+refs/heads/" + ref.Name + ":" + Published + ref.Name}, remote: &remote{url: at, scheme: "file"},
		bound: true})
	var e *Error
	if errors.As(err, &e) && strings.Contains(e.Detail, "prerequisite") {
		return fmt.Errorf("take %q: its parent commits are missing in this repository: %w (fetch from the remote first)",
			short(ref.Name), ErrNotFound)
	}
	if err != nil && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrUnderway) && !errors.Is(err, ErrFull) &&
		ctx.Err() == nil {
		return fmt.Errorf("take %q: %w: %w", short(ref.Name), ErrDamaged, err)
	}
	return err
}

// RemoteBranch asks a remote at which commit a branch is there; empty where it has none of that name.
func (g *Git) RemoteBranch(ctx context.Context, url, branch string) (string, error) {
	rem, err := g.remote(url)
	if err != nil {
		return "", err
	}
	if err := CheckName(branch); err != nil {
		return "", err
	}
	there, err := rem.refs(ctx, "refs/heads/"+branch)
	return there["refs/heads/"+branch], err
}

// FileAddress gives the path that an address by the protocol file names; ok is false for other addresses.
func FileAddress(address string) (path string, ok bool) {
	r, err := parseRemote(address)
	if err != nil || r.scheme != "file" {
		return "", false
	}
	return strings.TrimPrefix(r.url, "file://"), true
}

// Unlock removes the lock files that a git left which was killed. It may only be called where no git can be at work in
// the tree. It returns how many there were.
func Unlock(tree string) (int, error) {
	top := filepath.Join(tree, ".git")
	info, err := os.Lstat(top)
	if err != nil || !info.IsDir() {
		return 0, nil //nolint:nilerr // there is nothing to unlock
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	n := 0
	remove := func(name string) error {
		if !strings.HasSuffix(name, ".lock") {
			return nil
		}
		if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // it went, or is no lock
		}
		n++
		return root.Remove(name)
	}
	entries, err := os.ReadDir(top)
	if err != nil {
		return n, err
	}
	for _, e := range entries {
		if err := remove(e.Name()); err != nil {
			return n, err
		}
	}
	seen := 0
	err = filepath.WalkDir(filepath.Join(top, "refs"), func(path string, d os.DirEntry, err error) error {
		if seen++; err != nil || seen > maxEntries {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil || d.IsDir() {
			return err
		}
		return remove(rel)
	})
	return n, err
}

// Mark sets a ref below Published to a commit that is here.
func (w *writer) Mark(ctx context.Context, ref, id string) error {
	name, ok := strings.CutPrefix(ref, Published)
	if err := CheckName(name); !ok || err != nil {
		return fmt.Errorf("mark %q: %w (want a name below %s)", short(ref), errors.Join(ErrName, err), Published)
	}
	_, err := w.run(ctx, "update-ref", ref, id)
	return err
}

// MergeBase finds the commit at which two lines of work parted. ErrNotFound where they share none, or one is not here.
func (h *history) MergeBase(ctx context.Context, a, b string) (string, error) {
	one, err := h.Resolve(ctx, a)
	if err != nil {
		return "", err
	}
	other, err := h.Resolve(ctx, b)
	if err != nil {
		return "", err
	}
	got, err := h.exec(ctx, call{args: []string{"merge-base", one, other}, fine: []int{1}})
	if err == nil && got.code != 0 {
		err = fmt.Errorf("%.12s and %.12s share no commit: %w (their histories are unrelated)", one, other, ErrNotFound)
	}
	id, _, _ := strings.Cut(got.out, "\n")
	return id, err
}

// Reachable reports whether a commit is in a branch, here or at the remote as far as is known.
func (h *history) Reachable(ctx context.Context, id string) (bool, error) {
	if !fullID.MatchString(id) {
		return false, fmt.Errorf("commit %q: want a full id: %w", short(id), ErrName)
	}
	n, err := h.line(ctx, append(append([]string{"rev-list", "--count", id}, atRemote()...), "--branches")...)
	return err == nil && n == "0", err
}

// Reset makes the index and the tree those of the commit that is checked out, and removes files that git does not know
// and that are not ignored. It is for a tree that was so before a git was killed in it.
func (r *Repo) Reset(ctx context.Context) error {
	if _, err := r.do(ctx, call{args: []string{"read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD"},
		bound: true}); err != nil {
		return err
	}
	s, err := r.Status(ctx)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(r.tree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range s.Changes {
		if c.Staged != '?' {
			continue
		}
		if err := root.Remove(c.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
