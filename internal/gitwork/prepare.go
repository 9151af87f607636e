package gitwork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/inspan/inspan/internal/git"
)

// prepareArgs are those of git_prepare.
type prepareArgs struct {
	URL           string `json:"url"`
	Branch        string `json:"branch"`
	Ref           string `json:"ref"`
	Depth         int    `json:"depth"`
	WorkingBranch string `json:"working_branch"`
	NewBranch     string `json:"new_branch"`
	// Sides are branches that are looked for, so that a merge of them can be asked for.
	Sides []string `json:"sides"`
	// Begin is the commit that NewBranch is made at, where there is none of that name.
	Begin string `json:"begin"`
	// Sync moves NewBranch on to what was asked for where that has all of it: what was done there before has landed.
	Sync bool `json:"sync"`
}

// Side is a branch and the commit that it is at.
type Side struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

// Prepared is the result of git_prepare.
type Prepared struct {
	// Branch is empty where none is checked out, Commit before the first one. Base is the commit that the work begins
	// at: that of the working branch, or of what was asked for.
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	Base   string `json:"base"`
	// Tree is what Commit has; it names the content.
	Tree   string `json:"tree,omitempty"`
	Cloned bool   `json:"cloned"`
	// Ephemeral is true for a workspace that goes with its last run.
	Ephemeral bool   `json:"ephemeral,omitempty"`
	Sides     []Side `json:"sides,omitempty"`
}

// prepare makes the tree ready to work in.
func (w *work) prepare(ctx context.Context, g *guard, a prepareArgs) (*Prepared, error) {
	for _, name := range append([]string{a.Branch, a.Ref, a.WorkingBranch, a.NewBranch}, a.Sides...) {
		if name == "" {
			continue
		}
		if err := git.CheckName(name); err != nil {
			return nil, err
		}
	}
	if err := w.allowed(a.URL); err != nil {
		return nil, err
	}
	_, local := LocalID(a.URL)
	if w.job.Ephemeral && w.job.Barred != nil && !local {
		return nil, fmt.Errorf("an ephemeral workspace: %w: %w", ErrRefused, w.job.Barred)
	}
	if err := w.current(ctx); err != nil {
		return nil, err
	}
	r, name, cloned, err := w.source(ctx, g, a)
	if err != nil || r == nil {
		return &Prepared{}, err
	}
	base, err := w.start(ctx, r, a, name)
	if !cloned && w.healed(ctx, git.Source{URL: a.URL, Branch: a.Branch, Ref: a.Ref}, err) {
		if err = g.undo(ctx, g.note); err == nil {
			base, err = w.start(ctx, r, a, name)
		}
	}
	if err != nil {
		return nil, w.unclone(cloned, err)
	}
	if a.NewBranch != "" {
		if err := r.CreateBranch(ctx, a.NewBranch, "HEAD"); err != nil {
			return nil, w.unclone(cloned, err)
		}
		if base, err = w.sync(ctx, r, a, name, base); err != nil {
			return nil, err
		}
	}
	h, tree, err := r.HeadTree(ctx)
	if err != nil {
		return nil, err
	}
	if base == "" {
		base = h.ID
	}
	done := &Prepared{Branch: h.Branch, Commit: h.ID, Base: base, Tree: tree, Cloned: cloned}
	if l, known, err := w.noted(); err == nil {
		done.Ephemeral = known && l.Passing()
	}
	refs, err := w.sides(ctx, r, a.Sides)
	for _, ref := range refs {
		done.Sides = append(done.Sides, Side{Branch: ref.Name, Commit: ref.ID})
	}
	return done, err
}

// sync moves the branch that is checked out on to the one that the work is to go to, where that has all of it and more:
// the work of before has landed there. Nothing is lost by it. Otherwise base stays.
func (w *work) sync(ctx context.Context, r *git.Repo, a prepareArgs, name, base string) (string, error) {
	if !a.Sync || name == "" || a.Begin != "" {
		return base, nil
	}
	there, err := r.Resolve(ctx, "refs/remotes/origin/"+a.Branch)
	if a.Branch == "" || errors.Is(err, git.ErrNotFound) {
		there, err = r.Resolve(ctx, name)
	}
	if err != nil {
		return base, err
	}
	here, err := r.Resolve(ctx, "HEAD")
	if err != nil || here == there {
		return base, err
	}
	if landed, err := r.Holds(ctx, there, here); err != nil || !landed {
		return base, err
	}
	if _, err = r.Merge(ctx, there, "", w.cfg.Author); err != nil {
		return base, err
	}
	return there, nil
}

