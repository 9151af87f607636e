package git_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

// TestFiles reads files of a commit from a repository that somebody else may have written since.
func TestFiles(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	made := func(t *testing.T) (r *git.Repo, commit string) {
		t.Helper()
		url, _ := bare(t)
		r = clone(t, g, url)
		put(t, filepath.Join(r.Dir(), "tests", "deep", "a_test.sh"), "exit 1\n")
		put(t, filepath.Join(r.Dir(), "copy_test.sh"), "exit 1\n")
		put(t, filepath.Join(r.Dir(), "main.sh"), "main\n")
		if err := errors.Join(os.Chmod(filepath.Join(r.Dir(), "copy_test.sh"), 0o755), os.Symlink("tests", filepath.Join(r.Dir(), "link_test.sh"))); err != nil {
			t.Fatal(err)
		}
		return r, must[git.Committed](t)(r.Commit(t.Context(), "tests", ada)).ID
	}
	list := func(r *git.Repo, commit string) ([]string, error) {
		var got []string
		err := r.Files(t.Context(), commit, func(p string) bool { return strings.HasSuffix(p, "_test.sh") }, func(f git.File) error {
			got = append(got, fmt.Sprintf("%s %s %q", f.Mode, f.Path, f.Content))
			return nil
		})
		slices.Sort(got)
		return got, err
	}
	t.Run("PLUS-10 those that are wanted, with mode and content, whatever the working tree and the refs are by now", func(t *testing.T) {
		t.Parallel()
		r, commit := made(t)
		put(t, filepath.Join(r.Dir(), "copy_test.sh"), "exit 0\n")
		must[git.Committed](t)(r.Commit(t.Context(), "cheat", ada))
		raw(t, r.Dir(), "update-ref", "refs/heads/"+commit, "HEAD")
		got, err := list(r, commit)
		want := []string{`100644 tests/deep/a_test.sh "exit 1\n"`, `100755 copy_test.sh "exit 1\n"`, `120000 link_test.sh "tests"`}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
	t.Run("PLUS-10 an object whose content is not that of its id is not believed", func(t *testing.T) {
		t.Parallel()
		for _, what := range []string{"%s", "%s^{tree}", "%s:tests", "%s:copy_test.sh"} {
			r, commit := made(t)
			id := raw(t, r.Dir(), "rev-parse", fmt.Sprintf(what, commit))
			put(t, filepath.Join(r.Dir(), "copy_test.sh"), "exit 0\n")
			cheat := must[git.Committed](t)(r.Commit(t.Context(), "cheat", ada)).ID
			other := raw(t, r.Dir(), "rev-parse", fmt.Sprintf(what, cheat))
			if other == id { // the same directory: another one in its place
				other = raw(t, r.Dir(), "rev-parse", cheat+"^{tree}")
			}
			at := func(id string) string { return filepath.Join(r.Dir(), ".git", "objects", id[:2], id[2:]) }
			b := must[[]byte](t)(os.ReadFile(at(other)))
			if err := errors.Join(os.Remove(at(id)), os.WriteFile(at(id), b, 0o444)); err != nil {
				t.Fatal(err)
			}
			if got, err := list(r, commit); !errors.Is(err, git.ErrHostile) {
				t.Errorf(what+": got %v, %v", commit, got, err)
			}
		}
	})
	t.Run("PLUS-10 a commit that is not there any more is an error, and an id must be whole", func(t *testing.T) {
		t.Parallel()
		r, commit := made(t)
		for _, id := range []string{strings.Repeat("0", len(commit)), "HEAD", commit[:8], ""} {
			if got, err := list(r, id); err == nil {
				t.Errorf("%q: %v", id, got)
			}
		}
	})
	t.Run("PLUS-10 changes that the index of the repository hides are seen", func(t *testing.T) {
		t.Parallel()
		r, _ := made(t)
		if s := must[git.Status](t)(r.FreshStatus(t.Context())); !s.Clean() {
			t.Errorf("%+v", s)
		}
		raw(t, r.Dir(), "update-index", "--assume-unchanged", "main.sh")
		put(t, filepath.Join(r.Dir(), "main.sh"), "another\n")
		if s := must[git.Status](t)(r.FreshStatus(t.Context())); s.Clean() {
			t.Error("the changed file is not seen")
		}
	})
}
