package gitwork_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/tool"
)

// lightBay is the bay of an ephemeral run.
func (r *rig) lightBay(t *testing.T, d *gitwork.Desk, run string) *bay {
	t.Helper()
	b := r.bay(t, d)
	b.job.Ephemeral, b.job.Call, b.job.Scope = true, run+"/c1", "run/"+run
	return b
}

// mirror is the only one that there is.
func (r *rig) mirror(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.root, gitwork.MirrorsDir, "*", ".git"))
	if err != nil || len(found) != 1 {
		t.Fatalf("mirrors: %v %v", found, err)
	}
	return filepath.Dir(found[0])
}

// packs are the files with objects in a repository.
func packs(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"pack/*.pack", "??/*"} {
		found, err := filepath.Glob(filepath.Join(dir, ".git/objects", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all = append(all, filepath.Base(f))
		}
	}
	return strings.Join(all, " ")
}

func (b *bay) path(t *testing.T, r *rig) string {
	t.Helper()
	rel, err := filepath.Rel(r.root, b.job.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return rel
}

// reclaim takes the workspace of a run that has ended away.
func (b *bay) reclaim(t *testing.T, r *rig) (kept []gitwork.Published, gone bool, err error) {
	t.Helper()
	return b.desk.Reclaim(t.Context(), b.path(t, r), func(context.Context, gitwork.Clone) (bool, error) { return true, nil }, func() error { return os.RemoveAll(b.job.Dir) })
}

func TestEphemeral(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 GIT-11 the second workspace on a remote borrows what the first has fetched, and neither sees refs or settings of the other", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one, two := r.lightBay(t, d, "one"), r.lightBay(t, d, "two")
		if p := one.prepared(args{"url": r.url, "new_branch": "agent/one"}); !p.Cloned || !p.Ephemeral || p.Branch != "agent/one" || p.Commit != raw(t, r.dir, "rev-parse", "main") {
			t.Fatalf("%+v", p)
		}
		fetched := packs(t, r.mirror(t))
		if p := two.prepared(args{"url": r.url, "ref": "pull/123/head", "new_branch": "agent/two"}); p.Commit != raw(t, r.dir, "rev-parse", "refs/pull/123/head") {
			t.Fatalf("%+v", p)
		}
		if p := two.prepared(args{"url": r.url, "new_branch": "agent/two"}); p.Cloned || p.Branch != "agent/two" {
			t.Fatalf("%+v", p)
		}
		three := r.lightBay(t, d, "three")
		before := packs(t, r.mirror(t))
		three.prepared(args{"url": r.url, "ref": "pull/123/head"})
		if now := packs(t, r.mirror(t)); now != before || !strings.Contains(now, fetched) {
			t.Errorf("the mirror had %q, then %q", before, now)
		}
		for _, b := range []*bay{one, two, three} {
			if got := packs(t, b.job.Dir); got != "" {
				t.Errorf("%s has objects of its own: %s", b.job.Dir, got)
			}
			if text := get(t, filepath.Join(b.job.Dir, "a.txt")); text != "one\ntwo\nthree\n" {
				t.Errorf("a.txt is %q", text)
			}
			raw(t, b.job.Dir, "fsck", "--strict") // for those who use git in the tree
		}
		one.put("b.txt", "b\n")
		c := one.committed("b")
		raw(t, one.job.Dir, "config", "user.name", "Mallory")
		if out := raw(t, two.job.Dir, "for-each-ref", "refs/heads"); strings.Contains(out, "agent/one") {
			t.Errorf("two sees %s", out)
		}
		if out := raw(t, two.job.Dir, "config", "--local", "--list"); strings.Contains(out, "Mallory") {
			t.Errorf("two sees %s", out)
		}
		if _, err := os.Stat(filepath.Join(r.mirror(t), ".git/objects", c.Commit[:2])); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the mirror has what a run has made: %v", err)
		}
		pushed := do[gitwork.Pushed](one, gitwork.Push, args{"url": r.url, "branch": "agent/one", "commit": c.Commit})
		if got := raw(t, r.dir, "rev-parse", "agent/one"); got != pushed.Commit {
			t.Errorf("the remote has %s", got)
		}
	})
	t.Run("WS-14 two that begin at once fetch one mirror", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		var bays []*bay
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			bays = append(bays, r.lightBay(t, r.desk(), name)) // each as a process of its own has it
		}
		for _, b := range bays {
			wg.Go(func() {
				if _, err := b.try(gitwork.Prepare, args{"url": r.url}); err != nil {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		for _, b := range bays {
			raw(t, b.job.Dir, "fsck", "--strict")
		}
		if got := packs(t, r.mirror(t)); strings.Contains(got, " ") || got == "" {
			t.Errorf("fetched more than once: %s", got)
		}
	})
	t.Run("WS-14 what is borrowed of is what the harness lent, whatever the repository says", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.begun(r, "")
		at := filepath.Join(b.job.Dir, ".git/objects/info/alternates")
		mine := get(t, at)
		elsewhere := t.TempDir()
		raw(t, elsewhere, "init", "-q")
		for _, text := range []string{filepath.Join(elsewhere, ".git/objects") + "\n", mine + filepath.Join(elsewhere, ".git/objects") + "\n", "#" + mine, strings.TrimSpace(mine) + "/../objects\n", ""} {
			put(t, at, text)
			b.bad(gitwork.Commit, args{"message": "x"}, tool.Denied, "not trusted")
			if _, whole, err := b.desk.Rescue(t.Context(), "run/one", b.job.Dir); whole || err != nil {
				t.Errorf("%q: whole %t, %v", text, whole, err)
			}
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(elsewhere, ".git/HEAD"), at); err != nil {
			t.Fatal(err)
		}
		b.bad(gitwork.Commit, args{"message": "x"}, tool.Denied, "not trusted")
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
		b.put("c.txt", "c\n")
		if c := b.committed("without the file it is known all the same"); !c.Made {
			t.Errorf("%+v", c)
		}
		full := r.bay(t, b.desk)
		full.begun(r, "")
		put(t, filepath.Join(full.job.Dir, ".git/objects/info/alternates"), mine)
		full.bad(gitwork.Commit, args{"message": "x"}, tool.Denied, "not trusted")
	})
	t.Run("WS-14 SAFE-12 no program that a workspace which borrows names is run", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		ran := filepath.Join(t.TempDir(), "ran")
		program := "#!/bin/sh\ntouch " + ran + "\n"
		b := r.lightBay(t, d, "one")
		b.begun(r, "agent/one")
		for _, hook := range []string{"post-checkout", "pre-commit", "post-commit", "pre-push", "reference-transaction"} {
			put(t, filepath.Join(b.job.Dir, ".git/hooks", hook), program)
			if err := os.Chmod(filepath.Join(b.job.Dir, ".git/hooks", hook), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		raw(t, b.job.Dir, "config", "core.alternateRefsCommand", "touch "+ran+"; echo")
		raw(t, b.job.Dir, "config", "core.fsmonitor", "touch "+ran)
		raw(t, b.job.Dir, "config", "filter.x.clean", "touch "+ran+"; cat")
		b.put(".gitattributes", "* filter=x\n")
		b.put("b.txt", "b\n")
		c := b.committed("b")
		do[gitwork.Pushed](b, gitwork.Push, args{"url": r.url, "branch": "agent/one", "commit": c.Commit})
		b.begun(r, "agent/one")
		r.lightBay(t, d, "two").prepared(args{"url": r.url, "branch": "agent/one"})
		if _, gone, err := b.reclaim(t, r); !gone || err != nil {
			t.Errorf("%t %v", gone, err)
		}
		absent(t, ran)
	})
	t.Run("WS-14 SBX-20 where it cannot be it is refused, never made something else", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.bad(gitwork.Prepare, args{"url": r.url, "depth": 1}, tool.Invalid, "remove depth")
		b.job.Barred = errors.New("set workspace: persistent")
		b.bad(gitwork.Prepare, args{"url": r.url}, tool.Denied, "set workspace: persistent")
		absent(t, filepath.Join(b.job.Dir, ".git"))
	})
	t.Run("WS-14 a workspace of before that is a full copy stays one, and one that borrows becomes one for a run that wants that", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		full := r.bay(t, d)
		full.begun(r, "")
		full.job.Ephemeral = true
		if p := full.prepared(args{"url": r.url}); p.Ephemeral || packs(t, full.job.Dir) == "" {
			t.Errorf("%+v", p)
		}
		b := r.lightBay(t, d, "one")
		b.begun(r, "")
		b.put("n.txt", "n\n")
		b.committed("n")
		b.job.Ephemeral = false
		if p := b.prepared(args{"url": r.url}); p.Ephemeral {
			t.Errorf("%+v", p)
		}
		if err := git.RemoveAll(filepath.Join(r.root, gitwork.MirrorsDir)); err != nil {
			t.Fatal(err)
		}
		raw(t, b.job.Dir, "fsck", "--strict")
		if got := raw(t, b.job.Dir, "log", "--format=%s", "-1"); got != "n" {
			t.Errorf("the last commit is %q", got)
		}
	})
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 WS-5 GIT-10 a workspace goes when its last run has ended, and what no remote has was kept", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.job.Scope = "run/" + filepath.Base(b.job.Dir)
		b.begun(r, "agent/one")
		b.put("b.txt", "b\n")
		c := b.committed("b")
		b.put("c.txt", "not committed\n")
		if kept, gone, err := b.desk.Reclaim(t.Context(), b.path(t, r), func(_ context.Context, l gitwork.Clone) (bool, error) {
			if strings.Join(l.Runs, " ") != "one" || !l.Passing() {
				t.Errorf("%+v", l)
			}
			return false, nil
		}, func() error { return errors.New("removed") }); len(kept) > 0 || gone || err != nil {
			t.Errorf("before the end: %v %t %v", kept, gone, err)
		}
		kept, gone, err := b.reclaim(t, r)
		if err != nil || !gone || len(kept) != 2 {
			t.Fatalf("%+v %t %v", kept, gone, err)
		}
		absent(t, b.job.Dir)
		if _, again, err := b.reclaim(t, r); !again || err != nil {
			t.Errorf("a second time: %t %v", again, err)
		}
		if left, err := b.desk.Clones(); err != nil || len(left) > 0 {
			t.Errorf("clones are left: %+v %v", left, err)
		}
		next := r.lightBay(t, b.desk, "two")
		next.job.Scope = b.job.Scope
		if p := next.prepared(args{"url": r.url, "new_branch": "agent/one"}); p.Commit != c.Commit {
			t.Errorf("the branch is not found again: %+v", p)
		}
	})
	t.Run("WS-14 what cannot be kept stays, and its mirror with it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.begun(r, "")
		inner := filepath.Join(b.job.Dir, "vendored")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		raw(t, inner, "init", "-q")
		put(t, filepath.Join(inner, "x"), "x")
		raw(t, inner, "add", "-A")
		raw(t, inner, "commit", "-qm", "x")
		if _, gone, err := b.reclaim(t, r); gone || err != nil {
			t.Errorf("%t %v", gone, err)
		}
		if n, err := b.desk.TidyMirrors(t.Context(), time.Hour, time.Now().Add(48*time.Hour)); n != 0 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		raw(t, b.job.Dir, "fsck")
	})
	t.Run("WS-14 WS-5 a mirror goes when no one borrows of it and no one used it for some time", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.begun(r, "")
		mirror, later := r.mirror(t), time.Now().Add(25*time.Hour)
		if n, err := b.desk.TidyMirrors(t.Context(), 24*time.Hour, later); n != 0 || err != nil {
			t.Errorf("while it is borrowed: %d %v", n, err)
		}
		if _, gone, err := b.reclaim(t, r); !gone || err != nil {
			t.Fatalf("%t %v", gone, err)
		}
		if n, err := b.desk.TidyMirrors(t.Context(), 24*time.Hour, time.Now().Add(23*time.Hour)); n != 0 || err != nil {
			t.Errorf("too early: %d %v", n, err)
		}
		if n, err := b.desk.TidyMirrors(t.Context(), 24*time.Hour, later); n != 1 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		absent(t, mirror)
		r.lightBay(t, b.desk, "two").prepared(args{"url": r.url})
	})
	t.Run("WS-14 the note of a workspace that was removed by hand is forgotten", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.begun(r, "")
		if err := git.RemoveAll(b.job.Dir); err != nil {
			t.Fatal(err)
		}
		if n, err := b.desk.TidyMirrors(t.Context(), time.Hour, time.Now().Add(2*time.Hour)); n != 1 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		if left, err := b.desk.Clones(); err != nil || len(left) > 0 {
			t.Errorf("%v %v", left, err)
		}
	})
}