// unclone takes away what a clone made that came to nothing, so that the directory is empty as it was.
func (w *work) unclone(cloned bool, err error) error {
	if !cloned {
		return err
	}
	return errors.Join(err, empty(w.job.Dir))
}

// source opens, clones or makes the repository, and brings what the remote has. name is what Checkout finds what was
// asked for by, empty for what is there. The repository is nil where there is none and none is asked for.
func (w *work) source(ctx context.Context, g *guard, a prepareArgs) (r *git.Repo, name string, cloned bool, err error) {
	src := git.Source{URL: a.URL, Branch: a.Branch, Ref: a.Ref, Depth: a.Depth, Ignore: own(), Progress: w.progress()}
	_, err = os.Lstat(filepath.Join(w.job.Dir, ".git"))
	switch there := err == nil; {
	case !there && !errors.Is(err, os.ErrNotExist):
		return nil, "", false, err
	case there:
		if err = w.present(ctx, src); err == nil {
			r, err = w.open(ctx)
		}
		if err == nil {
			err = w.own(ctx, r)
		}
		if err == nil {
			err = g.clean(ctx, r)
		}
		if err != nil {
			return nil, "", false, err
		}
	case a.URL != "":
		return w.clone(ctx, g, src)
	case a.NewBranch == "" && a.WorkingBranch == "":
		return nil, "", false, w.passing()
	default:
		if err := w.passing(); err != nil {
			return nil, "", false, err
		}
		first := a.WorkingBranch
		if first == "" {
			first = a.NewBranch
		}
		r, err = w.cfg.Git.Init(ctx, w.job.Dir, first)
		return r, "", false, err
	}
	if _, local := LocalID(a.URL); a.URL == "" || local {
		name = a.Ref
		if name == "" {
			name = a.Branch
		}
		return r, name, false, nil
	}
	name, err = w.fetch(ctx, r, src)
	return r, name, false, err
}

// passing notes a workspace of an ephemeral run that borrows nothing, where it is empty: then what will be in it is of
// such runs.
func (w *place) passing() error {
	entries, err := os.ReadDir(w.job.Dir)
	if !w.job.Ephemeral || err != nil && !errors.Is(err, os.ErrNotExist) || slices.ContainsFunc(entries, strangers) {
		return nil //nolint:nilerr // it stays, as what cannot be looked into
	}
	return w.noteClone("")
}

// strangers reports whether something at the top of a workspace is not the harness's own.
func strangers(e os.DirEntry) bool { return !slices.Contains(own(), e.Name()) }

// clone fills an empty tree; one that could not be filled is empty again.
func (w *work) clone(ctx context.Context, g *guard, src git.Source) (*git.Repo, string, bool, error) {
	entries, err := os.ReadDir(w.job.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", false, err
	}
	if slices.ContainsFunc(entries, strangers) {
		return nil, "", false, fmt.Errorf("clone into the workspace: %w (it has files and no repository: use a new session, or remove the files)", git.ErrNotEmpty)
	}
	if err := g.cloning(); err != nil {
		return nil, "", false, err
	}
	fill := func(ctx context.Context, src git.Source) (*git.Repo, error) {
		return w.cfg.Git.Clone(ctx, src, w.job.Dir)
	}
	if id, local := LocalID(src.URL); local {
		fill = func(ctx context.Context, src git.Source) (*git.Repo, error) { return w.cloneLocal(ctx, id, src.Ignore) }
	} else if w.job.Ephemeral {
		fill = w.cloneAlternates
	} else if path, err := w.path(); err == nil { // whatever was there before is not any more
		if err := Forget(w.cfg.Root, path); err != nil {
			return nil, "", false, err
		}
	}
	r, err := fill(ctx, src)
	if err != nil {
		return nil, "", false, w.unclone(true, err)
	}
	return r, "", true, nil
}

// start checks out where the work begins, and tells its commit. A branch to work on that is there is left alone: it is
// checked out as it is by whoever asked for it.
func (w *lines) start(ctx context.Context, r *git.Repo, a prepareArgs, name string) (base string, err error) {
	if a.NewBranch != "" {
		from, err := w.begun(ctx, r, a.NewBranch)
		if err != nil {
			return "", err
		}
		if from != "" {
			return w.goOn(ctx, r, a.NewBranch, from, a.WorkingBranch, name, "HEAD")
		}
	}
	if a.Begin != "" {
		if err := w.find(ctx, r, a); err != nil {
			return "", err
		}
		return w.goOn(ctx, r, a.NewBranch, a.Begin, a.WorkingBranch, name, "HEAD")
	}
	if name != "" {
		if err := w.checkout(ctx, r, name); err != nil {
			return "", err
		}
	}
	if a.WorkingBranch == "" {
		return "", nil
	}
	return "", w.onto(ctx, r, a.WorkingBranch)
}

