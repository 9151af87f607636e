package gitwork_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	t.Run("GIT-8 TEST-10 parallel branches come together, a conflict is told with both sides, and the others go on", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		var commits []string
		for i, file := range []string{"one.txt", "a.txt", "two.txt", "a.txt"} {
			b := r.bay(t, d)
			b.begun(r, fmt.Sprintf("agent/p/%d", i))
			b.put(file, fmt.Sprintf("of %d\n", i))
			commits = append(commits, b.committed("work").Commit)
			if p := b.published(fmt.Sprintf("agent/p/%d", i)); p.Commit != commits[i] || p.Artifact == "" {
				t.Errorf("published %+v", p)
			}
		}
		b := r.bay(t, d)
		b.begun(r, "")
		a := args{"from": []string{"agent/p/0", "agent/p/1", "agent/p/2", "agent/p/3"}, "into": "integration", "message": "all work"}
		got := do[gitwork.Merged](b, gitwork.Merge, a)
		if len(got.Merged) != 3 || len(got.Conflicts) != 1 || got.Branch != "integration" || got.Merged[0] != (gitwork.MergedBranch{Branch: "agent/p/0", Commit: commits[0], How: "forward"}) || got.Merged[1].How != "merge" {
			t.Fatalf("got %+v", got)
		}
		c := got.Conflicts[0]
		if c.Branch != "agent/p/3" || c.Theirs != commits[3] || len(c.Paths) != 1 || c.Paths[0].Path != "a.txt" || c.More != 0 {
			t.Errorf("got %+v", c)
		}
		for what, id := range map[string]string{"of 1": c.Paths[0].Ours, "of 3": c.Paths[0].Theirs, "one\ntwo\nthree": c.Paths[0].Base} {
			if text := raw(t, b.job.Dir, "cat-file", "blob", id); text != what {
				t.Errorf("got %q, want %q", text, what)
			}
		}
		raw(t, b.job.Dir, "merge-base", "--is-ancestor", c.Ours, got.Commit)
		if get(t, filepath.Join(b.job.Dir, "two.txt")) != "of 2\n" || get(t, filepath.Join(b.job.Dir, "a.txt")) != "of 1\n" || raw(t, b.job.Dir, "status", "--porcelain", "--untracked-files=no") != "" {
			t.Error("the tree is not that of the merges")
		}
		again := do[gitwork.Merged](b, gitwork.Merge, a)
		if again.Commit != got.Commit || again.Merged[0].How != "nothing" || len(again.Conflicts) != 1 {
			t.Errorf("again: %+v", again)
		}
	})
	t.Run("GIT-6 into a branch that was published elsewhere, moved on to what was published of it", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		first := r.bay(t, d)
		c := first.work(r.url, "line", "first.txt")
		first.published("line")
		second := r.bay(t, d)
		if p := second.prepared(args{"url": r.url, "working_branch": "line"}); p.Commit != c.Commit || p.Branch != "line" {
			t.Errorf("got %+v", p)
		}
		first.put("more.txt", "x")
		c = first.committed("more")
		first.published("line")
		if p := second.prepared(args{"url": r.url, "working_branch": "line", "new_branch": "agent/b/2"}); p.Base != c.Commit || get(t, filepath.Join(second.job.Dir, "more.txt")) != "x" {
			t.Errorf("got %+v, want base %s", p, c.Commit)
		}
	})
	t.Run("GIT-8 changes that were not committed stay where they are", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		b.begun(r, "")
		b.put("a.txt", "mine")
		b.bad(gitwork.Merge, args{"from": []string{"old"}, "into": "else"}, tool.Permanent, "working tree has changes")
		if raw(t, b.job.Dir, "branch", "--show-current") != "main" || get(t, filepath.Join(b.job.Dir, "a.txt")) != "mine" {
			t.Error("the tree was changed")
		}
		b.bad(gitwork.Merge, args{"from": []string{"nowhere"}}, tool.Invalid, "neither in the repository nor published")
	})
	t.Run("GIT-8 a merge into a repository without a commit begins with what is merged", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one := r.bay(t, d)
		c := one.work(r.url, "agent/a/1", "new.txt")
		one.published("agent/a/1")
		b := r.bay(t, d)
		b.prepared(args{"working_branch": "line"})
		if got := do[gitwork.Merged](b, gitwork.Merge, args{"from": []string{"agent/a/1"}, "into": "line"}); got.Commit != c.Commit || got.Branch != "line" {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GIT-8 TOOL-10 many conflicts are told in part, as JSON all the same", func(t *testing.T) {
		t.Parallel()
		_, b := newBay(t)
		b.prepared(args{"new_branch": "x"})
		fill := func(text string) {
			for i := range 200 {
				b.put(fmt.Sprintf("%03d/%s", i, strings.Repeat("n", 150)), text)
			}
		}
		fill("base")
		b.committed("base")
		raw(t, b.job.Dir, "branch", "y")
		fill("one")
		b.committed("one")
		raw(t, b.job.Dir, "checkout", "-q", "y")
		fill("two")
		b.committed("two")
		got := do[gitwork.Merged](b, gitwork.Merge, args{"from": []string{"x"}})
		if len(got.Conflicts) != 1 || len(got.Conflicts[0].Paths) == 0 || len(got.Conflicts[0].Paths)+got.Conflicts[0].More != 200 {
			t.Errorf("got %d paths and %d more", len(got.Conflicts[0].Paths), got.Conflicts[0].More)
		}
	})
}

