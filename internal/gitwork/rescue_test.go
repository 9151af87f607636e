package gitwork_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
)

// rescued publishes what a workspace has and gives the branches by name.
func (b *bay) rescued(scope string) map[string]gitwork.Published {
	b.t.Helper()
	kept, whole, err := b.desk.Rescue(b.t.Context(), scope, b.job.Dir)
	if err != nil || !whole {
		b.t.Fatalf("rescue %s: %v, whole %v, %v", scope, kept, whole, err)
	}
	all := map[string]gitwork.Published{}
	for _, p := range kept {
		all[p.Branch] = p
	}
	return all
}

// record reads what the station knows of a branch.
func (r *rig) record(scope, branch string) (rec events.PublishedBranch, ok bool) {
	r.t.Helper()
	b, err := r.st.KV(topology.TreeBucket).Get(r.t.Context(), events.BranchKey(scope, branch))
	if err != nil {
		return rec, false
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		r.t.Fatal(err)
	}
	return rec, true
}

// fetched takes a published branch into a clone of the remote as a person does, and gives the clone.
func (r *rig) fetched(t *testing.T, scope, branch string) string {
	t.Helper()
	rec, ok := r.record(scope, branch)
	if !ok {
		t.Fatalf("%s has no branch %s", scope, branch)
	}
	var whole bytes.Buffer
	for _, part := range rec.Parts {
		b, err := r.st.Blobs().Get(t.Context(), part)
		if err != nil {
			t.Fatal(err)
		}
		whole.Write(b)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, "b"), whole.String())
	raw(t, dir, "clone", "-q", r.dir, "clone")
	raw(t, filepath.Join(dir, "clone"), "fetch", "-q", "../b", branch+":got")
	return filepath.Join(dir, "clone")
}

func only(t *testing.T, all map[string]gitwork.Published, prefix string) gitwork.Published {
	t.Helper()
	for name, p := range all {
		if strings.HasPrefix(name, prefix) && len(all) == 1 {
			return p
		}
	}
	t.Fatalf("got %v, want one that begins with %s", all, prefix)
	return gitwork.Published{}
}

func TestRescue(t *testing.T) {
	t.Parallel()
	t.Run("GIT-10 C17 what no remote has is published before a workspace goes, with what was not committed on a branch beside it, and twice is as once", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		b.put("open.txt", "not committed")
		b.put("a.txt", "changed")
		b.put(".gitignore", "*.tmp\n")
		b.put("big.tmp", "made by a build")
		before := raw(t, b.job.Dir, "status", "--porcelain")
		kept := b.rescued("run/r9")
		if len(kept) != 2 || kept["agent/a/1"].Commit != c.Commit {
			t.Fatalf("got %v", kept)
		}
		if now := raw(t, b.job.Dir, "status", "--porcelain"); now != before {
			t.Errorf("the tree was %q and is %q", before, now)
		}
		again := b.rescued("run/r9")
		for name, p := range kept {
			if again[name] != p {
				t.Errorf("%s: first %v, then %v", name, p, again[name])
			}
			if rec, _ := r.record("run/r9", name); rec.Until.Sub(rec.At) < 29*24*time.Hour {
				t.Errorf("%s stays from %s until %s", name, rec.At, rec.Until)
			}
		}
		delete(kept, "agent/a/1")
		dirty := only(t, kept, "rescued/changes-")
		clone := r.fetched(t, "run/r9", dirty.Branch)
		if files := raw(t, clone, "ls-tree", "--name-only", "got"); files != ".gitignore\na.txt\nnew.txt\nopen.txt" || raw(t, clone, "show", "got:a.txt") != "changed" || raw(t, clone, "rev-parse", "got^") != c.Commit {
			t.Errorf("got %q", files)
		}
		other := r.bay(t, b.desk)
		other.job.Scope = "run/r9"
		if p := other.prepared(args{"url": r.url, "new_branch": "agent/a/1"}); p.Commit != c.Commit {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("GIT-10 what is pushed, or no repository, needs nothing", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		if kept := b.rescued("run/r8"); len(kept) != 0 {
			t.Errorf("got %v", kept)
		}
		c := b.work(r.url, "agent/a/2", "new.txt")
		do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/a/2", "commit": c.Commit, "url": r.url})
		if kept := b.rescued("run/r8"); len(kept) != 0 {
			t.Errorf("got %v", kept)
		}
	})
	for what, tc := range map[string]struct {
		do     func(b *bay)
		prefix string
		check  func(t *testing.T, clone string)
	}{
		"a stash": {func(b *bay) { b.put("a.txt", "stashed"); raw(b.t, b.job.Dir, "stash", "-q") }, "rescued/stash-",
			func(t *testing.T, clone string) {
				raw(t, clone, "stash", "apply", "-q", "got")
				if got := get(t, filepath.Join(clone, "a.txt")); got != "stashed" {
					t.Errorf("got %q", got)
				}
			}},
		"commits of no branch": {func(b *bay) {
			raw(b.t, b.job.Dir, "checkout", "-q", "--detach")
			raw(b.t, b.job.Dir, "commit", "-q", "--allow-empty", "-m", "loose")
			raw(b.t, b.job.Dir, "tag", "v9")
		}, "rescued/head-", func(t *testing.T, clone string) {
			if got := raw(t, clone, "log", "-1", "--format=%s", "got"); got != "loose" {
				t.Errorf("got %q", got)
			}
		}},
		"a merge that is under way": {func(b *bay) {
			raw(b.t, b.job.Dir, "checkout", "-q", "-b", "side", "HEAD~1")
			b.put("a.txt", "one\nside\n")
			raw(b.t, b.job.Dir, "commit", "-qam", "side")
			raw(b.t, b.job.Dir, "checkout", "-q", "main")
			raw(b.t, b.job.Dir, "update-ref", "-d", "refs/heads/side")
			raw(b.t, b.job.Dir, "read-tree", "-m", "HEAD~1", "HEAD", "HEAD")
			put(b.t, filepath.Join(b.job.Dir, ".git/MERGE_HEAD"), raw(b.t, b.job.Dir, "rev-parse", "HEAD@{1}")+"\n")
			b.put("a.txt", "<<<<<<< half settled\n")
		}, "rescued/changes-", func(t *testing.T, clone string) {
			if got := raw(t, clone, "show", "got:a.txt"); got != "<<<<<<< half settled" || raw(t, clone, "log", "-1", "--format=%s", "got^2") != "side" {
				t.Errorf("got %q", got)
			}
		}},
	} {
		t.Run("GIT-8 GIT-10 kept as well is "+what, func(t *testing.T) {
			t.Parallel()
			r, b := newBay(t)
			b.begun(r, "")
			tc.do(b)
			p := only(t, b.rescued("run/r7"), tc.prefix)
			tc.check(t, r.fetched(t, "run/r7", p.Branch))
		})
	}
	t.Run("GIT-10 SAFE-12 a repository inside of it, or one that cannot be believed, lets the workspace stay", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		for what, do := range map[string]func(b *bay){
			"nested": func(b *bay) {
				b.put("inner/x", "x")
				raw(t, filepath.Join(b.job.Dir, "inner"), "init", "-q")
			},
			"submodules": func(b *bay) { b.put(".git/modules/s/HEAD", "ref: refs/heads/main") },
			"a pipe": func(b *bay) {
				if err := syscall.Mkfifo(filepath.Join(b.job.Dir, ".gitignore"), 0o644); err != nil {
					t.Error(err)
				}
			},
			"alternates": func(b *bay) { b.put(".git/objects/info/alternates", "/nowhere") },
		} {
			b := r.bay(t, r.desk())
			b.begun(r, "")
			do(b)
			if _, whole, err := b.desk.Rescue(t.Context(), "run/r7", b.job.Dir); whole || err != nil {
				t.Errorf("%s: %v %v", what, whole, err)
			}
		}
	})
}

