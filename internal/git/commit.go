package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Author is who made a commit, and whose words its message is.
type Author struct {
	Name, Email string
	// When is zero for now.
	When time.Time
}

// Committed is what Commit did.
type Committed struct {
	// ID is the new commit, or the one that was there where nothing had changed.
	ID string
	// Tree is what ID has: it names the content of all of its files.
	Tree string
	// Branch is the one that is checked out, empty for none.
	Branch string
	// Made is false where nothing had changed: that is no error. Paths is how many did.
	Made  bool
	Paths int
	// Nested are repositories inside of the tree that were left out.
	Nested []string
}

const messageMax = 64 << 10

// CreateBranch makes a branch at a commit (see Resolve; "HEAD" for where the tree stands) and checks it out. If it is
// there already it is checked out as it is and nothing is lost. Before the first commit only the name is set.
func (r *Repo) CreateBranch(ctx context.Context, name, from string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	h, err := r.Head(ctx)
	if err != nil {
		return err
	}
	if h.ID == "" {
		_, err := r.run(ctx, "symbolic-ref", "HEAD", "refs/heads/"+name)
		return err
	}
	none, err := lacks(&r.layout, "refs/heads/"+name)
	if err == nil && !none {
		var there string
		there, err = r.run(ctx, "for-each-ref", "--format=%(refname)", "refs/heads/"+name)
		if err == nil && strings.TrimSpace(there) == "refs/heads/"+name {
			_, err = r.run(ctx, "checkout", "--quiet", "--no-guess", "--no-recurse-submodules", name, "--")
			return err
		}
	}
	id := h.ID
	if err == nil && from != "HEAD" {
		id, err = r.Resolve(ctx, from)
	}
	if err != nil {
		return err
	}
	if err := r.bounded(ctx, id); err != nil {
		return err
	}
	_, err = r.do(ctx, call{args: []string{"checkout", "--quiet", "--no-track", "--no-recurse-submodules", "-b", name,
		id, "--"}, bound: true})
	return err
}

// Commit makes a commit of everything in the working tree that is not ignored, files that git does not know included.
// It runs no hook and signs nothing. Conflicts make it ErrConflict, a merge that is under way ErrUnderway.
func (r *Repo) Commit(ctx context.Context, message string, who Author) (Committed, error) {
	env, err := who.env()
	if err != nil {
		return Committed{}, err
	}
	if message = strings.TrimSpace(strings.ReplaceAll(message, "\x00", "")); message == "" || len(message) > messageMax {
		return Committed{}, fmt.Errorf("commit: want a message of 1 to %d bytes: %w", messageMax, ErrName)
	}
	s, err := r.committable(ctx)
	if err != nil {
		return Committed{}, err
	}
	done := Committed{ID: s.Head.ID, Branch: s.Head.Branch, Nested: s.Nested}
	if done.Tree, err = r.CommitTree(ctx, s.Head.ID); err != nil || len(s.Changes) == 0 {
		return done, err
	}
	if err := r.stage(ctx, s, call{bound: true}); err != nil {
		return done, err
	}
	tree, err := r.line(ctx, "write-tree")
	if err != nil {
		return done, err
	}
	if tree == done.Tree {
		return done, nil
	}
	var parents []string
	if s.Head.ID != "" {
		parents = []string{s.Head.ID}
	}
	id, err := r.record(ctx, tree, parents, message, env)
	if err != nil {
		return done, err
	}
	subject, _, _ := strings.Cut(message, "\n")
	if err := r.move(ctx, "HEAD", id, s.Head.ID, "commit: "+short(subject)); err != nil {
		return done, err
	}
	done.ID, done.Tree, done.Made, done.Paths = id, tree, true, len(s.Changes)
	return done, nil
}

// committable is the status of a tree that can be committed: no conflict is open, and no merge under way.
func (w *writer) committable(ctx context.Context) (Status, error) {
	s, err := w.Status(ctx)
	switch {
	case err != nil:
		return s, err
	case len(s.Conflicts) > 0:
		return s, fmt.Errorf("commit: %q and %d more are not merged: %w (resolve the conflicts first)",
			short(s.Conflicts[0]), len(s.Conflicts)-1, ErrConflict)
	case s.Underway != "":
		return s, fmt.Errorf("commit: a %s is in progress: %w (finish or abort it)", s.Underway, ErrUnderway)
	}
	return s, nil
}

// stage puts all changes into the index that c uses, the repository's own unless c names another one. It asks no
// submodule for its state, as git add would.
func (w *writer) stage(ctx context.Context, s Status, c call) error {
	var list, gone strings.Builder
	var sum int64
	for _, c := range s.Changes {
		if info, err := os.Lstat(filepath.Join(w.tree, c.Path)); err == nil {
			sum += info.Size()
		}
		if c.Unstaged == 'D' {
			gone.WriteString(c.Path + "\x00")
			continue
		}
		list.WriteString(c.Path + "\x00")
	}
	if l := w.g.cfg.Limits; sum > l.Bytes || len(s.Changes) > l.Files {
		return fmt.Errorf("commit of %d paths with %d bytes, the limits are %d and %d: %w (leave generated files out by .gitignore)", len(s.Changes), sum, l.Files, l.Bytes, ErrTooLarge)
	}
	// What is not there any more goes first, and what is new replaces it: a directory may have become a link or a file.
	// Behind a wall git does not see that what was below such a link is gone.
	for _, step := range []struct{ how, paths string }{{"--force-remove", gone.String()}, {"--remove", list.String()}} {
		if step.paths == "" {
			continue
		}
		c.args, c.stdin = []string{"update-index", "-z", "--add", "--replace", step.how, "--stdin"},
			strings.NewReader(step.paths)
		if _, err := w.do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// record makes a commit object.
func (w *writer) record(ctx context.Context, tree string, parents []string, message string, env []string) (string,
	error) {
	args := []string{"commit-tree", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return firstLine(w.do(ctx, call{args: append(args, "-F", "-"), env: env, stdin: strings.NewReader(message + "\n")}))
}

// move sets a ref that must still be at old, which is empty for one that is not there.
func (w *writer) move(ctx context.Context, ref, id, old, why string) error {
	if old == "" {
		old = strings.Repeat("0", len(id))
	}
	_, err := w.do(ctx, call{args: []string{"update-ref", "-m", why, ref, id, old},
		env: []string{"GIT_COMMITTER_NAME=inspan", "GIT_COMMITTER_EMAIL=inspan@localhost"}})
	return err
}

func (a Author) env() ([]string, error) {
	clean := func(s string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r == '<' || r == '>' || !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, s))
	}
	name, mail := clean(a.Name), clean(a.Email)
	if name == "" || mail == "" || len(name) > 200 || len(mail) > 200 {
		return nil, fmt.Errorf("author: want a name and an email of 1 to 200 bytes each: %w", ErrName)
	}
	when := a.When
	if when.IsZero() {
		when = time.Now()
	}
	env := []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name,
		"GIT_COMMITTER_EMAIL=" + mail}
	return append(env, "GIT_AUTHOR_DATE="+stamp(when), "GIT_COMMITTER_DATE="+stamp(when)), nil
}