func TestMergeIsBound(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 GIT-8 a merge is of the commits that were meant: where a side has moved on nothing is merged, and what it has done before is no move", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		b := r.bay(t, d)
		for _, side := range []string{"one", "two"} {
			b.begun(r, "side/"+side)
			b.put(side+".txt", side)
			b.committed(side)
		}
		b.begun(r, "line")
		b.put("line.txt", "line")
		b.committed("line")
		names := []string{"side/one", "side/two"}
		found := func() args {
			p := b.prepared(args{"sides": names})
			a := args{"from": names, "onto": p.Commit}
			var commits []string
			for _, s := range p.Sides {
				commits = append(commits, s.Commit)
			}
			a["commits"] = commits
			return a
		}
		meant := found()
		moved := func(branch string) {
			t.Helper()
			before := raw(t, b.job.Dir, "rev-parse", "HEAD")
			got := do[gitwork.Merged](b, gitwork.Merge, meant)
			if len(got.Moved) != 1 || got.Moved[0].Branch != branch || got.Moved[0].Is != raw(t, b.job.Dir, "rev-parse", branch) || len(got.Merged) != 0 || raw(t, b.job.Dir, "rev-parse", "HEAD") != before {
				t.Errorf("%s moved: %+v", branch, got)
			}
		}
		more := raw(t, b.job.Dir, "commit-tree", "side/two^{tree}", "-p", "side/two", "-m", "more")
		raw(t, b.job.Dir, "update-ref", "refs/heads/side/two", more)
		moved("side/two")
		meant = found()
		b.put("late.txt", "late")
		b.committed("late")
		moved("line")
		meant = found()
		first := do[gitwork.Merged](b, gitwork.Merge, args{"from": names[:1]}) // as far as one that was killed had come
		got := do[gitwork.Merged](b, gitwork.Merge, meant)
		if len(got.Moved) != 0 || len(got.Merged) != 2 || got.Merged[0].How != "nothing" || got.Merged[1].How != "merge" {
			t.Errorf("after %+v: %+v", first, got)
		}
		if again := do[gitwork.Merged](b, gitwork.Merge, meant); len(again.Moved) != 0 || again.Commit != got.Commit {
			t.Errorf("again: %+v", again)
		}
		put(t, filepath.Join(b.job.Dir, "evil.txt"), "more than was merged")
		raw(t, b.job.Dir, "add", "evil.txt")
		raw(t, b.job.Dir, "commit", "-q", "--amend", "--no-edit")
		moved("line")
		b.bad(gitwork.Merge, args{"from": names, "onto": got.Commit, "commits": meant["commits"].([]string)[:1]}, tool.Invalid, "one commit for each")
	})
}

func TestMergeAgain(t *testing.T) {
	t.Parallel()
	t.Run("GIT-8 SAFE-7 a merge that was made and whose result was lost is found made, although somebody went on with the branch since", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		b := r.bay(t, r.desk())
		b.begun(r, "side")
		b.put("side.txt", "side")
		side := b.committed("side")
		b.begun(r, "line")
		b.put("line.txt", "line")
		b.committed("line")
		meant := args{"from": []string{"side"}, "commits": []string{side.Commit}}
		first := do[gitwork.Merged](b, gitwork.Merge, meant)
		more := raw(t, b.job.Dir, "commit-tree", "side^{tree}", "-p", "side", "-m", "more")
		raw(t, b.job.Dir, "update-ref", "refs/heads/side", more)
		again := do[gitwork.Merged](b, gitwork.Merge, meant)
		if len(again.Moved) != 0 || len(again.Merged) != 1 || again.Merged[0].Commit != side.Commit || again.Merged[0].How != "nothing" ||
			again.Commit != first.Commit || raw(t, b.job.Dir, "rev-parse", "HEAD") != first.Commit {
			t.Errorf("after %+v: %+v", first, again)
		}
	})
}

