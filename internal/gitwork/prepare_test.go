package gitwork_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/tool"
)

func TestPrepare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.desk()
	tip, old := raw(t, r.dir, "rev-parse", "main"), raw(t, r.dir, "rev-parse", "old")
	t.Run("GIT-11a SESS-6 an empty workspace is cloned, the harness's own files beside it, and doing it again changes nothing", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		want := gitwork.Prepared{Branch: "main", Commit: tip, Base: tip, Cloned: true}
		if got := b.prepared(args{"url": r.url}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := get(t, filepath.Join(b.job.Dir, "a.txt")); got != "one\ntwo\nthree\n" || get(t, filepath.Join(b.job.Dir, ".session.lock")) != "{}" {
			t.Errorf("got %q", got)
		}
		want.Cloned = false
		if got := b.prepared(args{"url": r.url}); !reflect.DeepEqual(got, want) {
			t.Errorf("again: got %+v", got)
		}
	})
	t.Run("GIT-11b GIT-12 an existing workspace is fetched and checked out", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.prepared(args{"url": r.url, "branch": "old"})
		for _, c := range []struct {
			a            args
			branch, base string
		}{{args{"url": r.url}, "main", tip}, {args{"url": r.url, "branch": "old"}, "old", old}, {args{"url": r.url, "ref": "v1"}, "", raw(t, r.dir, "rev-parse", "v1")},
			{args{"url": r.url, "ref": "pull/123/head"}, "", raw(t, r.dir, "rev-parse", "refs/pull/123/head")}, {args{"url": r.url, "ref": old}, "", old},
			{args{"url": r.url, "branch": "old", "ref": "main"}, "main", tip}} {
			if got := b.prepared(c.a); got.Branch != c.branch || got.Commit != c.base || got.Base != c.base || got.Cloned {
				t.Errorf("%v: got %+v", c.a, got)
			}
		}
	})
	t.Run("GIT-11 how far a transfer is is told", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		var told strings.Builder
		b.job.Progress = func(line string) { told.WriteString(line) }
		b.prepared(args{"url": r.url})
		if !strings.Contains(told.String(), "Counting objects: ") || !strings.HasSuffix(told.String(), "\n") {
			t.Errorf("told %q", told.String())
		}
	})
	t.Run("GIT-12 depth", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.prepared(args{"url": r.url, "depth": 1})
		if n := raw(t, b.job.Dir, "rev-list", "--count", "HEAD"); n != "1" {
			t.Errorf("%s commits", n)
		}
	})
	t.Run("GIT-11c without a source the workspace is used as it is", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.put("notes.txt", "x")
		if got := b.prepared(args{}); !reflect.DeepEqual(got, gitwork.Prepared{}) {
			t.Errorf("got %+v", got)
		}
		absent(t, filepath.Join(b.job.Dir, ".git"))
		raw(t, b.job.Dir, "init", "-q")
		raw(t, b.job.Dir, "add", "notes.txt")
		raw(t, b.job.Dir, "commit", "-qm", "mine")
		if got := b.prepared(args{}); got.Branch != "main" || got.Commit != raw(t, b.job.Dir, "rev-parse", "HEAD") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GIT-1 GIT-9 a new branch off the working branch; one that is there is checked out as it is", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		a := args{"url": r.url, "branch": "old", "working_branch": "feature/review-7", "new_branch": "agent/coder/r1"}
		if got := b.prepared(a); !reflect.DeepEqual(got, gitwork.Prepared{Branch: "agent/coder/r1", Commit: old, Base: old, Cloned: true}) {
			t.Errorf("got %+v", got)
		}
		if raw(t, b.job.Dir, "rev-parse", "feature/review-7") != old {
			t.Error("the working branch is elsewhere")
		}
		b.put("new.txt", "work")
		c := b.committed("work")
		b.put("more.txt", "not committed")
		if got := b.prepared(a); !reflect.DeepEqual(got, gitwork.Prepared{Branch: "agent/coder/r1", Commit: c.Commit, Base: old}) || get(t, filepath.Join(b.job.Dir, "more.txt")) == "" {
			t.Errorf("again: got %+v", got)
		}
	})
	t.Run("GIT-6 GIT-10 work on a branch that was pushed, or published, is gone on with in another workspace", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one := r.bay(t, d)
		a := args{"url": r.url, "new_branch": "agent/line"}
		first := one.work(r.url, "agent/line", "one.txt")
		one.published("agent/line")
		want := gitwork.Prepared{Branch: "agent/line", Commit: first.Commit, Base: tipOf(t, r), Cloned: true}
		if got := r.bay(t, d).prepared(a); !reflect.DeepEqual(got, want) {
			t.Errorf("published: got %+v, want %+v", got, want)
		}
		one.put("two.txt", "x")
		want.Commit = one.committed("two").Commit
		do[gitwork.Pushed](one, gitwork.Push, args{"branch": "agent/line", "commit": want.Commit, "url": r.url})
		if got := r.bay(t, d).prepared(a); !reflect.DeepEqual(got, want) {
			t.Errorf("pushed since: got %+v, want %+v", got, want)
		}
		one.published("agent/line")
		one.put("three.txt", "x")
		want.Commit = one.committed("three").Commit
		one.published("agent/line")
		if got := r.bay(t, d).prepared(a); !reflect.DeepEqual(got, want) {
			t.Errorf("published since: got %+v, want %+v", got, want)
		}
	})
	t.Run("GIT-9 a working branch of the remote is gone on with", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		if got := b.prepared(args{"url": r.url, "working_branch": "old", "new_branch": "agent/a/b"}); got.Commit != old || got.Base != old {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GIT-11 a workspace without a repository becomes one where a branch is asked for, with its files", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.put("notes.txt", "x")
		if got := b.prepared(args{"new_branch": "agent/a/b"}); !reflect.DeepEqual(got, gitwork.Prepared{Branch: "agent/a/b"}) {
			t.Errorf("got %+v", got)
		}
		if c := b.committed("first"); !c.Made || c.Paths != 1 || c.Branch != "agent/a/b" {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("GIT-11 changes and files of others are never overwritten", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.put("a.txt", "mine")
		b.bad(gitwork.Prepare, args{"url": r.url}, tool.Invalid, "it has files and no repository")
		b = r.bay(t, d)
		b.prepared(args{"url": r.url})
		b.put("a.txt", "mine")
		b.bad(gitwork.Prepare, args{"url": r.url, "branch": "old"}, tool.Permanent, "commit the changes first")
		if get(t, filepath.Join(b.job.Dir, "a.txt")) != "mine" {
			t.Error("it was overwritten")
		}
	})
	t.Run("GIT-11 a clone that comes to nothing leaves the workspace as empty as it was", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.bad(gitwork.Prepare, args{"url": r.url, "branch": "nowhere"}, tool.Invalid, "nowhere")
		b.bad(gitwork.Prepare, args{"url": r.url + "-none"}, tool.Invalid, "not found")
		absent(t, filepath.Join(b.job.Dir, ".git"))
		if get(t, filepath.Join(b.job.Dir, ".session.lock")) != "{}" {
			t.Error("the harness's files are gone")
		}
		b.prepared(args{"url": r.url})
	})
	t.Run("GIT-11 SAFE-7 what a clone left that was killed is taken away by the same call, and by no other", func(t *testing.T) {
		t.Parallel()
		for _, same := range []bool{true, false} {
			b := r.bay(t, d)
			killed(t, r, b, `{"call":"r1/c1","cloning":true}`)
			raw(t, b.job.Dir, "init", "-q")
			b.put("a.txt", "half of a file")
			b.put(".git/index.lock", "")
			if !same {
				b.job.Call = "r1/c2"
				b.bad(gitwork.Prepare, args{"url": r.url}, tool.Permanent, "commit the changes first")
				continue
			}
			if got := b.prepared(args{"url": r.url}); !got.Cloned || got.Commit != tip || get(t, filepath.Join(b.job.Dir, "a.txt")) != "one\ntwo\nthree\n" {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("SAFE-7 GIT-11 what was half checked out when it was killed is undone by the same call, and by no other", func(t *testing.T) {
		t.Parallel()
		for _, same := range []bool{true, false} {
			b := r.bay(t, d)
			b.prepared(args{"url": r.url})
			killed(t, r, b, `{"call":"r1/c1","clean":true}`)
			raw(t, b.job.Dir, "read-tree", "-m", "-u", "HEAD", "refs/remotes/origin/old") // the index and the files are there, the branch is not
			b.put("pr.txt", "of another commit")
			if !same {
				b.job.Call = "r1/c2"
				b.bad(gitwork.Prepare, args{"url": r.url, "ref": "pull/123/head"}, tool.Permanent, "commit the changes first")
				continue
			}
			if got := b.prepared(args{"url": r.url, "ref": "pull/123/head"}); got.Commit != raw(t, r.dir, "rev-parse", "refs/pull/123/head") || raw(t, b.job.Dir, "status", "--porcelain", "--untracked-files=no") != "" {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("SAFE-7 changes that were there before are not undone", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.prepared(args{"url": r.url})
		b.put("mine.txt", "mine")
		ctx, cancel := context.WithCancel(t.Context())
		b.job.Current = func(context.Context) error { cancel(); return nil }
		if _, err := b.within(ctx, gitwork.Prepare, args{"url": r.url, "branch": "old"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := b.within(ctx, gitwork.Merge, args{"from": []string{"old"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if get(t, filepath.Join(b.job.Dir, "mine.txt")) != "mine" {
			t.Error("it is gone")
		}
	})
	t.Run("SAFE-8 one that sleeps at work keeps others out, who are told to try again", func(t *testing.T) {
		t.Parallel()
		b, other := r.bay(t, d), r.bay(t, r.hasty())
		other.job.Dir = b.job.Dir
		begun, wake := make(chan struct{}), make(chan struct{})
		b.job.Current = func(context.Context) error { close(begun); <-wake; return nil }
		done := make(chan error, 1)
		go func() {
			_, err := b.try(gitwork.Prepare, args{"url": r.url})
			done <- err
		}()
		<-begun
		other.bad(gitwork.Prepare, args{"url": r.url}, tool.Transient, "another git operation is in progress")
		close(wake)
		if err := <-done; err != nil {
			t.Error(err)
		}
		other.desk = d
		if p := other.prepared(args{"url": r.url}); p.Cloned {
			t.Errorf("got %+v", p)
		}
	})
	t.Run("SAFE-7 a lock that a killed git left is removed, one of a living git is not", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		b.prepared(args{"url": r.url})
		b.put("new.txt", "x")
		b.put(".git/index.lock", "")
		b.bad(gitwork.Commit, args{"message": "x"}, tool.Transient, "another operation is in progress")
		killed(t, r, b, `{"call":"r1/c0"}`)
		b.put(".git/refs/heads/main.lock", "")
		if c := b.committed("x"); !c.Made {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("GIT-11 two at once in one workspace come after each other", func(t *testing.T) {
		t.Parallel()
		b := r.bay(t, d)
		done := make(chan error, 4) // one for each
		for range 4 {
			go func() {
				_, err := b.try(gitwork.Prepare, args{"url": r.url, "new_branch": "agent/a/b"})
				done <- err
			}()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(filepath.Join(r.root, ".git-work")); err != nil {
			t.Errorf("%v %v", left, err)
		}
	})
}

func tipOf(t *testing.T, r *rig) string {
	t.Helper()
	return raw(t, r.dir, "rev-parse", "main")
}

// killed makes it look as if a process was killed while it worked in a tree.
func killed(t *testing.T, r *rig, b *bay, note string) {
	t.Helper()
	put(t, gitwork.LockOf(filepath.Join(r.root, ".git-work"), b.job.Dir), note)
}

func TestNames(t *testing.T) {
	t.Parallel()
	r, b := newBay(t)
	b.prepared(args{"url": r.url})
	c := b.committed("nothing")
	before := raw(t, r.dir, "for-each-ref")
	for _, name := range []string{"--upload-pack=touch x", "-x", "a b", "a\x00b", "a\nb", "..", "a..b", "refs/heads/../x", "HEAD", "a~1", "a:b", "a\u202eb", "x.lock", strings.Repeat("a", 201), "@{u}"} {
		for what, a := range map[string][]args{
			gitwork.Prepare: {{"branch": name}, {"ref": name}, {"working_branch": name}, {"new_branch": name}, {"url": r.url, "ref": name}},
			gitwork.Merge:   {{"from": []string{name}}, {"from": []string{"main"}, "into": name}},
			gitwork.Publish: {{"branch": name}},
			gitwork.Push:    {{"branch": name, "commit": c.Commit, "url": r.url}, {"branch": "main", "to": name, "commit": c.Commit, "url": r.url}},
		} {
			for _, a := range a {
				t.Run("SAFE-12 "+what+" of a name that is none", func(t *testing.T) {
					b := *b
					b.t = t
					b.bad(what, a, tool.Invalid, "")
				})
			}
		}
	}
	if after := raw(t, r.dir, "for-each-ref"); after != before {
		t.Errorf("the remote changed: %s", after)
	}
}
