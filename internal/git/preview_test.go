package git_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/git"
)

// files are all files below a directory with what they hold.
func files(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			fmt.Fprintln(&b, path)
			return err
		}
		fmt.Fprintf(&b, "%s %x\n", path, sha256.Sum256([]byte(get(t, path))))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// replace writes another content as an object of a repository.
func replace(t *testing.T, dir, id, kind, content string) {
	t.Helper()
	at := filepath.Join(dir, ".git/objects", id[:2], id[2:])
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	fmt.Fprintf(z, "%s %d\x00%s", kind, len(content), content)
	if err := errors.Join(z.Close(), os.Remove(at), os.WriteFile(at, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// work is what an agent did in a clone of bare.
var work = map[string]func(t *testing.T, dir string){
	"much at once": func(t *testing.T, dir string) {
		put(t, filepath.Join(dir, "a.txt"), "one\n2\n")
		put(t, filepath.Join(dir, "new/deep.txt"), "new\n")
		put(t, filepath.Join(dir, "strange\nname\x1b[2J"), "x\n")
		put(t, filepath.Join(dir, ".gitignore"), "*.log\n")
		put(t, filepath.Join(dir, "build.log"), "hunter2\n")
		put(t, filepath.Join(dir, ".env"), "KEY=hunter2\n")
		put(t, filepath.Join(dir, "deploy/.ssh/id"), "hunter2\n")
		put(t, filepath.Join(dir, "bin"), "\x00\x01\xff")
		put(t, filepath.Join(dir, "staged"), "s\n")
		raw(t, dir, "add", "staged")
		raw(t, dir, "init", "-q", "inner")
		if err := errors.Join(os.Remove(filepath.Join(dir, "src/b.go")), os.Symlink("/etc/passwd", filepath.Join(dir, "way")),
			os.Chmod(filepath.Join(dir, "a.txt"), 0o755)); err != nil {
			t.Fatal(err)
		}
	},
	"a secret file alone": func(t *testing.T, dir string) { put(t, filepath.Join(dir, ".env"), "KEY=hunter2\n") },
	"a renamed file, and a folder for a file": func(t *testing.T, dir string) {
		raw(t, dir, "mv", "src/b.go", "src/c.go")
		if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "a.txt/x"), "x")
	},
	"a change that is hidden from git": func(t *testing.T, dir string) {
		raw(t, dir, "update-index", "--assume-unchanged", "a.txt")
		put(t, filepath.Join(dir, "a.txt"), "hidden\n")
		put(t, filepath.Join(dir, "b.txt"), "b\n")
	},
	"attributes and programs": func(t *testing.T, dir string) {
		put(t, filepath.Join(dir, ".gitattributes"), "*.txt -diff filter=evil eol=crlf\n")
		raw(t, dir, "config", "filter.evil.clean", "touch evil")
		raw(t, dir, "config", "diff.external", "touch evil")
		put(t, filepath.Join(dir, "a.txt"), "one\r\n2\r\n")
	},
	"nothing": func(*testing.T, string) {},
}

func TestPreviewCommit(t *testing.T) {
	t.Parallel()
	url, _ := bare(t)
	g := newGit(t)
	for name, change := range work {
		t.Run("PLUS-14 what is shown is what is committed, and showing it writes nothing: "+name, func(t *testing.T) {
			t.Parallel()
			r := clone(t, g, url)
			change(t, r.Dir())
			if err := os.RemoveAll(filepath.Join(r.Dir(), ".git/logs")); err != nil {
				t.Fatal(err)
			}
			was := files(t, r.Dir())
			shown := must[git.Shown](t)(r.PreviewCommit(t.Context()))
			if now := files(t, r.Dir()); now != was {
				t.Errorf("it wrote:\n%s\nbefore:\n%s", now, was)
			}
			old := raw(t, r.Dir(), "rev-parse", "HEAD")
			done := must[git.Committed](t)(r.Commit(t.Context(), "work", ada))
			if done.Made != (shown.Text != "") {
				t.Fatalf("made %v, shown %q", done.Made, shown.Text)
			}
			if want := old + " " + raw(t, r.Dir(), "rev-parse", "HEAD^{tree}"); done.Made && shown.Seen != want {
				t.Errorf("saw %s, want %s", shown.Seen, want)
			}
			for line := range strings.Lines(raw(t, r.Dir(), "diff-tree", "-r", "--name-only", "-M", old, "HEAD")) {
				if path := strings.Trim(line, "\"\n"); !strings.Contains(shown.Text, path) {
					t.Errorf("%s is not shown:\n%s", path, shown.Text)
				}
			}
			if strings.Contains(shown.Text, "hunter2") || strings.Contains(shown.Text, "build.log") {
				t.Errorf("it shows what it must not:\n%s", shown.Text)
			}
			if name == "much at once" && (!strings.Contains(shown.Text, `".env" may hold secrets and is not shown (added)`) || !strings.Contains(shown.Text, "+2\n") || !strings.Contains(shown.Text, `"inner/" is a repository`)) {
				t.Errorf("got\n%s", shown.Text)
			}
			absent(t, filepath.Join(r.Dir(), "evil"))
		})
	}
	t.Run("PLUS-14 the list of files comes first, then the diff", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		put(t, filepath.Join(r.Dir(), "a.txt"), "one\n2\n")
		want := " a.txt | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\ndiff --git a/a.txt b/a.txt\n"
		if shown := must[git.Shown](t)(r.PreviewCommit(t.Context())); !strings.HasPrefix(shown.Text, want) || !strings.HasSuffix(shown.Text, "\n-two\n+2\n") {
			t.Errorf("got\n%s", shown.Text)
		}
	})
	t.Run("PLUS-14 the first commit, and one that cannot be made", func(t *testing.T) {
		t.Parallel()
		r := must[*git.Repo](t)(g.Init(t.Context(), filepath.Join(t.TempDir(), "ws"), "main"))
		put(t, filepath.Join(r.Dir(), "a"), "a\n")
		if shown := must[git.Shown](t)(r.PreviewCommit(t.Context())); !strings.HasSuffix(shown.Text, "+a\n") {
			t.Errorf("got\n%s", shown.Text)
		}
		put(t, filepath.Join(r.Dir(), ".git/MERGE_HEAD"), strings.Repeat("1", 40)+"\n")
		if shown, err := r.PreviewCommit(t.Context()); !errors.Is(err, git.ErrUnderway) {
			t.Errorf("%+v %v", shown, err)
		}
	})
	t.Run("PLUS-14 SAFE-11 a long diff ends, and too many secret files have a reason", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		put(t, filepath.Join(r.Dir(), "long"), strings.Repeat("a line of a long file\n", 1<<17))
		if shown := must[git.Shown](t)(r.PreviewCommit(t.Context())); len(shown.Text) > 1<<20 || len(shown.Text) < 1<<19 {
			t.Errorf("%d bytes", len(shown.Text))
		}
		for i := range 201 {
			put(t, filepath.Join(r.Dir(), fmt.Sprint(i), ".env"), "hunter2")
		}
		if _, err := r.PreviewCommit(t.Context()); !errors.Is(err, git.ErrTooLarge) {
			t.Error(err)
		}
	})
	t.Run("PLUS-14 SAFE-7 a repository that was forged hides nothing", func(t *testing.T) {
		t.Parallel()
		r := clone(t, g, url)
		loosen(t, r.Dir())
		old, tree := raw(t, r.Dir(), "rev-parse", "HEAD:a.txt"), raw(t, r.Dir(), "rev-parse", "HEAD^{tree}")
		put(t, filepath.Join(r.Dir(), "a.txt"), "one\n2\n")
		replace(t, r.Dir(), old, "blob", "one\n2\n") // as if the file had been so
		if shown, err := r.PreviewCommit(t.Context()); err == nil {
			t.Errorf("a forged file is believed:\n%s", shown.Text)
		}
		replace(t, r.Dir(), tree, "tree", "")
		if shown, err := r.PreviewCommit(t.Context()); err == nil {
			t.Errorf("a forged tree is believed:\n%s", shown.Text)
		}
	})
}

