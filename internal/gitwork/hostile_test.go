package gitwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// TestApprovedCommit lets whoever holds a workspace change it while what was approved is carried out.
func TestApprovedCommit(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 a branch that is moved while it is pushed does not send what no one approved", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		evil := raw(t, b.job.Dir, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "evil")
		b.job.Current = func(context.Context) error {
			raw(t, b.job.Dir, "update-ref", "refs/heads/agent/a/1", evil)
			return nil
		}
		out, err := b.try(gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url})
		if there := raw(t, r.dir, "for-each-ref", "--format=%(objectname)", "refs/heads/agent"); there != "" || !errors.Is(err, gitwork.ErrMoved) {
			t.Errorf("the remote has %q, told is %s %v", there, out, err)
		}
		b.bad(gitwork.Push, args{"branch": "agent/a/1", "url": r.url}, tool.Invalid, "no commit is named")
	})
	t.Run("GATE-13 GIT-8 a line that is moved while others are merged into it is asked about anew", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "side", "side.txt")
		p := b.prepared(args{"url": r.url, "branch": "main"})
		evil := raw(t, b.job.Dir, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "evil")
		b.job.Current = func(context.Context) error {
			raw(t, b.job.Dir, "update-ref", "refs/heads/main", evil)
			return nil
		}
		got := do[gitwork.Merged](b, gitwork.Merge, args{"from": []string{"side"}, "onto": p.Commit, "commits": []string{c.Commit}})
		if len(got.Moved) != 1 || len(got.Merged) != 0 || raw(t, b.job.Dir, "rev-parse", "main") != evil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GATE-13 GIT-8 a branch with the name of the approved commit is not merged in its place", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "side", "side.txt")
		p := b.prepared(args{"url": r.url, "branch": "main"})
		b.put("evil.txt", "evil")
		raw(t, b.job.Dir, "add", "evil.txt")
		raw(t, b.job.Dir, "update-ref", "refs/heads/"+c.Commit, raw(t, b.job.Dir, "commit-tree", raw(t, b.job.Dir, "write-tree"), "-p", "HEAD", "-m", "evil"))
		raw(t, b.job.Dir, "rm", "-qf", "evil.txt")
		got := do[gitwork.Merged](b, gitwork.Merge, args{"from": []string{"side"}, "onto": p.Commit, "commits": []string{c.Commit}})
		if got.Commit != c.Commit || len(got.Merged) != 1 {
			t.Errorf("got %+v, want %s", got, c.Commit)
		}
		absent(t, filepath.Join(b.job.Dir, "evil.txt"))
	})
	t.Run("GATE-13 SAFE-7 TOOL-22 a push that was refused is not told as done, whatever the workspace says of history", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		other := r.bay(t, b.desk)
		theirs := other.work(r.url, "agent/a/1", "theirs.txt")
		do[gitwork.Pushed](other, gitwork.Push, args{"branch": "agent/a/1", "commit": theirs.Commit, "url": r.url})
		raw(t, b.job.Dir, "fetch", "-q", r.dir, "agent/a/1")
		raw(t, b.job.Dir, "update-ref", "refs/heads/"+c.Commit, theirs.Commit)
		raw(t, b.job.Dir, "update-ref", "refs/heads/"+theirs.Commit, c.Commit)
		push := args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url}
		b.bad(gitwork.Push, push, tool.Permanent, "rejected")
		input, err := json.Marshal(push)
		if err != nil {
			t.Fatal(err)
		}
		if done, out, err := b.desk.At(b.job).Done(t.Context(), gitwork.Push, input); done || err != nil {
			t.Errorf("told as done: %s %v", out, err)
		}
	})
}