// begun finds where work on a branch was done before: here, as it was published, or at the remote. It gives the whole
// name of the ref, empty where there is none.
func (w *lines) begun(ctx context.Context, r *git.Repo, branch string) (string, error) {
	_, err := r.Resolve(ctx, "refs/heads/"+branch)
	if err == nil {
		return "refs/heads/" + branch, nil
	}
	if !errors.Is(err, git.ErrNotFound) {
		return "", err
	}
	if err := w.bring(ctx, r, branch); err != nil {
		return "", err
	}
	found := ""
	for _, ref := range []string{git.Published + branch, "refs/remotes/origin/" + branch} {
		id, err := r.Resolve(ctx, ref)
		switch {
		case errors.Is(err, git.ErrNotFound):
			continue
		case err != nil:
			return "", err
		case found == "":
			found = ref
			continue
		}
		if ahead, err := r.IsAncestor(ctx, found, id); err != nil || ahead {
			return ref, err
		}
	}
	return found, nil
}

// goOn goes on with work that was begun, and tells the commit that it began at: where it left the first of the others
// that is there.
func (w *lines) goOn(ctx context.Context, r *git.Repo, branch, from string, others ...string) (base string, err error) {
	if base, err = r.Resolve(ctx, from); err != nil {
		return "", err
	}
	for _, other := range others {
		if other == "" {
			continue
		}
		left, err := r.MergeBase(ctx, from, other)
		if errors.Is(err, git.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		base = left
		break
	}
	if from == "refs/heads/"+branch {
		return base, nil
	}
	return base, w.create(ctx, r, branch, from)
}

// checkout checks out what has a name here, or else was published by it.
func (w *lines) checkout(ctx context.Context, r *git.Repo, name string) error {
	err := r.Checkout(ctx, name)
	if !errors.Is(err, git.ErrNotFound) {
		return err
	}
	if e := w.bring(ctx, r, name); e != nil {
		return e
	}
	if _, e := r.Resolve(ctx, git.Published+name); e != nil {
		return err
	}
	return w.create(ctx, r, name, git.Published+name)
}

// create makes a branch at a commit and checks it out, also where there was none before.
func (w *lines) create(ctx context.Context, r *git.Repo, branch, from string) error {
	h, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if h.ID == "" { // a branch without a commit is only a name
		if err := r.Checkout(ctx, from); err != nil {
			return err
		}
	}
	return r.CreateBranch(ctx, branch, from)
}

// bring takes a branch that was published, if one was.
func (w *store) bring(ctx context.Context, r *git.Repo, branch string) error {
	if err := w.take(ctx, r, branch); err != nil && !errors.Is(err, errUnpublished) {
		return err
	}
	return nil
}

// onto checks out a line of work: the branch of the repository, moved on to what was published of it; else that which
// was published, or that of the remote; else a new one from here.
func (w *lines) onto(ctx context.Context, r *git.Repo, branch string) error {
	if err := w.bring(ctx, r, branch); err != nil {
		return err
	}
	_, err := r.Resolve(ctx, "refs/heads/"+branch)
	switch {
	case err == nil:
		if err := r.Checkout(ctx, branch); err != nil {
			return err
		}
		return w.forward(ctx, r, branch)
	case !errors.Is(err, git.ErrNotFound):
		return err
	}
	for _, from := range []string{git.Published + branch, "refs/remotes/origin/" + branch} {
		_, err := r.Resolve(ctx, from)
		if err == nil {
			return w.create(ctx, r, branch, from)
		}
		if !errors.Is(err, git.ErrNotFound) {
			return err
		}
	}
	return r.CreateBranch(ctx, branch, "HEAD")
}

// forward moves the branch that is checked out on to what was published of it, where that only adds to it.
func (w *lines) forward(ctx context.Context, r *git.Repo, branch string) error {
	there, err := r.Resolve(ctx, git.Published+branch)
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	here, err := r.Resolve(ctx, "HEAD")
	if err != nil {
		return err
	}
	if adds, err := r.IsAncestor(ctx, here, there); err != nil || !adds || here == there {
		return err
	}
	_, err = r.Merge(ctx, there, "", w.cfg.Author)
	return err
}
