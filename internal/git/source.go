package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Source is where the content of a working tree comes from.
type Source struct {
	// URL by https or ssh, as Config.Protocols allows, without a password.
	URL string
	// Branch to check out. Empty, with an empty Ref: the remote's own.
	Branch string
	// Ref is a branch, a tag, a commit id or a ref such as pull/12/head. It wins over Branch.
	Ref string
	// Depth, if not 0, is how many commits of history are fetched.
	Depth int
	// Ignore are names at the top of the directory that a clone leaves alone: it counts as empty with them.
	Ignore []string
	// Progress, if set, is called with how far the transfer is.
	Progress func(Progress)
}

// check finds the remote and the name that is wanted.
func (g *Git) check(s Source) (*remote, string, error) {
	rem, err := g.remote(s.URL)
	if err != nil {
		return nil, "", err
	}
	if s.Depth < 0 {
		return nil, "", fmt.Errorf("depth %d: %w (want 0 for all, or a positive number)", s.Depth, ErrName)
	}
	want := s.Ref
	if want == "" {
		want = s.Branch
	}
	if want != "" {
		err = CheckName(want)
	}
	return rem, want, err
}

// Clone makes dir a clone: it must be empty or not be there. What was interrupted can be gone on with by Prepare.
func (g *Git) Clone(ctx context.Context, s Source, dir string) (*Repo, error) {
	rem, _, err := g.check(s)
	if err != nil {
		return nil, err
	}
	if !s.empty(dir) {
		return nil, fmt.Errorf("clone into %s: %w (choose an empty directory, or prepare the existing repository)", dir,
			ErrNotEmpty)
	}
	r, err := g.Init(ctx, dir, "main")
	if err != nil {
		return nil, err
	}
	if err := r.origin(rem.url); err != nil {
		return nil, err
	}
	return r, r.follow(ctx, s)
}

// origin notes the remote for those who use git in the tree. It is not read here.
func (l *layout) origin(url string) error {
	config := fmt.Sprintf("[remote \"origin\"]\n\turl = \"%s\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", url)
	f, err := os.OpenFile(filepath.Join(l.common, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(config)
	return errors.Join(err, f.Close())
}

// Prepare makes dir ready: an empty one is cloned into, one that has a repository is fetched for and checked out, which
// needs it to be without changes where they would be overwritten. With an empty URL the repository is used as it is.
func (g *Git) Prepare(ctx context.Context, s Source, dir string) (*Repo, error) {
	if s.URL == "" {
		return g.Open(ctx, dir)
	}
	if !s.empty(dir) {
		r, err := g.Open(ctx, dir)
		if errors.Is(err, ErrNotRepository) {
			return nil, fmt.Errorf("prepare %s: %w (it has files and no repository)", dir, ErrNotEmpty)
		}
		if err != nil {
			return nil, err
		}
		return r, r.follow(ctx, s)
	}
	return g.Clone(ctx, s, dir)
}

// empty reports whether a directory holds nothing, or is not there.
func (s Source) empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !slices.Contains(s.Ignore, e.Name())
	})
}

// follow fetches and checks out.
func (r *Repo) follow(ctx context.Context, s Source) error {
	at, err := r.fetched(ctx, s)
	if err != nil || at.name == "" {
		return err
	}
	return r.checkout(ctx, at)
}

// place is a name, the full name of the ref that it was found as, empty for a commit id, and the commit it is at.
type place struct{ name, ref, id string }

// Fetch brings what a source has: its branches to origin/..., its tags, which replace those of the same name, and the
// wanted ref. With a Depth only what is
// wanted is brought. It returns the name by which Checkout finds it, empty for a remote that is empty.
func (r *Repo) Fetch(ctx context.Context, s Source) (string, error) {
	at, err := r.fetched(ctx, s)
	return at.name, err
}

func (r *Repo) fetched(ctx context.Context, s Source) (place, error) {
	rem, want, err := r.g.check(s)
	if err != nil {
		return place{}, err
	}
	ref, err := rem.lookup(ctx, want)
	if err != nil || ref == "" {
		return place{}, err
	}
	name, spec := aim(ref)
	specs := []string{allHeads, allTags}
	switch {
	case s.Depth > 0:
		specs = []string{spec}
	case !strings.HasPrefix(ref, "refs/heads/") && !strings.HasPrefix(ref, "refs/tags/") && fullOrRef(ref):
		specs = append(specs, spec)
	}
	err = r.fetch(ctx, rem, s, specs)
	if err != nil && fullID.MatchString(ref) && errors.Is(err, ErrNotFound) {
		// Servers need not give single commits: it may be in the history of a branch.
		s.Depth = 0
		err = r.fetch(ctx, rem, s, specs[:max(0, len(specs)-1)])
	}
	if err != nil {
		return place{}, err
	}
	at := place{name: name}
	if at.ref, at.id, err = r.find(ctx, name); err != nil {
		return place{}, fmt.Errorf("the remote does not serve %q: %w", short(want), err)
	}
	return at, nil
}