// TestRescueStrange removes workspaces whose repositories are not as git makes them.
func TestRescueStrange(t *testing.T) {
	t.Parallel()
	t.Run("GIT-10 what another remote has, whom somebody named in the workspace, is kept all the same", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		backup := filepath.Join(t.TempDir(), "backup.git")
		raw(t, "/", "init", "-q", "--bare", backup)
		raw(t, b.job.Dir, "remote", "add", "backup", backup)
		raw(t, b.job.Dir, "push", "-q", "backup", "agent/a/1")
		if kept := b.rescued("run/r1"); len(kept) != 1 || kept["agent/a/1"].Commit != c.Commit {
			t.Errorf("kept is %v", kept)
		}
	})
	t.Run("GIT-10 a branch whose name others do not take is kept under another, and does not stop the rest", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		raw(t, b.job.Dir, "branch", "a-it's-mine")
		for range 2 {
			kept := b.rescued("run/r1")
			if side := kept["rescued/branch-"+c.Commit[:12]]; side.Commit != c.Commit || kept["agent/a/1"].Commit != c.Commit {
				t.Errorf("kept is %v", kept)
			}
		}
	})
	t.Run("GIT-10 SAFE-7 that a remote has it is not believed of a record without content", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		later := raw(t, b.job.Dir, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "later")
		r.rewrite("run/r1", "agent/a/1", func(rec *events.PublishedBranch) {
			*rec = events.PublishedBranch{Scope: "run/r1", Branch: "agent/a/1", Commit: later, By: "r2/c1"}
		})
		kept := b.rescued("run/r1")
		p := only(t, kept, "rescued/branch-")
		clone := r.fetched(t, "run/r1", p.Branch)
		if got := raw(t, clone, "rev-parse", "got"); got != c.Commit {
			t.Errorf("kept is %s, want %s", got, c.Commit)
		}
	})
	t.Run("GIT-10 SAFE-15 more branches than can be kept let the workspace stay", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		text := "# pack-refs with: peeled fully-peeled sorted \n"
		for i := range 5000 {
			text += fmt.Sprintf("%s refs/heads/many/%05d\n", c.Commit, i)
			if i == 400 {
				put(t, filepath.Join(b.job.Dir, ".git/packed-refs"), text)
				if kept, whole, err := b.desk.Rescue(t.Context(), "run/r1", b.job.Dir); whole || len(kept) > 0 || !errors.Is(err, git.ErrTooLarge) {
					t.Errorf("%d kept, whole %v, %v", len(kept), whole, err)
				}
			}
		}
		put(t, filepath.Join(b.job.Dir, ".git/packed-refs"), text)
		if _, whole, err := b.desk.Rescue(t.Context(), "run/r1", b.job.Dir); whole || !errors.Is(err, git.ErrTooLarge) {
			t.Errorf("whole %v, %v", whole, err)
		}
	})
}

func TestOwnFiles(t *testing.T) {
	t.Parallel()
	t.Run("GIT-3 SESS-6 the harness's own files are left out by an agent's git, too", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		for what, a := range map[string]args{"a clone": {"url": r.url}, "a new repository": {"working_branch": "line"}} {
			b := r.bay(t, r.desk())
			b.prepared(a)
			b.put("new.txt", "x")
			raw(t, b.job.Dir, "add", "-A")
			if got := raw(t, b.job.Dir, "diff", "--cached", "--name-only"); got != "new.txt" {
				t.Errorf("%s: added is %q", what, got)
			}
		}
	})
}

// TestRemoteMovesOn fetches again after the remote gave a name to something else.
func TestRemoteMovesOn(t *testing.T) {
	t.Parallel()
	t.Run("GIT-11 a branch of the remote that made room for one below its name can be fetched", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		raw(t, r.dir, "branch", "feature", "main")
		b.begun(r, "")
		raw(t, r.dir, "branch", "-D", "feature")
		raw(t, r.dir, "branch", "feature/x", "main~1")
		if p := b.prepared(args{"url": r.url, "branch": "feature/x"}); p.Branch != "feature/x" || p.Commit != raw(t, r.dir, "rev-parse", "main~1") {
			t.Errorf("got %+v", p)
		}
	})
}
