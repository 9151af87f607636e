package git_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

func TestRemove(t *testing.T) {
	t.Parallel()
	// branch makes two commits on work, and has others land them on main.
	branch := func(t *testing.T, land ...string) (r *git.Repo, url, commit, far string) {
		t.Helper()
		far = filepath.Join(t.TempDir(), "far.git")
		near := filepath.Join(t.TempDir(), "near")
		raw(t, "/", "init", "--quiet", "--bare", "--initial-branch=main", far)
		raw(t, "/", "clone", "--quiet", far, near)
		commitIn := func(name, text string) {
			put(t, filepath.Join(near, name), text)
			raw(t, near, "add", ".")
			raw(t, near, "commit", "--quiet", "-m", name)
		}
		raw(t, near, "checkout", "--quiet", "-B", "main")
		commitIn("base", "base")
		raw(t, near, "checkout", "--quiet", "-b", "work")
		commitIn("one", "1")
		commitIn("two", "2")
		commit = raw(t, near, "rev-parse", "HEAD")
		raw(t, near, "checkout", "--quiet", "main")
		commitIn("others", "o")
		for _, step := range land {
			raw(t, near, strings.Fields(step)...)
		}
		raw(t, near, "push", "--quiet", "origin", "main", "work")
		url = "file://" + far
		g := newGit(t, func(c *git.Config) { c.Protocols = []string{"file"} })
		r, err := g.Clone(t.Context(), git.Source{URL: url, Branch: "main"}, filepath.Join(t.TempDir(), "mine"))
		if err != nil {
			t.Fatal(err)
		}
		return r, url, commit, far
	}
	has := func(t *testing.T, far string) bool {
		return strings.Contains(raw(t, far, "branch", "--list", "work"), "work")
	}
	for how, land := range map[string][]string{
		git.InHistory: {"merge --quiet --no-edit work"},
		git.Rebased:   {"cherry-pick work~1 work"},
		git.Squashed:  {"merge --quiet --squash work", "commit --quiet -m squashed"},
	} {
		t.Run("DLV-5 a branch that is proven merged goes, once: "+how, func(t *testing.T) {
			t.Parallel()
			r, url, commit, far := branch(t, land...)
			p := git.Removal{URL: url, Branch: "work", Commit: commit, Into: "main"}
			done, err := r.Remove(t.Context(), p)
			if err != nil || done.How != how || done.Before || has(t, far) {
				t.Fatalf("%+v, %v", done, err)
			}
			if done, err = r.Remove(t.Context(), p); err != nil || !done.Before {
				t.Errorf("again: %+v, %v", done, err)
			}
		})
	}
	for name, of := range map[string]struct {
		land []string
		with func(*git.Removal)
		want error
	}{
		"is not merged":                  {nil, nil, git.ErrUnmerged},
		"is merged in part":              {[]string{"cherry-pick work~1"}, nil, git.ErrUnmerged},
		"was merged and changed":         {[]string{"merge --quiet --squash work", "rm --quiet -f one", "commit --quiet -m less"}, nil, git.ErrUnmerged},
		"went on":                        {[]string{"merge --quiet --no-edit work~1"}, func(p *git.Removal) { p.Commit = strings.Repeat("a", 40) }, git.ErrMoved},
		"is the one that it is to be in": {nil, func(p *git.Removal) { p.Branch = "main" }, git.ErrName},
		"has no name":                    {nil, func(p *git.Removal) { p.Branch = "-d" }, git.ErrName},
	} {
		t.Run("DLV-5 a branch stays that "+name, func(t *testing.T) {
			t.Parallel()
			r, url, commit, far := branch(t, of.land...)
			p := git.Removal{URL: url, Branch: "work", Commit: commit, Into: "main"}
			if of.with != nil {
				of.with(&p)
			}
			if done, err := r.Remove(t.Context(), p); !errors.Is(err, of.want) || !has(t, far) {
				t.Errorf("%+v, %v, want %v", done, err, of.want)
			}
		})
	}
	t.Run("DLV-5 a branch stays where a rule of the remote refuses that it goes", func(t *testing.T) {
		t.Parallel()
		r, url, commit, far := branch(t, "merge --quiet --no-edit work")
		raw(t, far, "config", "receive.denyDeletes", "true")
		if done, err := r.Remove(t.Context(), git.Removal{URL: url, Branch: "work", Commit: commit, Into: "main"}); !errors.Is(err, git.ErrRejected) || !has(t, far) {
			t.Errorf("%+v, %v", done, err)
		}
	})
}