func TestMirrorMended(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 what a fetch left that was killed is taken away, and the next one is whole", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		begun, wake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		url := r.web(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "/git-upload-pack") {
					once.Do(func() { close(begun); <-wake })
				}
				next.ServeHTTP(w, q)
			})
		})
		b := r.lightBay(t, r.desk(near(nil)), "one")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { _, err := b.within(ctx, gitwork.Prepare, args{"url": url}); failed <- err }()
		<-begun
		cancel()
		if err := <-failed; err == nil {
			t.Error("it was not broken off")
		}
		close(wake)
		top := filepath.Join(r.mirror(t), ".git")
		left := []string{"packed-refs.lock", "config.lock", "refs/remotes/origin/main.lock", "objects/pack/tmp_pack_abc", "objects/pack/pack-0000000000000000000000000000000000000000.pack"}
		for _, name := range left { // as kill -9 leaves them
			put(t, filepath.Join(top, name), "half")
		}
		b.prepared(args{"url": url})
		for _, name := range left {
			absent(t, filepath.Join(top, name))
		}
		raw(t, b.job.Dir, "fsck", "--strict")
	})
	damages := map[string]func(t *testing.T, mirror string){
		"all is gone":     func(t *testing.T, m string) { removeAll(t, m, "") },
		"HEAD is no HEAD": func(t *testing.T, m string) { put(t, filepath.Join(m, ".git/HEAD"), "x\n") },
		"bytes of a pack changed": func(t *testing.T, m string) {
			change(t, m, func(b []byte) []byte {
				for i := 12; i < len(b)-20; i++ {
					b[i] ^= 0x55
				}
				return b
			})
		},
		"modes were taken off": func(t *testing.T, m string) { chmod(t, m) },
	}
	if slow { // each starts 70 gits; make robust (the part git) has them all
		maps.Copy(damages, map[string]func(t *testing.T, mirror string){
			"a pack is gone":    func(t *testing.T, m string) { removeAll(t, m, "objects/pack/*.pack") },
			"a pack is cut":     func(t *testing.T, m string) { change(t, m, func(b []byte) []byte { return b[:len(b)/2] }) },
			"HEAD is gone":      func(t *testing.T, m string) { removeAll(t, m, "HEAD") },
			"it borrows itself": func(t *testing.T, m string) { put(t, filepath.Join(m, ".git/objects/info/alternates"), "/tmp\n") },
		})
	}
	for name, damage := range damages {
		t.Run("WS-14 a mirror is fixed where "+name+", for new workspaces and for those that borrow", func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			d := r.desk()
			old := r.lightBay(t, d, "old")
			old.begun(r, "agent/old")
			old.put("mine.txt", "mine\n")
			damage(t, r.mirror(t))
			fresh := r.lightBay(t, d, "new")
			if p := fresh.prepared(args{"url": r.url}); !p.Ephemeral || p.Commit != raw(t, r.dir, "rev-parse", "main") {
				t.Errorf("%+v", p)
			}
			raw(t, fresh.job.Dir, "fsck", "--strict")
			raw(t, r.mirror(t), "fsck", "--strict")
			old.begun(r, "agent/old")
			if c := old.committed("mine"); !c.Made {
				t.Errorf("%+v", c)
			}
			raw(t, old.job.Dir, "fsck", "--strict")
		})
	}
	t.Run("WS-14 without its mirror a workspace says what to do, and that helps", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.lightBay(t, r.desk(), "one")
		b.begun(r, "agent/one")
		b.put("mine.txt", "mine\n")
		if err := git.RemoveAll(r.mirror(t)); err != nil {
			t.Fatal(err)
		}
		b.bad(gitwork.Commit, args{"message": "x"}, tool.Permanent, "call git_prepare again")
		if _, _, err := gitwork.Alternates(r.root, b.path(t, r), "one"); err == nil || !strings.Contains(err.Error(), "call git_prepare again") {
			t.Errorf("a sandbox is told %v", err)
		}
		b.begun(r, "agent/one")
		b.committed("mine")
		if err := git.RemoveAll(r.mirror(t)); err != nil {
			t.Fatal(err)
		}
		if kept, gone, err := b.reclaim(t, r); !gone || err != nil || len(kept) != 1 {
			t.Errorf("at the end: %+v %t %v", kept, gone, err)
		}
	})
	t.Run("WS-14 commits that the remote has thrown away stay for those who work on them", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one := r.lightBay(t, d, "one")
		one.prepared(args{"url": r.url, "branch": "old", "new_branch": "agent/one"})
		raw(t, r.dir, "update-ref", "-d", "refs/heads/old")
		seed := t.TempDir()
		raw(t, seed, "init", "-q")
		put(t, filepath.Join(seed, "z"), "z\n")
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", "all anew")
		raw(t, seed, "push", "-qf", r.dir, "HEAD:main", "HEAD:refs/heads/old/below") // where a branch was a folder is
		raw(t, r.dir, "tag", "-d", "v1")
		two := r.lightBay(t, d, "two")
		if p := two.prepared(args{"url": r.url, "branch": "old/below"}); p.Commit != raw(t, r.dir, "rev-parse", "main") {
			t.Errorf("%+v", p)
		}
		one.put("b", "b\n")
		one.committed("b")
		raw(t, one.job.Dir, "fsck", "--strict")
	})
}

func removeAll(t *testing.T, mirror, pattern string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(mirror, ".git", pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v %v", found, err)
	}
	for _, f := range found {
		if err := git.RemoveAll(f); err != nil {
			t.Fatal(err)
		}
	}
}

// change changes the first pack of a mirror.
func change(t *testing.T, mirror string, how func([]byte) []byte) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(mirror, ".git/objects/pack/*.pack"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v %v", found, err)
	}
	b := how([]byte(get(t, found[0])))
	if err := os.Chmod(found[0], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, mirror string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(mirror, ".git/objects/pack/*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("%v %v", found, err)
	}
	for _, f := range found {
		if err := os.Chmod(f, 0); err != nil {
			t.Fatal(err)
		}
	}
}
