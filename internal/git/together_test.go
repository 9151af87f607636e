package git_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

func TestTogether(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	t.Run("GIT-6 one after the other, each sees the commits before it", func(t *testing.T) {
		t.Parallel()
		url, dir := bare(t)
		branch := git.BranchName("session-1", "review")
		var before []string
		for i, who := range []string{"reviewer", "coder", "tester"} {
			// Each in a tree of its own, as after a move to another machine.
			r := clone(t, g, url)
			if i > 0 {
				must[*git.Repo](t)(g.Prepare(t.Context(), git.Source{URL: url, Branch: branch}, r.Dir()))
			} else if err := r.CreateBranch(t.Context(), branch, "main"); err != nil {
				t.Fatal(err)
			}
			for _, b := range before {
				get(t, filepath.Join(r.Dir(), b))
			}
			put(t, filepath.Join(r.Dir(), who+".md"), who+"\n")
			must[git.Committed](t)(r.Commit(t.Context(), who+"'s work", git.Author{Name: who, Email: who + "@agents"}))
			must[git.Pushed](t)(r.Push(t.Context(), git.Push{URL: url, Branch: branch}))
			before = append(before, who+".md")
		}
		if got := raw(t, dir, "log", "--format=%an", "main.."+branch); got != "tester\ncoder\nreviewer" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("GIT-7 GIT-14 WS-14 at the same time, a branch and a tree each, and a merge that conflicts", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		ctx := t.Context()
		trees := map[string]*git.Repo{}
		for _, who := range []string{"ann", "bob", "cleo"} {
			trees[who] = must[*git.Repo](t)(r.AddWorktree(ctx, filepath.Join(t.TempDir(), who), git.BranchName("session-1", who), "main"))
		}
		var all sync.WaitGroup
		for who, tree := range trees {
			all.Go(func() {
				for i := range 3 {
					put(t, filepath.Join(tree.Dir(), fmt.Sprintf("%s-%d", who, i)), who)
					if who != "cleo" {
						put(t, filepath.Join(tree.Dir(), "a.txt"), fmt.Sprintf("one\n%s %d\n", who, i))
					}
					if c, err := tree.Commit(ctx, fmt.Sprint(who, i), git.Author{Name: who, Email: who + "@agents"}); err != nil || !c.Made {
						t.Errorf("%s: %+v %v", who, c, err)
					}
				}
			})
		}
		all.Wait()
		absent(t, filepath.Join(trees["ann"].Dir(), "bob-0"))
		list := must[[]git.Worktree](t)(r.Worktrees(ctx))
		if len(list) != 4 || list[0] != (git.Worktree{Dir: r.Dir(), Branch: "main", ID: must[string](t)(r.Resolve(ctx, "main"))}) {
			t.Errorf("got %+v", list)
		}
		if m := must[git.Merged](t)(r.Merge(ctx, "agent/session-1/ann", "", ada)); m.How != "forward" {
			t.Errorf("the first: %+v", m)
		}
		if m := must[git.Merged](t)(r.Merge(ctx, "agent/session-1/cleo", "with cleo", ada)); m.How != "merge" || raw(t, r.Dir(), "log", "-1", "--format=%s %p") == "" {
			t.Errorf("the second: %+v", m)
		}
		get(t, filepath.Join(r.Dir(), "cleo-2"))
		if m := must[git.Merged](t)(r.Merge(ctx, "agent/session-1/ann", "", ada)); m.How != "nothing" {
			t.Errorf("again: %+v", m)
		}
		head := must[git.Head](t)(r.Head(ctx))
		_, err := r.Merge(ctx, "agent/session-1/bob", "", ada)
		var conflict *git.ConflictError
		if !errors.As(err, &conflict) || !errors.Is(err, git.ErrConflict) {
			t.Fatalf("got %v", err)
		}
		if len(conflict.Conflicts) != 1 || conflict.Conflicts[0].Path != "a.txt" {
			t.Fatalf("got %+v", conflict.Conflicts)
		}
		c := conflict.Conflicts[0]
		for id, want := range map[string]string{c.Base.ID: "one\ntwo\n", c.Ours.ID: "one\nann 2\n", c.Theirs.ID: "one\nbob 2\n"} {
			if got := string(must[[]byte](t)(r.Read(ctx, id, 1000))); got != want {
				t.Errorf("a side is %q, want %q", got, want)
			}
		}
		if got := string(must[[]byte](t)(r.ReadAt(ctx, conflict.Marked, "a.txt", 1000))); !strings.Contains(got, "<<<<<<<") || !strings.Contains(got, "bob 2") {
			t.Errorf("the marked file is %q", got)
		}
		s := must[git.Status](t)(r.Status(ctx))
		if !s.Clean() || s.Head != head || get(t, filepath.Join(r.Dir(), "a.txt")) != "one\nann 2\n" {
			t.Errorf("the tree was changed: %+v", s)
		}
		// Bob settles it in his own tree: theirs, with his line.
		bob := trees["bob"]
		if _, err := bob.Merge(ctx, head.ID, "", ada); !errors.Is(err, git.ErrConflict) {
			t.Errorf("the other way: %v", err)
		}
		raw(t, bob.Dir(), "merge", "-q", "-X", "ours", "-m", "settled", head.ID)
		if m := must[git.Merged](t)(r.Merge(ctx, "agent/session-1/bob", "", ada)); m.How != "forward" {
			t.Errorf("settled: %+v", m)
		}
		put(t, filepath.Join(bob.Dir(), "left"), "x")
		if err := r.RemoveWorktree(ctx, bob.Dir(), false); !errors.Is(err, git.ErrDirty) {
			t.Errorf("with changes: %v", err)
		}
		for who, tree := range trees {
			if err := r.RemoveWorktree(ctx, tree.Dir(), who == "bob"); err != nil {
				t.Error(err)
			}
			absent(t, tree.Dir())
		}
		if list := must[[]git.Worktree](t)(r.Worktrees(ctx)); len(list) != 1 {
			t.Errorf("left: %+v", list)
		}
		raw(t, r.Dir(), "fsck")
		must[string](t)(r.Resolve(ctx, "agent/session-1/bob"))
	})
	t.Run("GIT-2 changes that were not committed stop a merge and a checkout", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		put(t, filepath.Join(r.Dir(), "a.txt"), "mine\n")
		if _, err := r.Merge(t.Context(), "feature/x", "", ada); !errors.Is(err, git.ErrDirty) {
			t.Errorf("merge: %v", err)
		}
		if err := r.Checkout(t.Context(), "v1"); !errors.Is(err, git.ErrDirty) {
			t.Errorf("checkout: %v", err)
		}
		if get(t, filepath.Join(r.Dir(), "a.txt")) != "mine\n" {
			t.Error("the change is lost")
		}
	})
	t.Run("GIT-2 a merge of a person that is under way is not committed over", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		raw(t, r.Dir(), "merge", "-q", "--no-ff", "--no-commit", "origin/feature/x")
		if _, err := r.Commit(t.Context(), "x", ada); !errors.Is(err, git.ErrUnderway) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("what was not pushed is carried in a bundle", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		ctx := t.Context()
		if _, err := r.Bundle(ctx, new(bytes.Buffer)); !errors.Is(err, git.ErrNothing) {
			t.Errorf("with nothing new: %v", err)
		}
		if err := r.CreateBranch(ctx, "agent/a/b", "main"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(r.Dir(), "new"), "x")
		id := must[git.Committed](t)(r.Commit(ctx, "work", ada)).ID
		var b bytes.Buffer
		refs := must[[]git.Ref](t)(r.Bundle(ctx, &b))
		if len(refs) != 1 || refs[0] != (git.Ref{Name: "agent/a/b", ID: id}) {
			t.Errorf("got %+v", refs)
		}
		heir := clone(t, g, url)
		for name, damaged := range map[string][]byte{"half": b.Bytes()[:b.Len()/2], "text": []byte("# v2 git bundle\nnonsense")} {
			if _, err := heir.Unbundle(ctx, bytes.NewReader(damaged)); !errors.Is(err, git.ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := must[[]git.Ref](t)(heir.Unbundle(ctx, &b))
		if len(got) != 1 || got[0] != (git.Ref{Name: "bundle/agent/a/b", ID: id}) {
			t.Errorf("got %+v", got)
		}
		if err := heir.CreateBranch(ctx, "agent/a/b", "bundle/agent/a/b"); err != nil {
			t.Fatal(err)
		}
		if got := must[git.Pushed](t)(heir.Push(ctx, git.Push{URL: url, Branch: "agent/a/b"})); got.ID != id {
			t.Errorf("got %+v", got)
		}
		if _, err := heir.Bundle(ctx, new(bytes.Buffer)); !errors.Is(err, git.ErrNothing) {
			t.Errorf("after the push: %v", err)
		}
	})
}
