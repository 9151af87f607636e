package git

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Head is where a working tree stands.
type Head struct {
	// Branch is empty where no branch is checked out. ID is empty before the first commit.
	Branch, ID string
}

// Head reads where the working tree stands.
func (h *history) Head(ctx context.Context) (Head, error) {
	at, _, err := headTree(ctx, h)
	return at, err
}

// headTree is Head with the tree of its commit.
func headTree(ctx context.Context, h *history) (at Head, tree string, err error) {
	// One git tells all. Where there is no commit, or a branch of the name HEAD, which it may mean, more are asked.
	out, err := h.run(ctx, "rev-parse", "--revs-only", "HEAD^{commit}", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
	f := strings.Split(strings.TrimSpace(out), "\n")
	if err == nil && len(f) == 3 && fullID.MatchString(f[0]) && fullID.MatchString(f[1]) {
		branch, on := strings.CutPrefix(f[2], "refs/heads/")
		switch {
		case on && branch != "HEAD":
			return Head{Branch: branch, ID: f[0]}, f[1], nil
		case f[2] == "HEAD":
			return Head{ID: f[0]}, f[1], nil
		}
	}
	if at, err = slowHead(ctx, h); err == nil && at.ID != "" {
		tree, err = h.line(ctx, "rev-parse", "--verify", at.ID+"^{tree}")
	}
	return at, tree, err
}

// slowHead asks for one thing at a time.
func slowHead(ctx context.Context, h *history) (at Head, err error) {
	a, err := h.exec(ctx, call{args: []string{"symbolic-ref", "--quiet", "HEAD"}, fine: []int{1}})
	if err != nil {
		return at, err
	}
	ref := strings.TrimSpace(a.out)
	at.Branch = strings.TrimPrefix(ref, "refs/heads/")
	a, err = h.exec(ctx, call{args: []string{"rev-parse", "--quiet", "--verify", cmp.Or(ref, "HEAD") + "^{commit}"},
		fine: []int{1}})
	at.ID = strings.TrimSpace(a.out)
	return at, err
}

// CurrentBranch is the branch that is checked out. The error is ErrNotFound where none is.
func (h *history) CurrentBranch(ctx context.Context) (string, error) {
	at, err := h.Head(ctx)
	if err == nil && at.Branch == "" {
		return "", fmt.Errorf("current branch: a commit is checked out and no branch: %w (create a branch)", ErrNotFound)
	}
	return at.Branch, err
}

// Resolve finds the commit that a branch, a branch of the remote, a tag, a fetched ref such as pull/12/head, or a whole
// or shortened commit id names. A whole id is that commit and never a ref of this name. "HEAD" is the commit that is
// checked out.
func (h *history) Resolve(ctx context.Context, rev string) (string, error) {
	_, id, err := h.find(ctx, rev)
	return id, err
}

// find gives the full name of the ref as well, empty for a commit id.
func (h *history) find(ctx context.Context, rev string) (ref, id string, err error) {
	if rev == "HEAD" {
		id, err := h.line(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
		return "", id, known(rev, err)
	}
	if err := CheckName(rev); err != nil {
		return "", "", err
	}
	if fullID.MatchString(rev) { // whatever refs have this for a name
		id, err = h.object(ctx, rev)
		return "", id, err
	}
	names := []string{"refs/heads/" + rev, "refs/remotes/origin/" + rev, "refs/tags/" + rev}
	if strings.HasPrefix(rev, "refs/") {
		names = []string{rev}
	}
	refs := map[string]aRef{}
	none, err := lacks(&h.layout, names...)
	if err == nil && !none {
		var out string
		out, err = h.run(ctx, append([]string{"for-each-ref", "--format=%(objecttype) %(objectname) %(refname)"},
			names...)...)
		refs = readRefs(out)
	}
	if err != nil {
		return "", "", err
	}
	for _, name := range names { // a pattern also finds what is below it
		r, ok := refs[name]
		switch {
		case ok && r.kind == "commit":
			return name, r.id, nil
		case ok:
			id, err := h.line(ctx, "rev-parse", "--quiet", "--verify", name+"^{commit}")
			return name, id, known(rev, err)
		}
	}
	if !someID.MatchString(rev) {
		return "", "", fmt.Errorf("%q: %w (no branch, tag or commit has this name: fetch it first)", short(rev), ErrNotFound)
	}
	id, err = h.line(ctx, "rev-parse", "--quiet", "--verify", rev+"^{commit}")
	return "", id, known(rev, err)
}

// aRef is what a ref names: an object and its type.
type aRef struct{ kind, id string }

// readRefs reads lines of the type and the id of an object and the name of a ref.
func readRefs(lines string) map[string]aRef {
	found := map[string]aRef{}
	for line := range strings.Lines(lines) {
		if kind, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			id, name, _ := strings.Cut(rest, " ")
			found[name] = aRef{kind, id}
		}
	}
	return found
}

// object finds the commit of a whole id, which no branch or tag of the same name can stand in for.
func (h *history) object(ctx context.Context, id string) (string, error) {
	if (len(id) == sha256.Size*2) != (h.format == "sha256") {
		return "", fmt.Errorf("%q: %w (the repository has ids of another hash)", short(id), ErrNotFound)
	}
	found, err := h.line(ctx, "rev-parse", "--quiet", "--verify", id+"^{commit}")
	return found, known(id, err)
}

// known makes ErrNotFound of what rev-parse says quietly.
func known(rev string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind == nil {
		return fmt.Errorf("%q: %w (no such commit here: fetch it first)", short(rev), ErrNotFound)
	}
	return err
}

// IsAncestor reports whether old is new or among the commits before it.
func (h *history) IsAncestor(ctx context.Context, old, new string) (bool, error) {
	a, err := h.Resolve(ctx, old)
	if err != nil {
		return false, err
	}
	b, err := h.Resolve(ctx, new)
	if err != nil {
		return false, err
	}
	return isAncestor(ctx, h, a, b)
}

// isAncestor is IsAncestor of two commits that were resolved.
func isAncestor(ctx context.Context, h *history, old, new string) (bool, error) {
	got, err := h.exec(ctx, call{args: []string{"merge-base", "--is-ancestor", old, new}, fine: []int{1}})
	return err == nil && got.code == 0, err
}

// Change is one path that differs.
type Change struct {
	Path string
	// Staged and Unstaged are git's letters: M changed, A added, D deleted, T another kind, U not merged, '.' the same,
	// '?' in both for a path that git does not know.
	Staged, Unstaged byte
}

// Status is what differs from HEAD. Submodules are not looked at.
type Status struct {
	Head    Head
	Changes []Change
	// Nested are directories with a repository of their own that is no submodule; git keeps nothing of them.
	Nested []string
	// Conflicts are paths that a merge left.
	Conflicts []string
	// Underway is "merge", "rebase", "cherry-pick", "revert" or "bisect" while one is, else empty.
	Underway string
}

// Clean reports whether nothing differs and nothing is under way.
func (s Status) Clean() bool {
	return len(s.Changes) == 0 && len(s.Conflicts) == 0 && s.Underway == ""
}

// Status compares the working tree, files that git does not know included, with HEAD.
func (h *history) Status(ctx context.Context) (Status, error) { return statusWith(ctx, h, call{}) }

// FreshStatus is Status with an index of its own: the repository's may hide changes, since commands can mark files in
// it as unchanged.
func (h *history) FreshStatus(ctx context.Context) (Status, error) {
	at, err := h.Head(ctx)
	if err != nil {
		return Status{}, err
	}
	dir, err := os.MkdirTemp(h.g.cfg.Temp, "inspan-index-")
	if err != nil {
		return Status{}, err
	}
	defer os.RemoveAll(dir)
	c := call{env: []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}, private: []string{dir},
		args: []string{"read-tree", cmp.Or(at.ID, "--empty")}}
	if _, err := h.do(ctx, c); err != nil {
		return Status{}, err
	}
	return statusWith(ctx, h, c)
}

