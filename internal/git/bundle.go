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
	_, err = r.g.run(ctx, call{args: append(args, "--not", "--remotes"), repo: r, stdout: w, limit: r.g.cfg.Limits.Pack})
	return refs, err
}

// Unpushed gives the local branches with commits that no branch of the remote has, as far as it was fetched or pushed to be
// known here.
func (r *Repo) Unpushed(ctx context.Context) ([]Ref, error) {
	out, err := r.run(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads")
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for l := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		id, name, ok := strings.Cut(l, " ")
		if !ok {
			continue
		}
		n, err := r.line(ctx, "rev-list", "--count", id, "--not", "--remotes")
		if err != nil {
			return nil, err
		}
		if n != "0" {
			refs = append(refs, Ref{strings.TrimPrefix(name, "refs/heads/"), id})
		}
	}
	return refs, nil
}

// Unbundle reads what Bundle wrote into a repository that has the commits before it. The branches are then found as
// bundle/NAME; branches of this repository are not touched. What is cut off or changed is ErrDamaged and changes nothing.
func (r *Repo) Unbundle(ctx context.Context, from io.Reader) ([]Ref, error) {
	dir, err := os.MkdirTemp(r.g.cfg.Temp, "inspan-bundle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "b")
	if err := spool(at, from, r.g.cfg.Limits.Pack); err != nil {
		return nil, err
	}
	heads, err := r.g.run(ctx, call{args: []string{"bundle", "list-heads", at}})
	if err != nil || strings.TrimSpace(heads) == "" {
		return nil, fmt.Errorf("unbundle: it names no branch: %w", errors.Join(ErrDamaged, err))
	}
	file := &remote{url: at, scheme: "file"}
	_, err = r.g.run(ctx, call{args: []string{"fetch", "--prune", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head", "--", at, "+refs/heads/*:refs/remotes/origin/bundle/*"},
		repo: r, remote: file, bound: true})
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