func TestPublish(t *testing.T) {
	t.Parallel()
	t.Run("GIT-7 a branch is taken whole, in the same session only", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one, other := r.bay(t, d), r.bay(t, d)
		one.prepared(args{"new_branch": "agent/a/1"})
		one.put("only.txt", "never pushed")
		c := one.committed("work")
		one.published("agent/a/1")
		if p := other.prepared(args{"working_branch": "agent/a/1"}); p.Commit != c.Commit || get(t, filepath.Join(other.job.Dir, "only.txt")) != "never pushed" {
			t.Errorf("got %+v, want %s", p, c.Commit)
		}
		third := r.bay(t, d)
		third.prepared(args{"working_branch": "main"})
		if p := third.prepared(args{"ref": "agent/a/1"}); p.Commit != c.Commit || p.Branch != "agent/a/1" {
			t.Errorf("by ref: got %+v", p)
		}
		stranger := r.bay(t, d)
		stranger.job.Scope = "session/other"
		stranger.begun(r, "")
		stranger.bad(gitwork.Merge, args{"from": []string{"agent/a/1"}}, tool.Invalid, "not found")
	})
	t.Run("SESS-6 GIT-7 what was published in a session that was deleted is not found by others any more, and kept apart", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one, kept := r.bay(t, d), r.bay(t, d)
		kept.job.Scope = "session/demo2"
		for _, b := range []*bay{one, kept} {
			b.work(r.url, "agent/a/1", "new.txt")
			b.published("agent/a/1")
		}
		for range 2 { // whoever did it may have been lost before it was said
			if err := d.Retire(t.Context(), "session/demo", "deleted/demo/7"); err != nil {
				t.Fatal(err)
			}
		}
		for scope, there := range map[string]bool{"session/demo": false, "session/demo2": true, "deleted/demo/7": true} {
			b := r.bay(t, d)
			b.job.Scope = scope
			b.begun(r, "")
			if _, err := b.try(gitwork.Merge, args{"from": []string{"agent/a/1"}}); (err == nil) != there {
				t.Errorf("%s: %v", scope, err)
			}
		}
	})
	t.Run("GIT-7 of a history that is cut off only what no remote has", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one := r.bay(t, d)
		one.prepared(args{"url": r.url, "depth": 1, "new_branch": "agent/a/1"})
		one.published("agent/a/1")
		one.put("new.txt", "x")
		c := one.committed("work")
		one.published("agent/a/1")
		full := r.bay(t, d)
		full.begun(r, "")
		if got := do[gitwork.Merged](full, gitwork.Merge, args{"from": []string{"agent/a/1"}}); got.Commit != c.Commit {
			t.Errorf("got %+v", got)
		}
		empty := r.bay(t, d)
		empty.prepared(args{"working_branch": "line"})
		empty.put("x", "x")
		empty.committed("x")
		empty.bad(gitwork.Merge, args{"from": []string{"agent/a/1"}}, tool.Invalid, "commits are missing in this repository")
		empty.job.Repo = r.url
		if got := do[gitwork.Merged](empty, gitwork.Merge, args{"from": []string{"agent/a/1"}, "into": "agent/a/1"}); got.Commit != c.Commit {
			t.Errorf("with the repository of the run: got %+v", got)
		}
	})
	t.Run("SAFE-8 GIT-7 whoever slept does not write over what was published since", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		late := r.bay(t, d)
		late.work(r.url, "line", "late.txt")
		newer := r.bay(t, d)
		c := newer.work(r.url, "line", "newer.txt")
		stale := errors.New("another attempt has begun")
		asked := 0
		late.job.Current = func(context.Context) error {
			if asked++; asked > 1 {
				return stale
			}
			newer.published("line") // after it was asked, before it writes
			return nil
		}
		if _, err := late.try(gitwork.Publish, args{"branch": "line"}); !errors.Is(err, stale) || asked != 2 {
			t.Errorf("got %v after %d", err, asked)
		}
		reader := r.bay(t, d)
		if p := reader.prepared(args{"url": r.url, "working_branch": "line"}); p.Commit != c.Commit {
			t.Errorf("got %+v, want %s", p, c.Commit)
		}
	})
	t.Run("SAFE-12 a bundle or a record that is not what it was is refused", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one := r.bay(t, d)
		one.work(r.url, "line", "a1.txt")
		one.published("line")
		good, _ := r.record("session/demo", "line")
		for what, change := range map[string]func(*events.PublishedBranch){
			"another commit": func(rec *events.PublishedBranch) { rec.Commit = strings.Repeat("a", 40) },
			"another branch": func(rec *events.PublishedBranch) { rec.Branch = "other" },
			"no object":      func(rec *events.PublishedBranch) { rec.Parts[0].SHA256 = strings.Repeat("0", 64) },
			"half of it":     func(rec *events.PublishedBranch) { rec.Parts = append(rec.Parts, rec.Parts...) },
		} {
			r.rewrite("session/demo", "line", func(rec *events.PublishedBranch) {
				*rec = good
				rec.Parts = slices.Clone(good.Parts)
				change(rec)
			})
			b := r.bay(t, d)
			if what != "half of it" { // more of the same is still the same pack, then malformed input
				b.bad(gitwork.Prepare, args{"url": r.url, "working_branch": "line"}, tool.Permanent, "damaged")
			} else if out, err := b.try(gitwork.Prepare, args{"url": r.url, "working_branch": "line"}); err == nil && !strings.Contains(string(out), good.Commit) {
				t.Errorf("%s: %s", what, out)
			}
		}
	})
}

