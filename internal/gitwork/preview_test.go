package gitwork_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	main, old := raw(t, r.dir, "rev-parse", "main"), raw(t, r.dir, "rev-parse", "old")
	show := func(b *bay, base, name string, a args) (gitwork.Shown, error) {
		b.t.Helper()
		input, err := json.Marshal(a)
		if err != nil {
			b.t.Fatal(err)
		}
		return b.desk.Preview(b.t.Context(), b.job, base, name, input)
	}
	b := r.bay(t, r.desk())
	if _, err := show(b, "", gitwork.Commit, args{"message": "x"}); !errors.Is(err, git.ErrNotRepository) {
		t.Errorf("without a repository: %v", err)
	}
	b.begun(r, "")
	b.put("new.txt", "new\n")
	if s, err := show(b, "", gitwork.Commit, args{"message": "x"}); err != nil || !strings.Contains(s.Text, "+new\n") || strings.Contains(s.Text, ".harness") {
		t.Errorf("a commit: %v\n%s", err, s.Text)
	}
	c := b.committed("new")
	if s, err := show(b, "", gitwork.Commit, args{"message": "x"}); err != nil || s.Text != "" {
		t.Errorf("a commit of nothing: %v\n%s", err, s.Text)
	}
	// What an agent can claim of the remote.
	raw(t, b.job.Dir, "update-ref", "refs/remotes/origin/main", c.Commit)
	raw(t, b.job.Dir, "remote", "set-url", "origin", "file:///dev/null")
	b.job.Repo = r.url
	push := args{"branch": "main", "commit": c.Commit}
	for name, x := range map[string]struct {
		args       args
		base, want string
		fault      string
	}{
		"what the remote has":                           {push, old, "the remote has " + main[:12] + " on main\n\ncommit " + c.Commit[:7] + " new\n\n new.txt | 1 +\n", ""},
		"a branch that the remote has not":              {args{"branch": "main", "commit": c.Commit, "to": "other"}, main, "the remote has no branch other: compared with " + main[:12], ""},
		"a remote of the agent, which is not asked":     {args{"branch": "main", "commit": c.Commit, "url": "file:///nowhere"}, main, "the remote was not asked, since its address is not that of the task: compared with " + main[:12], ""},
		"neither a remote nor a beginning":              {args{"branch": "main", "commit": c.Commit, "url": "file:///nowhere"}, "", "", "did not begin with a commit"},
		"a beginning that is not in it":                 {args{"branch": "main", "commit": c.Commit, "to": "other"}, raw(t, r.dir, "rev-parse", "refs/pull/123/head"), "", "not"},
		"a remote branch that the workspace lacks":      {args{"branch": "main", "commit": c.Commit, "to": "ahead"}, main, "", "would refuse the push"},
		"a branch that is elsewhere":                    {args{"branch": "main", "commit": main}, main, "", "has moved on"},
		"a repository in the workspaces, which is none": {args{"branch": "main", "commit": c.Commit, "url": "file://" + filepath.Join(r.root, "run/x")}, main, "", "inside the workspaces"},
	} {
		t.Run("PLUS-14 GIT-12 the preview of a push compares with: "+name, func(t *testing.T) {
			if strings.HasPrefix(name, "a remote branch") {
				raw(t, r.dir, "update-ref", "refs/heads/ahead", "refs/pull/123/head")
			}
			s, err := show(b, x.base, gitwork.Push, x.args)
			if x.fault == "" && (err != nil || !strings.HasPrefix(s.Text, x.want)) || x.fault != "" && (err == nil || !strings.Contains(err.Error(), x.fault)) {
				t.Errorf("%v\n%s\nwant %q", err, s.Text, x.want+x.fault)
			}
		})
	}
	t.Run("PLUS-14 a push of what the remote has changes nothing", func(t *testing.T) {
		do[gitwork.Pushed](b, gitwork.Push, args{"branch": "main", "commit": c.Commit, "to": "sent"})
		if s, err := show(b, main, gitwork.Push, args{"branch": "main", "commit": c.Commit, "to": "sent"}); err != nil || s.Text != "" {
			t.Errorf("%v\n%s", err, s.Text)
		}
	})
	t.Run("PLUS-14 a remote that does not answer is no reason to show nothing", func(t *testing.T) {
		away := *b
		away.job.Repo = "file://" + filepath.Join(t.TempDir(), "none")
		if s, err := show(&away, main, gitwork.Push, push); err != nil || !strings.HasPrefix(s.Text, "the remote could not be asked: compared with ") {
			t.Errorf("%v\n%s", err, s.Text)
		}
	})
}
