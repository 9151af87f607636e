package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of what is shown to people before it is done.
const (
	maxCompared = 64 << 20 // bytes of a pack of what differs
	maxShown    = 1 << 20  // bytes of a diff
	maxListed   = 100      // commits, and files in the list of files
	maxPushed   = 5000     // commits
	maxHidden   = 200      // files that hold secrets by custom
)

// Shown is what a commit or a push would change, for the person who decides about it.
type Shown struct {
	// Text lists the commits of a push, the files with how much of each changes, and then has the diff. Empty: nothing
	// would change.
	Text string
	// Seen names both sides that were compared.
	Seen string
}

// PreviewCommit shows what Commit would commit now. Nothing is written into the repository. Whatever the repository
// claims, what is shown has the content of its ids. Files that hold secrets by custom are named alone.
func (w *writer) PreviewCommit(ctx context.Context) (Shown, error) {
	look := w.onlyRead()
	s, err := look.committable(ctx)
	if err != nil || len(s.Changes) == 0 {
		return Shown{}, err
	}
	b, err := newBench(ctx, look)
	if err != nil {
		return Shown{}, err
	}
	defer b.close()
	if _, err := copyIndex(look.gitDir, b.dir); err != nil {
		return Shown{}, err
	}
	if err := look.stage(ctx, s, b.call()); err != nil {
		return Shown{}, err
	}
	tree, err := firstLine(look.do(ctx, b.call("write-tree")))
	if err != nil {
		return Shown{}, err
	}
	text, err := b.compare(ctx, s.Head.ID, tree, nil)
	if err != nil || text == "" {
		return Shown{}, err
	}
	var left strings.Builder
	for _, dir := range s.Nested {
		fmt.Fprintf(&left, "%q is a repository of its own and is left out\n", dir)
	}
	return Shown{left.String() + text, s.Head.ID + " " + tree}, nil
}

// PreviewPush shows what a push of a branch that is at a commit would bring to a remote that has base, a whole id: as
// PreviewCommit does, with a list of the commits. A commit without base before it is ErrRejected.
func (w *writer) PreviewPush(ctx context.Context, branch, commit, base string) (Shown, error) {
	look := w.onlyRead()
	id, err := look.pushable(ctx, branch, commit)
	if err != nil || id == base {
		return Shown{}, err
	}
	if in, err := look.Holds(ctx, id, base); err != nil || !in {
		return Shown{}, errors.Join(err, fmt.Errorf("%.12s does not have %.12s before it: %w", id, base, ErrRejected))
	}
	b, err := newBench(ctx, look)
	if err != nil {
		return Shown{}, err
	}
	defer b.close()
	out, err := look.run(ctx, "rev-list", "--boundary", fmt.Sprintf("--max-count=%d", maxPushed), id, "^"+base, "--")
	if err != nil {
		return Shown{}, err
	}
	var all, edges []string
	for line := range strings.Lines(out) {
		commit, edge := strings.CutPrefix(strings.TrimSpace(line), "-")
		all = append(all, commit)
		if !edge || commit == base {
			continue
		}
		if in, err := look.Holds(ctx, base, commit); err != nil || !in {
			return Shown{}, errors.Join(err,
				fmt.Errorf("push of more than %d commits, or of some without what is before them: %w", maxPushed, ErrTooLarge))
		}
		edges = append(edges, "^"+commit)
	}
	text, err := b.compare(ctx, base, id, all)
	if err != nil {
		return Shown{}, err
	}
	list, err := b.commits(ctx, append([]string{id, "^" + base}, edges...))
	return Shown{list + text, base + " " + id}, err
}

// onlyRead is the repository for those who write nothing into it.
func (w *writer) onlyRead() *writer {
	look := *w
	look.reads = true
	return &look
}

// bench is where things are compared: a directory of ours with an index, the objects that are made, and a repository
// with what was found to have the content of its id.
type bench struct {
	h   *history
	dir string
}

func newBench(ctx context.Context, r *writer) (*bench, error) {
	dir, err := os.MkdirTemp(r.g.cfg.Temp, "inspan-preview-")
	if err != nil {
		return nil, err
	}
	b := &bench{&r.history, dir}
	if err := os.Mkdir(filepath.Join(dir, "made"), 0o700); err != nil {
		b.close()
		return nil, err
	}
	if _, err := r.g.run(ctx, call{args: []string{"init", "--quiet", "--bare", "--template=",
		"--object-format=" + r.format, "--", b.proven()}}); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) } // a directory of ours, below that for temporary files

// proven is the repository whose objects have the content of their ids.
func (b *bench) proven() string { return filepath.Join(b.dir, "proven") }