// What is brought where nothing else is said.
const (
	allHeads = "+refs/heads/*:refs/remotes/origin/*"
	allTags  = "+refs/tags/*:refs/tags/*"
)

func (r *Repo) fetch(ctx context.Context, rem *remote, s Source, specs []string) error {
	if len(specs) == 0 {
		specs = []string{allHeads, allTags}
	}
	err := r.bring(ctx, rem, s, specs)
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Detail, "local refs could not be updated") {
		// A branch that the remote has no more stands where one that it has now wants to be.
		if err = r.bring(ctx, rem, s, []string{"--prune", allHeads}); err == nil {
			err = r.bring(ctx, rem, s, specs)
		}
	}
	return err
}

// bring is one fetch. The first of the specs may be --prune: of refs that they name only those stay that the remote
// has.
func (r *Repo) bring(ctx context.Context, rem *remote, s Source, specs []string) error {
	args := []string{"fetch", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head",
		"--no-show-forced-updates", "--progress"}
	if r.prunes {
		args = append(args, "--prune")
	}
	if s.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(s.Depth))
	}
	if specs[0] == "--prune" {
		args, specs = append(args, specs[0]), specs[1:]
	}
	args = append(append(args, "--", rem.url), specs...)
	_, err := r.do(ctx, call{args: args, remote: rem, progress: s.Progress, bound: true})
	if err != nil {
		return cutOff(err, filepath.Join(r.common, "objects", "pack"), r.g.cfg.Limits.Pack)
	}
	return nil
}

// cutOff removes what a transfer that was broken off left, and tells if that was for its size: git does not say so.
func cutOff(err error, packs string, limit int64) error {
	left, _ := filepath.Glob(filepath.Join(packs, "tmp_*")) // the pattern is a good one
	for _, f := range left {
		if info, e := os.Lstat(f); e == nil && info.Size() >= limit {
			err = fmt.Errorf("a pack would have more than %d bytes: %w (fetch less, such as depth 1, or raise the limit): %w",
				limit, ErrTooLarge, err)
		}
		_ = os.Remove(f) // the next transfer makes new ones
	}
	return err
}

// fullOrRef reports whether a lookup's answer can be fetched by itself.
func fullOrRef(ref string) bool { return strings.HasPrefix(ref, "refs/") || fullID.MatchString(ref) }

// aim tells by which name a ref of the remote is found here, and how it is fetched to there.
func aim(ref string) (name, spec string) {
	if b, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
		return b, "+" + ref + ":refs/remotes/origin/" + b
	}
	if t, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		return t, "+" + ref + ":" + ref
	}
	if other, ok := strings.CutPrefix(ref, "refs/"); ok {
		return other, "+" + ref + ":refs/remotes/origin/" + other
	}
	return ref, ref
}

// lookup finds the full ref of the remote that a name means, or gives a commit id as it is. Without a name it is the
// remote's own branch. It is empty for a remote without commits.
func (r *remote) lookup(ctx context.Context, want string) (string, error) {
	if fullID.MatchString(want) {
		return want, nil
	}
	if want == "" {
		out, err := r.g.run(ctx, call{args: []string{"ls-remote", "--quiet", "--symref", "--", r.url, "HEAD"}, remote: r})
		if err != nil {
			return "", err
		}
		for l := range strings.SplitSeq(out, "\n") {
			ref, ok := strings.CutSuffix(strings.TrimPrefix(l, "ref: "), "\tHEAD")
			if b, isBranch := strings.CutPrefix(ref, "refs/heads/"); ok && isBranch && strings.HasPrefix(l, "ref: ") {
				return ref, CheckName(b)
			}
			if id := strings.TrimSuffix(l, "\tHEAD"); fullID.MatchString(id) {
				return id, nil // a remote that has a commit checked out and no branch
			}
		}
		return "", nil
	}
	names := []string{"refs/heads/" + want, "refs/tags/" + want, "refs/" + want}
	if strings.HasPrefix(want, "refs/") {
		names = []string{want}
	}
	there, err := r.refs(ctx, names...)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		if there[n] != "" {
			return n, nil
		}
	}
	if someID.MatchString(want) {
		return want, nil // a shortened id: all branches are fetched to find it
	}
	return "", fmt.Errorf("the remote has no branch, tag or ref %q: %w (check the name)", short(want), ErrNotFound)
}