// statusWith is the status of a repository by the index of a call.
func statusWith(ctx context.Context, h *history, c call) (Status, error) {
	s := Status{Underway: h.underway()}
	c.args = []string{"status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=all",
		"--no-renames", "--no-ahead-behind"}
	out, err := h.do(ctx, c)
	if err != nil {
		return s, err
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		if entry == "" {
			continue
		}
		if err := s.add(entry); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *Status) add(entry string) error {
	kind, rest, _ := strings.Cut(entry, " ")
	fields := map[string]int{"1": 8, "u": 10}[kind]
	switch {
	case kind == "#":
		key, value, _ := strings.Cut(rest, " ")
		switch {
		case key == "branch.oid" && value != "(initial)":
			s.Head.ID = value
		case key == "branch.head" && value != "(detached)":
			s.Head.Branch = value
		}
		return nil
	case kind == "?":
		if strings.HasSuffix(rest, "/") {
			s.Nested = append(s.Nested, rest)
			return nil
		}
		s.Changes = append(s.Changes, Change{rest, '?', '?'})
		return nil
	case fields > 0:
		if parts := strings.SplitN(rest, " ", fields); len(parts) == fields && len(parts[0]) == 2 {
			path := parts[fields-1]
			if kind == "u" {
				s.Conflicts = append(s.Conflicts, path)
			} else {
				s.Changes = append(s.Changes, Change{path, parts[0][0], parts[0][1]})
			}
			return nil
		}
	}
	return fmt.Errorf("git status: unexpected line %s", strconv.QuoteToASCII(short(entry)))
}

func (l *layout) underway() string {
	for _, s := range []struct{ file, name string }{{"MERGE_HEAD", "merge"}, {"rebase-merge", "rebase"},
		{"rebase-apply", "rebase"},
		{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"}} {
		if _, err := os.Lstat(filepath.Join(l.gitDir, s.file)); err == nil {
			return s.name
		}
	}
	return ""
}