// call is a command in the repository that writes objects and the index here.
func (b *bench) call(args ...string) call {
	others := alternate(b.h.Objects())
	if b.h.lender != "" {
		others += ":" + alternate(b.h.lender)
	}
	return call{args: args, private: []string{b.dir}, bound: true,
		env: []string{"GIT_INDEX_FILE=" + filepath.Join(b.dir, "index"),
			"GIT_OBJECT_DIRECTORY=" + filepath.Join(b.dir, "made"),
			"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + others}}
}

// compare shows what differs between two commits or trees; old is empty for one without files. The objects of more are
// proven, too.
func (b *bench) compare(ctx context.Context, old, now string, more []string) (string, error) {
	empty := b.h.idOf("tree", nil)
	if old == "" {
		old = empty
	}
	ids := append([]string{old, now}, more...)
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, now}
	out, err := b.h.do(ctx, b.call(slices.Insert(slices.Clone(args), 1, "-t")...))
	if err != nil {
		return "", err
	}
	list, err := differing(out)
	if err != nil || len(list) == 0 {
		return "", err
	}
	for _, d := range list {
		for i, id := range d.ids {
			if d.modes[i] == treeMode || d.modes[i] != linkMode && !Secret(d.path) {
				ids = append(ids, id)
			}
		}
	}
	roots, err := b.h.do(ctx, b.call("rev-parse", old+"^{tree}", now+"^{tree}"))
	if err != nil {
		return "", err
	}
	ids = append(ids, strings.Fields(roots)...)
	ids = slices.DeleteFunc(ids, func(id string) bool { return strings.Trim(id, "0") == "" || id == empty })
	slices.Sort(ids)
	if err := b.prove(ctx, slices.Compact(ids)); err != nil {
		return "", err
	}
	// From here on nothing of the repository is used: an object that was not what it is called is missing.
	if out, err = b.h.g.run(ctx, call{args: args, gitDir: b.proven()}); err != nil {
		return "", err
	}
	if list, err = differing(out); err != nil {
		return "", err
	}
	return b.show(ctx, old, now, list)
}

// show prints what differs, without files that hold secrets by custom.
func (b *bench) show(ctx context.Context, old, now string, list []difference) (string, error) {
	var head strings.Builder
	args := []string{"diff-tree", "-r", "-M", "-p", "--stat=60", fmt.Sprintf("--stat-count=%d", maxListed), "--no-color",
		"--no-ext-diff", "--no-textconv", old, now, "--"}
	hidden := 0
	for _, d := range list {
		if Secret(d.path) {
			hidden++
			args = append(args, ":(exclude,literal)"+d.path)
			fmt.Fprintf(&head, "%q may hold secrets and is not shown (%s)\n", d.path, d.what())
		}
	}
	if hidden > maxHidden {
		return "", fmt.Errorf("more than %d files may hold secrets: %w", maxHidden, ErrTooLarge)
	}
	if hidden == len(list) {
		return head.String(), nil
	}
	var diff bytes.Buffer
	_, err := b.h.g.run(ctx, call{args: args, gitDir: b.proven(), env: []string{"GIT_LITERAL_PATHSPECS=0"}, stdout: &diff,
		limit: maxShown})
	if err != nil && (!errors.Is(err, ErrTooLarge) || diff.Len() == 0) {
		return "", err
	}
	return head.String() + diff.String(), nil
}

// prove copies objects into the proven repository, where each is called what its content makes it.
func (b *bench) prove(ctx context.Context, ids []string) error {
	f, err := os.OpenFile(filepath.Join(b.dir, "pack"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	c := b.call("pack-objects", "--stdout", "--quiet", "--window=0")
	c.stdin, c.stdout, c.limit = strings.NewReader(strings.Join(ids, "\n")+"\n"), f, maxCompared
	if _, err := b.h.do(ctx, c); err != nil {
		return err
	}
	if _, err := f.Seek(0, 0); err != nil {
		return err
	}
	_, err = b.h.g.run(ctx, call{args: []string{"index-pack", "--stdin"}, gitDir: b.proven(), stdin: f, bound: true})
	return err
}

// commits lists proven commits, the newest first. revs are as for rev-list.
func (b *bench) commits(ctx context.Context, revs []string) (string, error) {
	out, err := b.h.g.run(ctx, call{args: append(append([]string{"log", "--topo-order", "--no-show-signature",
		"--no-decorate", "--no-color", "--format=commit %h %s"}, revs...), "--"), gitDir: b.proven()})
	if err != nil {
		return "", fmt.Errorf("list the commits: %w", err)
	}
	lines := strings.SplitAfter(out, "\n")
	lines = lines[:len(lines)-1]
	if n := len(lines) - maxListed; n > 0 {
		lines = append(lines[:maxListed], fmt.Sprintf("and %d more commits\n", n))
	}
	return strings.Join(lines, "") + "\n", nil
}

// Modes of entries of trees.
const (
	treeMode = "040000"
	linkMode = "160000" // a submodule
	noMode   = "000000"
)

// difference is one line of diff-tree --raw: a path with its mode and its object before and after.
type difference struct {
	modes, ids [2]string
	path       string
}

// what says what happens to a path.
func (d difference) what() string {
	switch noMode {
	case d.modes[0]:
		return "added"
	case d.modes[1]:
		return "deleted"
	}
	return "changed"
}

// differing reads what diff-tree --raw -z printed.
func differing(out string) ([]difference, error) {
	var all []difference
	for parts := strings.Split(out, "\x00"); len(parts) > 1; parts = parts[2:] {
		f := strings.Fields(strings.TrimPrefix(parts[0], ":"))
		if len(f) != 5 || len(parts) < 3 {
			return nil, fmt.Errorf("git diff-tree: unexpected line %q", short(parts[0]))
		}
		all = append(all, difference{[2]string{f[0], f[1]}, [2]string{f[2], f[3]}, parts[1]})
	}
	return all, nil
}
