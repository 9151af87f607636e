package git_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/secret"
)

// TestWholeIDs uses branches that are named as commits are.
func TestWholeIDs(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	t.Run("GATE-13 GIT-12 a branch of the remote with the name of a commit does not stand in for that commit", func(t *testing.T) {
		t.Parallel()
		url, dir := bare(t)
		want, evil := raw(t, dir, "rev-parse", "main"), raw(t, dir, "rev-parse", "feature/x")
		raw(t, dir, "update-ref", "refs/heads/"+want, evil)
		r := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url, Ref: want}, filepath.Join(t.TempDir(), "ws")))
		if h := must[git.Head](t)(r.Head(t.Context())); h.ID != want {
			t.Errorf("at %s, want %s", h.ID, want)
		}
		absent(t, filepath.Join(r.Dir(), "x.txt"))
	})
	t.Run("GATE-13 GIT-8 nor does one of the workspace, where that commit is merged or looked for", func(t *testing.T) {
		t.Parallel()
		url, dir := bare(t)
		r := clone(t, g, url)
		evil := raw(t, dir, "rev-parse", "feature/x")
		if err := r.CreateBranch(t.Context(), "side", "HEAD"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(r.Dir(), "side.txt"), "side")
		side := must[git.Committed](t)(r.Commit(t.Context(), "side", ada)).ID
		if err := r.Checkout(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		raw(t, r.Dir(), "update-ref", "refs/heads/"+side, evil)
		raw(t, r.Dir(), "update-ref", "refs/tags/"+side, evil)
		if in := must[bool](t)(r.IsAncestor(t.Context(), side, "feature/x")); in {
			t.Error("another commit was looked for")
		}
		if m := must[git.Merged](t)(r.Merge(t.Context(), side, "", ada)); m.ID != side {
			t.Errorf("merged %+v, want %s", m, side)
		}
		absent(t, filepath.Join(r.Dir(), "x.txt"))
	})
	t.Run("GATE-13 an id of another kind is no branch either", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		long := strings.Repeat("ab", 32)
		raw(t, r.Dir(), "update-ref", "refs/heads/"+long, "HEAD")
		if id, err := r.Resolve(t.Context(), long); !errors.Is(err, git.ErrNotFound) {
			t.Errorf("got %s %v", id, err)
		}
	})
}