func TestRescueBesideOthers(t *testing.T) {
	t.Parallel()
	t.Run("GIT-7 GIT-8 a line that was published otherwise meanwhile is not written over: what has all stays, what parted is kept beside it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		old := r.bay(t, d)
		was := old.work(r.url, "line", "one.txt")
		old.published("line")
		ahead := r.bay(t, d)
		ahead.prepared(args{"url": r.url, "working_branch": "line"})
		ahead.put("two.txt", "2")
		is := ahead.committed("two")
		ahead.published("line")
		if kept := old.rescued("session/demo"); kept["line"].Commit != is.Commit {
			t.Errorf("%s is behind %s, and kept is %v", was.Commit, is.Commit, kept)
		}
		old.put("three.txt", "3")
		parted := old.committed("three")
		kept := old.rescued("session/demo")
		if side := kept["rescued/branch-"+parted.Commit[:12]]; len(kept) != 1 || side.Commit != parted.Commit {
			t.Errorf("kept is %v", kept)
		}
		if rec, _ := r.record("session/demo", "line"); rec.Commit != is.Commit || !rec.Until.IsZero() {
			t.Errorf("published is %+v", rec)
		}
	})
	t.Run("GIT-10 what cannot be read again is not kept: the workspace stays", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		b.work(r.url, "agent/a/1", "new.txt")
		b.rescued("run/r1")
		other := r.bay(t, b.desk)
		other.work(r.url, "other", "other.txt")
		other.published("other")
		strange, _ := r.record("session/demo", "other")
		for what, parts := range map[string][]events.Ref{"an object that is not there": {{SHA256: strings.Repeat("0", 64), Size: 1}}, "another branch": strange.Parts} {
			r.rewrite("run/r1", "agent/a/1", func(rec *events.PublishedBranch) { rec.Parts = parts })
			if _, whole, err := b.desk.Rescue(t.Context(), "run/r1", b.job.Dir); whole || err == nil {
				t.Errorf("%s: whole %v, %v", what, whole, err)
			}
		}
	})
}

func TestExpire(t *testing.T) {
	t.Parallel()
	t.Run("GIT-10 SESS-6 published branches stay for their time, those of a session as long as it, and then as long as others", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		for i, scope := range []string{"run/r1", "session/demo", "workflow/w"} {
			b := r.bay(t, d)
			b.job.Scope = scope
			b.work(r.url, "line", string(rune('a'+i))+".txt")
			b.published("line")
		}
		there := func(want ...string) {
			t.Helper()
			var got []string
			for _, scope := range []string{"deleted/demo/7", "run/r1", "session/demo", "workflow/w"} {
				if _, ok := r.record(scope, "line"); ok {
					got = append(got, scope)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("there is %v, want %v", got, want)
			}
		}
		expire := func(after time.Duration, want int) {
			t.Helper()
			if n, err := d.Expire(t.Context(), time.Now().Add(after)); n != want || err != nil {
				t.Errorf("after %s %d went, want %d: %v", after, n, want, err)
			}
		}
		expire(29*24*time.Hour, 0)
		there("run/r1", "session/demo", "workflow/w")
		expire(31*24*time.Hour, 2)
		there("session/demo")
		if err := d.Retire(t.Context(), "session/demo", "deleted/demo/7"); err != nil {
			t.Fatal(err)
		}
		expire(29*24*time.Hour, 0)
		there("deleted/demo/7")
		expire(31*24*time.Hour, 1)
		there()
	})
}
