package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RescuedPrefix begins the names of the branches that Strays makes.
const RescuedPrefix = "rescued/"

// maxStashes is how many stashes Strays keeps, the newest first; a repository with more is ErrTooLarge.
const maxStashes = 256

// Strays puts work that is in no branch on branches of its own, so that Share finds it, and gives them: "changes-ID" is
// a commit of the files as they are in the tree, those that are ignored left out, where they differ from HEAD;
// "head-ID" is where a detached HEAD stands, "stash-ID" a stash. ID begins the commit's id. The tree, the index and
// HEAD stay as they are, and the same work gets the same commits again.
func (r *Repo) Strays(ctx context.Context, who Author) ([]Ref, error) {
	s, err := r.Status(ctx)
	if err != nil {
		return nil, err
	}
	var all []Ref
	add := func(kind, id string) error {
		ref := Ref{RescuedPrefix + kind + "-" + id[:12], id}
		all = append(all, ref)
		return r.Point(ctx, ref)
	}
	if s.Head.Branch == "" && s.Head.ID != "" {
		kept, err := r.Reachable(ctx, s.Head.ID)
		if err == nil && !kept {
			err = add("head", s.Head.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	id, err := r.changes(ctx, s, who)
	if err == nil && id != "" {
		err = add("changes", id)
	}
	if err != nil {
		return nil, err
	}
	stashes, err := r.stashes(ctx)
	for _, id := range stashes {
		if err == nil {
			err = add("stash", id)
		}
	}
	return all, err
}

// Point sets a branch that is checked out nowhere to a commit, and makes it where it is not there.
func (w *writer) Point(ctx context.Context, ref Ref) error {
	if err := CheckName(ref.Name); err != nil {
		return err
	}
	if !fullID.MatchString(ref.ID) {
		return fmt.Errorf("commit %q: want a full id: %w", short(ref.ID), ErrName)
	}
	_, err := w.run(ctx, "update-ref", "refs/heads/"+ref.Name, ref.ID)
	return err
}

// changes makes a commit of what differs from HEAD; "" where nothing does.
func (w *writer) changes(ctx context.Context, s Status, who Author) (string, error) {
	if s.Clean() {
		return "", nil
	}
	dir, err := os.MkdirTemp(w.g.cfg.Temp, "inspan-index-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	base, parents, old, when := "--empty", []string(nil), "", time.Unix(1, 0)
	if s.Head.ID != "" {
		base, parents = s.Head.ID, []string{s.Head.ID}
		line, err := w.line(ctx, "log", "-1", "--no-show-signature", "--format=%ct %T", s.Head.ID)
		if err != nil {
			return "", err
		}
		at, tree, _ := strings.Cut(line, " ")
		n, _ := strconv.ParseInt(at, 10, 64) // a strange date is as good as none
		old, when = tree, time.Unix(max(n, 1), 0)
	}
	if _, err := w.do(ctx, call{args: []string{"read-tree", base}, env: env, private: []string{dir}}); err != nil {
		return "", err
	}
	for _, path := range s.Conflicts {
		s.Changes = append(s.Changes, Change{path, 'U', 'U'})
	}
	if err := w.stage(ctx, s, call{env: env, private: []string{dir}, bound: true}); err != nil {
		return "", err
	}
	tree, err := firstLine(w.do(ctx, call{args: []string{"write-tree"}, env: env, private: []string{dir}}))
	if err != nil || tree == old {
		return "", err
	}
	if who.When = when; s.Underway == "merge" {
		if other, err := readNoFollow(filepath.Join(w.gitDir, "MERGE_HEAD"), maxPointer); err == nil {
			if id := strings.TrimSpace(string(other)); fullID.MatchString(id) && !slices.Contains(parents, id) {
				parents = append(parents, id)
			}
		}
	}
	by, err := who.env()
	if err != nil {
		return "", err
	}
	return w.record(ctx, tree, parents, "What was not committed when the workspace was removed", by)
}

// stashes are the commits of the stash, the newest first.
func (h *history) stashes(ctx context.Context) ([]string, error) {
	if _, err := h.Resolve(ctx, "refs/stash"); errors.Is(err, ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	out, err := h.run(ctx, "rev-list", "--walk-reflogs", "--max-count="+strconv.Itoa(maxStashes+1), "refs/stash", "--")
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(out)
	if len(ids) > maxStashes {
		return nil, fmt.Errorf("more than %d stashes: %w (drop some)", maxStashes, ErrTooLarge)
	}
	if tip, err := h.Resolve(ctx, "refs/stash"); err == nil && !slices.Contains(ids, tip) {
		ids = append(ids, tip) // a stash without its log
	}
	return ids, nil
}

// Submodules reports whether the repository holds others, whose content its own commits do not have.
func (l *layout) Submodules() bool {
	entries, err := os.ReadDir(filepath.Join(l.common, "modules"))
	return err == nil && len(entries) > 0
}

// Verify makes sure that what Share wrote is whole and at the commit of ref, and that this repository has what is
// before it. It takes nothing in. What is not so is ErrDamaged.
func (r *Repo) Verify(ctx context.Context, from io.Reader, ref Ref) error {
	at, remove, err := r.g.spooled(from)
	if err != nil {
		return err
	}
	defer remove()
	if err = r.g.bundledAt(ctx, at, ref); err == nil {
		_, err = r.run(ctx, "bundle", "verify", "--quiet", at)
	}
	if err == nil {
		err = r.packed(ctx, at)
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("bundle of %q: %w: %w", short(ref.Name), ErrDamaged, err)
	}
	return err
}

// packed looks at each object of a bundle's pack.
func (r *Repo) packed(ctx context.Context, bundle string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, maxConfig)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	end := bytes.Index(head[:n], []byte("\n\n"))
	if end < 0 {
		return errors.New("its header has no end")
	}
	if _, err := f.Seek(int64(end)+2, io.SeekStart); err != nil {
		return err
	}
	_, err = r.do(ctx, call{args: []string{"index-pack", "--fix-thin", "--stdin", "-o", bundle + ".idx",
		bundle + ".pack"}, stdin: f, bound: true, private: []string{filepath.Dir(bundle)}})
	return err
}
