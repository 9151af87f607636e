package git

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Result is the branch of a run, as a bundle that Share wrote, read beside a person's repository.
type Result struct {
	g *Git
	// local may be nil: then the bundle must have the whole history.
	local *Local
	dir   string
	pack  string
	env   []string
	ref   Ref
	// keeps reports which files Undo must not remove; nil for none.
	keeps func(path string) bool
}

// Keep has Undo remove no file for which keeps returns true.
func (r *Result) Keep(keeps func(path string) bool) { r.keeps = keeps }

// Result reads a bundle into a place of its own; Close removes it. l may be nil. ErrDamaged where the bundle is not
// that of the ref, ErrNotFound where it builds on commits that the person's repository has not.
func (g *Git) Result(ctx context.Context, l *Local, from io.Reader, ref Ref) (_ *Result, err error) {
	at, remove, err := g.spooled(from)
	if err != nil {
		return nil, err
	}
	r := &Result{g: g, local: l, dir: filepath.Join(filepath.Dir(at), "r"), pack: at, ref: ref}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := g.bundledAt(ctx, at, ref); err != nil {
		return nil, fmt.Errorf("result %q: %w: %w", short(ref.Name), ErrDamaged, err)
	}
	format := "sha1"
	if len(ref.ID) == 2*sha256.Size {
		format = "sha256"
	}
	if _, err := g.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format,
		"--", r.dir}}); err != nil {
		return nil, err
	}
	if l != nil {
		objects, _ := l.Objects()
		r.env = []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(objects)}
		if text, err := readNoFollow(filepath.Join(l.common, "shallow"), maxConfig); err == nil {
			if err := os.WriteFile(filepath.Join(r.dir, "shallow"), text, 0o600); err != nil {
				return nil, err
			}
		}
	}
	_, err = g.run(ctx, call{args: []string{"bundle", "unbundle", at}, gitDir: r.dir, env: r.env, bound: true})
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Detail, "prerequisite") {
		return nil, fmt.Errorf("result %q builds on commits that are not here: %w (go to the repository that the run was started in, or fetch into this one)", short(ref.Name), ErrNotFound)
	}
	return r, err
}

// Tree is the tree of the result: it names the content of all of its files.
func (r *Result) Tree(ctx context.Context) (string, error) {
	return firstLine(r.g.run(ctx, call{args: []string{"rev-parse", "--verify", r.ref.ID + "^{tree}"}, gitDir: r.dir,
		env: r.env}))
}

// Close removes the place.
func (r *Result) Close() error { return os.RemoveAll(filepath.Dir(r.dir)) }

// Diff writes what the run changed since a commit that it began at, as git apply reads it, or only the names and how
// much of each.
func (r *Result) Diff(ctx context.Context, base string, stat bool, w io.Writer) error {
	if !fullID.MatchString(base) {
		return fmt.Errorf("commit %q: want a whole id: %w", short(base), ErrName)
	}
	args := []string{"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none", "-p",
		"--binary", "--full-index", base, r.ref.ID, "--"}
	if stat {
		args[slices.Index(args, "-p")] = "--stat=100"
		args = slices.DeleteFunc(args, func(a string) bool { return a == "--binary" || a == "--full-index" })
	}
	_, err := r.g.run(ctx, call{args: args, gitDir: r.dir, env: r.env, stdout: w})
	return err
}

// Paths are the files that the run changed since a commit.
func (r *Result) Paths(ctx context.Context, base string) ([]string, error) {
	if !fullID.MatchString(base) {
		return nil, fmt.Errorf("commit %q: want a whole id: %w", short(base), ErrName)
	}
	out, err := r.g.run(ctx, call{args: []string{"diff-tree", "-r", "--name-only", "-z", base, r.ref.ID, "--"},
		gitDir: r.dir, env: r.env})
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

// First reports whether a commit has no parent: what it stands for is a whole directory.
func (r *Result) First(ctx context.Context, base string) (bool, error) {
	if !fullID.MatchString(base) {
		return false, nil
	}
	out, err := r.g.run(ctx, call{args: []string{"rev-list", "--max-count=2", "--count", base, "--"}, gitDir: r.dir,
		env: r.env})
	return strings.TrimSpace(out) == "1", err
}

// Into names the directory that Apply changes, for a result that was read without one.
func (r *Result) Into(l *Local) { r.local = l }

// Fetch brings the branch into the person's repository, under its own name. A branch of that name that has other
// commits is ErrRejected.
func (r *Result) Fetch(ctx context.Context) error {
	if err := CheckName(r.ref.Name); err != nil {
		return err
	}
	full := "refs/heads/" + r.ref.Name
	_, err := r.local.ask(ctx, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules",
		"--no-auto-maintenance", "--no-write-fetch-head", "--no-show-forced-updates", r.pack, full+":"+full)
	if e, ok := errors.AsType[*Error](err); ok && (strings.Contains(e.Detail, "rejected") || strings.Contains(e.Detail,
		"refusing to fetch")) {
		return fmt.Errorf("branch %s is here already with other commits, or is checked out: %w (rename it: git branch -m %s OTHER)", r.ref.Name, ErrRejected, r.ref.Name)
	}
	return err
}

// Apply makes the changes of the run since a commit in the person's working tree, all or none, and commits nothing.
// ErrConflict where the files were changed at the same places; nothing was changed then.
func (r *Result) Apply(ctx context.Context, base string) error {
	at := filepath.Join(filepath.Dir(r.dir), "patch")
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Diff(ctx, base, false, f), f.Close()); err != nil {
		return err
	}
	if info, err := os.Stat(at); err != nil || info.Size() == 0 {
		return err
	}
	_, err = r.local.ask(ctx, "apply", "--whitespace=nowarn", at)
	if e, ok := errors.AsType[*Error](err); ok {
		return fmt.Errorf("%w: %w", ErrConflict, e)
	}
	return err
}