// refs asks what refs of these names the remote has now.
func (r *remote) refs(ctx context.Context, names ...string) (map[string]string, error) {
	out, err := r.g.run(ctx, call{args: append([]string{"ls-remote", "--quiet", "--refs", "--", r.url}, names...),
		remote: r})
	if err != nil {
		return nil, err
	}
	refs := map[string]string{}
	for l := range strings.SplitSeq(out, "\n") {
		if id, ref, ok := strings.Cut(l, "\t"); ok && fullID.MatchString(id) {
			refs[ref] = id
		}
	}
	return refs, nil
}

// Checkout makes the working tree that of a branch, of a branch of the remote (a local branch is made for it, and moved
// on where it is behind), of a tag, a fetched ref or a commit. Changes that would be overwritten make it ErrDirty; a
// tree above Limits.Bytes or Limits.Files makes it ErrTooLarge before a file is written.
func (r *Repo) Checkout(ctx context.Context, name string) error {
	ref, id, err := r.find(ctx, name)
	if err != nil {
		return err
	}
	return r.checkout(ctx, place{name, ref, id})
}

func (r *Repo) checkout(ctx context.Context, at place) (err error) {
	id := at.id
	if u := r.underway(); u != "" {
		return fmt.Errorf("check out %q: a %s is in progress: %w (finish or abort it)", short(at.name), u, ErrUnderway)
	}
	branch, local := strings.CutPrefix(at.ref, "refs/heads/")
	far, isRemote := strings.CutPrefix(at.ref, "refs/remotes/origin/")
	if local {
		if id, err = r.ahead(ctx, branch, id); err != nil {
			return err
		}
	}
	if err := r.bounded(ctx, id); err != nil {
		return err
	}
	args := []string{"checkout", "--quiet", "--no-guess", "--no-recurse-submodules"}
	switch {
	case local:
		args = append(args, "-B", branch, id)
	case isRemote && !strings.HasPrefix(far, "pull/") && !strings.HasPrefix(far, "merge-requests/"):
		args = append(args, "--no-track", "-b", far, id)
	default:
		args = append(args, "--detach", id)
	}
	_, err = r.do(ctx, call{args: append(args, "--"), bound: true})
	return err
}

// ahead gives where a local branch goes: to the remote's if that only adds to it, else it stays.
func (w *writer) ahead(ctx context.Context, branch, id string) (string, error) {
	far, err := w.Resolve(ctx, "refs/remotes/origin/"+branch)
	if errors.Is(err, ErrNotFound) {
		return id, nil
	}
	if err != nil || far == id {
		return id, err
	}
	if on, err := isAncestor(ctx, &w.history, id, far); err != nil || !on {
		return id, err
	}
	return far, nil
}

// bounded reads what a commit's tree would take and stops at the limits.
func (h *history) bounded(ctx context.Context, id string) error {
	c := &count{limits: h.g.cfg.Limits}
	_, err := h.do(ctx, call{args: []string{"ls-tree", "-r", "-t", "-l", "-z", "--full-tree", id}, stdout: c,
		limit: 1 << 40})
	return err
}

// count adds up a listing of ls-tree -l -z.
type count struct {
	limits Limits
	entry  []byte
	files  int
	bytes  int64
}

func (c *count) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != 0 {
			c.entry = append(c.entry, b)
			continue
		}
		meta, path, _ := strings.Cut(string(c.entry), "\t")
		if f := strings.Fields(meta); len(f) == 4 && f[1] == "blob" {
			size, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("size of %q: %w", short(path), err)
			}
			c.bytes += size
		}
		c.files++
		c.entry = c.entry[:0]
		if c.files > c.limits.Files || c.bytes > c.limits.Bytes {
			return 0, fmt.Errorf("the tree has more than %d files or %d bytes: %w (raise the limits or use another source)",
				c.limits.Files, c.limits.Bytes, ErrTooLarge)
		}
	}
	return len(p), nil
}