func TestPreviewPush(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	base := raw(t, dir, "rev-parse", "main")
	g := newGit(t)
	worked := func(t *testing.T) (*git.Repo, string) {
		t.Helper()
		r := clone(t, g, url)
		for _, name := range []string{"first", "second"} {
			put(t, filepath.Join(r.Dir(), name), name+"\n")
			must[git.Committed](t)(r.Commit(t.Context(), "the "+name, ada))
		}
		return r, raw(t, r.Dir(), "rev-parse", "HEAD")
	}
	t.Run("PLUS-14 a push shows its commits and what they change together, and nothing is written", func(t *testing.T) {
		t.Parallel()
		r, id := worked(t)
		raw(t, r.Dir(), "update-ref", "refs/remotes/origin/main", id) // the agent's own word
		was := files(t, r.Dir())
		shown := must[git.Shown](t)(r.PreviewPush(t.Context(), "main", id, base))
		if now := files(t, r.Dir()); now != was {
			t.Errorf("it wrote:\n%s\nbefore:\n%s", now, was)
		}
		lines := strings.Split(shown.Text, "\n")
		if !strings.HasSuffix(lines[0], " the second") || !strings.HasSuffix(lines[1], " the first") || !strings.Contains(shown.Text, "2 files changed") ||
			!strings.Contains(shown.Text, "+first\n") || strings.Contains(shown.Text, "+two") {
			t.Errorf("got\n%s", shown.Text)
		}
		if shown := must[git.Shown](t)(r.PreviewPush(t.Context(), "main", id, id)); shown.Text != "" {
			t.Errorf("of nothing:\n%s", shown.Text)
		}
	})
	t.Run("PLUS-14 a branch that moved on, or lacks what the remote has, has a reason", func(t *testing.T) {
		t.Parallel()
		r, id := worked(t)
		if _, err := r.PreviewPush(t.Context(), "main", base, base); !errors.Is(err, git.ErrMoved) {
			t.Error(err)
		}
		far := raw(t, dir, "rev-parse", "feature/x")
		if _, err := r.PreviewPush(t.Context(), "main", id, far); !errors.Is(err, git.ErrRejected) {
			t.Error(err)
		}
		if _, err := r.PreviewPush(t.Context(), "main", id, strings.Repeat("1", 40)); err == nil {
			t.Error("of an unknown base")
		}
	})
	t.Run("PLUS-14 a merge of an older branch is shown with the commits that are new", func(t *testing.T) {
		t.Parallel()
		r, _ := worked(t)
		raw(t, r.Dir(), "checkout", "-qb", "old", "v1^{commit}")
		put(t, filepath.Join(r.Dir(), "side"), "side\n")
		must[git.Committed](t)(r.Commit(t.Context(), "the side", ada))
		raw(t, r.Dir(), "checkout", "-q", "main")
		raw(t, r.Dir(), "merge", "-q", "--no-edit", "old")
		shown := must[git.Shown](t)(r.PreviewPush(t.Context(), "main", raw(t, r.Dir(), "rev-parse", "HEAD"), base))
		if n := strings.Count(shown.Text, "commit "); n != 4 || !strings.Contains(shown.Text, " the side\n") {
			t.Errorf("%d commits\n%s", n, shown.Text)
		}
	})
	for name, forge := range map[string]func(t *testing.T, r *git.Repo, id string){
		"a commit": func(t *testing.T, r *git.Repo, id string) {
			loosen(t, r.Dir())
			mid := raw(t, r.Dir(), "rev-parse", id+"^")
			replace(t, r.Dir(), id, "commit", strings.Replace(raw(t, r.Dir(), "cat-file", "commit", id)+"\n", mid, base, 1))
		},
		"a tree": func(t *testing.T, r *git.Repo, id string) {
			loosen(t, r.Dir())
			replace(t, r.Dir(), raw(t, r.Dir(), "rev-parse", base+"^{tree}"), "tree", "")
		},
		"the depth of the history": func(t *testing.T, r *git.Repo, id string) {
			put(t, filepath.Join(r.Dir(), ".git/shallow"), raw(t, r.Dir(), "rev-parse", id+"^")+"\n")
		},
	} {
		t.Run("PLUS-14 SAFE-7 no forgery is shown: "+name, func(t *testing.T) {
			t.Parallel()
			r, id := worked(t)
			forge(t, r, id)
			if shown, err := r.PreviewPush(t.Context(), "main", id, base); err == nil && strings.Count(shown.Text, "commit ") != 2 {
				t.Errorf("believed:\n%s", shown.Text)
			}
		})
	}
}