func TestBranch(t *testing.T) {
	t.Parallel()
	t.Run("GIT-2 GIT-14 a branch for a task is made and checked out, and the same one again", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		b.bad(gitwork.Branch, args{"task": "x"}, tool.Permanent, "git_prepare first")
		p := b.prepared(args{"url": r.url})
		for range 2 {
			if got := do[gitwork.Branched](b, gitwork.Branch, args{"task": "Fix: the $(thing)!"}); got != (gitwork.Branched{Branch: "agent/coder-one/fix-the-thing", Commit: p.Commit}) {
				t.Errorf("got %+v", got)
			}
		}
	})
	t.Run("GIT-2 GIT-3 a commit has everything but the harness's own files, and nothing twice", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		if files := raw(t, b.job.Dir, "show", "--name-only", "--format=%an <%ae>", c.Commit); files != "inspan <inspan@localhost>\n\nnew.txt" {
			t.Errorf("got %q", files)
		}
		if again := b.committed("again"); again.Made || again.Commit != c.Commit {
			t.Errorf("got %+v", again)
		}
		put(t, filepath.Join(b.job.Dir, "inner/x"), "x")
		raw(t, filepath.Join(b.job.Dir, "inner"), "init", "-q")
		if got := b.committed("x"); got.Made || len(got.Nested) != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("SAFE-12 a repository with hooks, filters and aliases runs none of them", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		b.begun(r, "")
		mark := filepath.Join(t.TempDir(), "mark")
		for _, hook := range []string{"pre-commit", "post-commit", "post-checkout", "pre-push", "post-merge", "reference-transaction", "post-index-change"} {
			at := filepath.Join(b.job.Dir, ".git/hooks", hook)
			put(t, at, "#!/bin/sh\ntouch "+mark+"\n")
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		put(t, filepath.Join(b.job.Dir, ".git/config"), "[core]\n repositoryformatversion = 0\n fsmonitor = touch "+mark+"\n sshCommand = touch "+mark+"\n[filter \"f\"]\n clean = touch "+mark+"\n smudge = touch "+mark+"\n[url \"ext::touch "+mark+" \"]\n insteadOf = "+r.url+"\n")
		b.put(".gitattributes", "* filter=f\n")
		b.put(".gitmodules", "[submodule \"s\"]\n path = s\n url = ext::touch "+mark+"\n")
		do[gitwork.Branched](b, gitwork.Branch, args{"task": "x"})
		c := b.committed("x")
		do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/coder-one/x", "commit": c.Commit, "url": r.url})
		do[gitwork.Merged](b, gitwork.Merge, args{"from": []string{"agent/coder-one/x"}, "into": "main"})
		b.prepared(args{"url": r.url, "branch": "old"})
		absent(t, mark)
	})
}