// TestForgedHistory makes a commit that looks as if it had another one before it.
func TestForgedHistory(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for what, forge := range map[string]func(t *testing.T, r *git.Repo, tip, lost string){
		"as the graph tells that git keeps": func(t *testing.T, r *git.Repo, tip, lost string) {
			// Git believes it of all commits but the one that it is asked about.
			raw(t, r.Dir(), "commit-graph", "write", "--reachable")
			at := filepath.Join(r.Dir(), ".git/objects/info/commit-graph")
			forgeGraph(t, at, raw(t, r.Dir(), "rev-parse", tip+"^"), lost)
			if in := must[bool](t)(r.IsAncestor(t.Context(), lost, tip)); in {
				t.Error("the graph is believed")
			}
		},
		"as an object tells whose content was changed": func(t *testing.T, r *git.Repo, tip, lost string) {
			parent := raw(t, r.Dir(), "rev-parse", tip+"^")
			loosen(t, r.Dir())
			content := raw(t, r.Dir(), "cat-file", "commit", parent) + "\n"
			forged := strings.Replace(content, "\nauthor", "\nparent "+lost+"\nauthor", 1)
			at := filepath.Join(r.Dir(), ".git/objects", parent[:2], parent[2:])
			var b bytes.Buffer
			z := zlib.NewWriter(&b)
			fmt.Fprintf(z, "commit %d\x00%s", len(forged), forged)
			if err := errors.Join(z.Close(), os.Remove(at), os.WriteFile(at, b.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run("GATE-13 SAFE-7 what a remote has is not taken from a history that was forged in the workspace: "+what, func(t *testing.T) {
			t.Parallel()
			url, _ := bare(t)
			r := clone(t, g, url)
			tip := raw(t, r.Dir(), "rev-parse", "origin/feature/x")
			lost := raw(t, r.Dir(), "commit-tree", "HEAD^{tree}", "-p", "v1^{commit}", "-m", "never pushed")
			raw(t, r.Dir(), "update-ref", "refs/heads/lost", lost)
			if held := must[bool](t)(r.Holds(t.Context(), tip, lost)); held {
				t.Fatal("it is held before anything was forged")
			}
			first := raw(t, r.Dir(), "rev-parse", "v1^{commit}")
			if held := must[bool](t)(r.Holds(t.Context(), tip, first)); !held {
				t.Error("a commit that is held is not found")
			}
			if held := must[bool](t)(r.Holds(t.Context(), tip, tip)); !held {
				t.Error("a commit does not hold itself")
			}
			forge(t, r, tip, lost)
			if out := raw(t, r.Dir(), "merge-base", lost, tip); out != lost {
				t.Fatalf("the forgery is none: plain git finds %s", out)
			}
			if held, err := r.Holds(t.Context(), tip, lost); held {
				t.Errorf("it is believed (%v)", err)
			}
		})
	}
}

// loosen makes a file of each object of a repository.
func loosen(t *testing.T, dir string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("no packs: %v", err)
	}
	for _, p := range packs {
		aside := filepath.Join(t.TempDir(), "p.pack")
		if err := errors.Join(os.Rename(p, aside), os.RemoveAll(strings.TrimSuffix(p, ".pack")+".idx")); err != nil {
			t.Fatal(err)
		}
		cmd := rawCommand(t, dir, "unpack-objects", "-q")
		f, err := os.Open(aside)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
}

// forgeGraph lets a commit-graph say that the parent of a commit is another one.
func forgeGraph(t *testing.T, at, tip, parent string) {
	t.Helper()
	b := []byte(get(t, at))
	chunk := func(name string) int {
		for i := 8; ; i += 12 {
			if string(b[i:i+4]) == name {
				return int(b[i+8])<<24 | int(b[i+9])<<16 | int(b[i+10])<<8 | int(b[i+11])
			}
		}
	}
	names, data, fanout := chunk("OIDL"), chunk("CDAT"), chunk("OIDF")
	n := int(b[fanout+1022])<<8 | int(b[fanout+1023])
	find := func(id string) int {
		for i := range n {
			if fmt.Sprintf("%x", b[names+20*i:names+20*i+20]) == id {
				return i
			}
		}
		t.Fatalf("%s is not in the graph", id)
		return 0
	}
	row, to := data+36*find(tip), find(parent)
	copy(b[row+20:], []byte{0, 0, byte(to >> 8), byte(to)})
	if err := errors.Join(os.Remove(at), os.WriteFile(at, b, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func TestTreesOfOthers(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	t.Run("SAFE-12 a file of the machine is not read through a link among the working trees of a repository", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		secret := filepath.Join(t.TempDir(), "secret")
		put(t, secret, "c4n4ry of the machine\n")
		raw(t, r.Dir(), "branch", "agent/a/b")
		put(t, filepath.Join(r.Dir(), ".git/worktrees/x/HEAD"), "ref: refs/heads/agent/a/b\n")
		put(t, filepath.Join(r.Dir(), ".git/worktrees/x/commondir"), "../..\n")
		if err := os.Symlink(secret, filepath.Join(r.Dir(), ".git/worktrees/x/gitdir")); err != nil {
			t.Fatal(err)
		}
		out, err := rawCommand(t, r.Dir(), "checkout", "agent/a/b").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "c4n4ry") {
			t.Fatalf("the bait is none: %v %s", err, out)
		}
		if err := r.CreateBranch(t.Context(), "agent/a/b", "HEAD"); !errors.Is(err, git.ErrHostile) || strings.Contains(err.Error(), "c4n4ry") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-12 SAFE-15 marks of a conflict that would be larger than memory do not write beyond it", func(t *testing.T) {
		t.Parallel()
		url, _ := bare(t)
		r := clone(t, g, url)
		side := func(name, text string) {
			if err := r.CreateBranch(t.Context(), name, "main"); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(r.Dir(), "a.txt"), text)
			put(t, filepath.Join(r.Dir(), ".gitattributes"), "* conflict-marker-size=1431655770\n")
			must[git.Committed](t)(r.Commit(t.Context(), name, ada))
		}
		side("one", "1\n")
		side("two", "2\n")
		if out, err := rawCommand(t, r.Dir(), "merge-tree", "--write-tree", "one", "two").CombinedOutput(); err == nil || err.Error() == "exit status 1" {
			t.Fatalf("the bait is none: %v %s", err, out)
		}
		var e *git.ConflictError
		if _, err := r.Merge(t.Context(), "one", "", ada); !errors.As(err, &e) || len(e.Conflicts) != 1 {
			t.Errorf("got %v", err)
		}
	})
	for name, lay := range map[string]string{"what is ignored": ".gitignore", "attributes": "src/.gitattributes", "a rebase": ".git/rebase-merge/head-name", "another tree": ".git/worktrees/x/gitdir"} {
		t.Run("SAFE-12 a pipe in the place of the file of "+name+" stops no one", func(t *testing.T) {
			t.Parallel()
			url, _ := bare(t)
			r := clone(t, g, url)
			at := filepath.Join(r.Dir(), lay)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), syscall.Mkfifo(at, 0o644)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if _, err := g.Open(ctx, r.Dir()); !errors.Is(err, git.ErrHostile) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRemoteTalks(t *testing.T) {
	t.Parallel()
	t.Run("GIT-12 a remote that says back what it was shown is not quoted", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, _, ok := r.BasicAuth(); !ok {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintln(w, "you said", r.Header.Get("Authorization"))
		}))
		t.Cleanup(s.Close)
		g := newGit(t, func(c *git.Config) {
			c.Protocols = []string{"http"}
			c.Credential = func(context.Context, string, string) (git.Credential, error) {
				return git.Credential{Password: secret.New("c4n4ry-token")}, nil
			}
		})
		_, err := g.Clone(t.Context(), git.Source{URL: s.URL + "/x"}, filepath.Join(t.TempDir(), "ws"))
		if !errors.Is(err, git.ErrAuth) || !strings.Contains(err.Error(), "you said Basic ***") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("SAFE-15 a remote that names branches without end is cut off before it fills the memory", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			line := func(text string) error {
				_, err := fmt.Fprintf(w, "%04x%s", len(text)+4, text)
				return err
			}
			if strings.HasSuffix(r.URL.Path, "/info/refs") {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
				_ = line("# service=git-upload-pack\n")
				_, _ = fmt.Fprint(w, "0000")
				_ = line("version 2\n")
				_ = line("ls-refs\n")
				_ = line("fetch\n")
				_, _ = fmt.Fprint(w, "0000")
				return
			}
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			long := strings.Repeat("x", 200)
			for i := 0; line(fmt.Sprintf("%040x refs/heads/%s/%d\n", i+1, long, i)) == nil; i++ {
			}
		}))
		t.Cleanup(s.Close)
		g := newGit(t, func(c *git.Config) {
			c.Protocols, c.Limits.Memory, c.Limits.Time = []string{"http"}, 64<<20, time.Minute
		})
		if _, err := g.Clone(t.Context(), git.Source{URL: s.URL + "/x"}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, git.ErrTooLarge) || strings.Contains(err.Error(), "longer than") {
			t.Errorf("got %v", err)
		}
	})
}