// MergeInto merges a branch that was fetched into another one, in the person's name; into is empty for the branch that
// is checked out. Nothing is changed where it cannot be done: both sides changed the same places (*ConflictError, with
// paths only), files that are not committed would be overwritten (ErrDirty), another operation is not finished
// (ErrUnderway), or the branch is checked out elsewhere.
func (l *Local) MergeInto(ctx context.Context, from, into string) (Merged, error) {
	theirs, err := l.commit(ctx, "refs/heads/"+from)
	if err != nil {
		return Merged{}, err
	}
	branch, head, err := l.Branch(ctx)
	if err != nil {
		return Merged{}, err
	}
	here := into == "" || into == branch
	ours := head
	if !here {
		if err := CheckName(into); err != nil {
			return Merged{}, err
		}
		if ours, err = l.commit(ctx, "refs/heads/"+into); err != nil {
			return Merged{}, err
		}
		if trees, err := l.ask(ctx, "worktree", "list", "--porcelain"); err != nil || strings.Contains(trees,
			"\nbranch refs/heads/"+into+"\n") {
			return Merged{}, errors.Join(err, fmt.Errorf("branch %s is checked out in another working tree: %w (merge it there)",
				into, ErrUnderway))
		}
	}
	if doing := l.Underway(); here && doing != "" {
		return Merged{}, fmt.Errorf("a %s is not finished in %s: %w (finish it, or git %s --abort)", doing, l.Root,
			ErrUnderway, doing)
	}
	m, tree, err := l.plan(ctx, ours, theirs)
	switch {
	case err != nil || m.How == "nothing":
		return m, err
	case here:
		return m, l.mergeHere(ctx, from, &m)
	}
	return l.mergeAway(ctx, m, tree, into, ours, from)
}

func (l *Local) commit(ctx context.Context, ref string) (string, error) {
	id, err := l.run(ctx, []int{1, 128}, "rev-parse", "--quiet", "--verify", "--end-of-options", ref+"^{commit}")
	if id = strings.TrimSpace(id); err == nil && id == "" {
		err = fmt.Errorf("branch %s: %w (git branch lists them)", strings.TrimPrefix(ref, "refs/heads/"), ErrNotFound)
	}
	return id, err
}

// Has reports whether a commit is what is checked out, or among the commits before it.
func (l *Local) Has(ctx context.Context, id string) (bool, error) {
	if !fullID.MatchString(id) {
		return false, nil
	}
	out, err := l.run(ctx, []int{1, 128}, "merge-base", id, "HEAD")
	return strings.TrimSpace(out) == id, err
}

// plan finds how two commits are merged, without a change to anything but objects.
func (l *Local) plan(ctx context.Context, ours, theirs string) (m Merged, tree string, err error) {
	if ours == "" {
		return Merged{ID: theirs, How: "forward"}, "", nil
	}
	base, err := l.run(ctx, []int{1}, "merge-base", ours, theirs)
	if err != nil {
		return m, "", err
	}
	switch strings.TrimSpace(base) {
	case theirs:
		return Merged{ID: ours, How: "nothing"}, "", nil
	case ours:
		return Merged{ID: theirs, How: "forward"}, "", nil
	case "":
		return m, "", fmt.Errorf("the branches share no commit: %w (take the changes alone with --squash)", ErrConflict)
	}
	out, err := l.run(ctx, []int{1}, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
	if err != nil {
		return m, "", err
	}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if len(fields) == 1 {
		return Merged{How: "merge"}, fields[0], nil
	}
	e := &ConflictError{}
	for _, p := range fields[1:] {
		if p != "" {
			e.Conflicts = append(e.Conflicts, Conflict{Path: p})
		}
	}
	return m, "", e
}

// mergeHere merges into the branch that is checked out, by the person's git: it refuses, and changes nothing, where
// files would be lost.
func (l *Local) mergeHere(ctx context.Context, from string, m *Merged) error {
	_, err := l.ask(ctx, "merge", "--quiet", "--no-edit", "--no-verify", "--no-autostash", "refs/heads/"+from)
	if e, ok := errors.AsType[*Error](err); ok {
		if _, left := os.Lstat(filepath.Join(l.gitDir, "MERGE_HEAD")); left == nil {
			_, abort := l.ask(ctx, "merge", "--abort")
			return errors.Join(e, abort)
		}
		if strings.Contains(e.Detail, "overwritten") || strings.Contains(e.Detail, "local changes") {
			return fmt.Errorf("%w: %w", ErrDirty, e)
		}
		return e
	}
	if err == nil {
		m.ID, err = l.commit(ctx, "HEAD")
	}
	return err
}

// mergeAway moves a branch that is not checked out.
func (l *Local) mergeAway(ctx context.Context, m Merged, tree, into, ours, from string) (Merged, error) {
	if m.How == "merge" {
		theirs, err := l.commit(ctx, "refs/heads/"+from)
		if err != nil {
			return m, err
		}
		id, err := l.ask(ctx, "commit-tree", tree, "-p", ours, "-p", theirs, "-m", "Merge branch '"+from+"' into "+into)
		if m.ID = strings.TrimSpace(id); err != nil {
			return m, err
		}
	}
	_, err := l.ask(ctx, "update-ref", "-m", "inspan merge: "+from, "refs/heads/"+into, m.ID, ours)
	return m, err
}
