package janitor

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/pkg/events"
)

// borrowing is a workspace root in which the workspace of a run borrows of a mirror.
func borrowing(t *testing.T, path string) (root, objects string, desk *gitwork.Desk) {
	t.Helper()
	root = t.TempDir()
	remote, seed := filepath.Join(t.TempDir(), "remote.git"), t.TempDir()
	for _, args := range [][]string{{"init", "-q", "--bare", remote}, {"init", "-q"}, {"commit", "-q", "--allow-empty", "-m", "first"}, {"push", "-q", remote, "HEAD:refs/heads/main"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"}, args...)...)
		cmd.Dir, cmd.Env = seed, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + seed, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	g, err := git.New(git.Config{Protocols: []string{"file"}, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if desk, err = gitwork.New(gitwork.Config{Git: g, Root: root, Locks: filepath.Join(root, ".git-work")}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.At(gitwork.Job{Dir: dir, Call: "hx-1/c1", Ephemeral: true}).Do(t.Context(), gitwork.Prepare, []byte(`{"url":"file://`+remote+`"}`)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, ".git/objects/info/alternates"))
	if err != nil {
		t.Fatal(err)
	}
	return root, strings.TrimSpace(string(text)), desk
}

func TestLent(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 a sandbox may read what its workspace borrows, and nothing of a mirror where it borrows nothing", func(t *testing.T) {
		t.Parallel()
		root, objects, desk := borrowing(t, "run/hx-1")
		cfg := sandbox.Config{}
		sandboxes, err := pool.NewOpener(pool.Config{Root: root, Default: sandbox.Bwrap, ReadOnly: []string{"/usr/share"}, Backends: map[sandbox.Mode]sandbox.Backend{sandbox.Bwrap: asked{mode: sandbox.Bwrap, cfg: &cfg}}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sandboxes.OpenAs(t.Context(), "hx-2", "run/hx-1", events.Sandbox{}) // asked keeps what it is asked for
		if !slices.Equal(cfg.ReadOnly, []string{"/usr/share", objects}) || len(cfg.Writable) > 0 {
			t.Errorf("got %+v", cfg)
		}
		if clones, err := desk.Clones(); err != nil || len(clones) != 1 || !slices.Equal(clones[0].Runs, []string{"hx-1", "hx-2"}) {
			t.Errorf("who works there: %+v, %v", clones, err)
		}
		_, _ = sandboxes.OpenAs(t.Context(), "hx-3", "run/hx-3", events.Sandbox{})
		if !slices.Equal(cfg.ReadOnly, []string{"/usr/share"}) {
			t.Errorf("another workspace: %+v", cfg)
		}
		if _, err := sandboxes.OpenAs(t.Context(), "hx-2", "run/hx-1", events.Sandbox{ReadWrite: []string{objects}}); !errors.Is(err, pool.ErrNotShown) {
			t.Errorf("an agent that wants to write it: %v", err)
		}
		if err := git.RemoveAll(objects); err != nil {
			t.Fatal(err)
		}
		if _, err := sandboxes.OpenAs(t.Context(), "hx-2", "run/hx-1", events.Sandbox{}); err == nil || !strings.Contains(err.Error(), "git_prepare again") {
			t.Errorf("without it: %v", err)
		}
	})
	t.Run("WS-14 SBX-20 a sandbox on another machine is refused, when it is opened", func(t *testing.T) {
		t.Parallel()
		root, _, _ := borrowing(t, "run/hx-1")
		cfg := sandbox.Config{}
		sandboxes, err := pool.NewOpener(pool.Config{Root: root, Default: sandbox.Host, Backends: map[sandbox.Mode]sandbox.Backend{
			sandbox.Host: asked{mode: sandbox.Host, cfg: &cfg}, sandbox.E2B: askedAway{asked{mode: sandbox.E2B, cfg: &cfg}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sandboxes.OpenAs(t.Context(), "hx-1", "run/hx-1", events.Sandbox{Mode: "e2b"}); !errors.Is(err, pool.ErrAlternates) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("WS-14 files that are put aside can still be read, and keep their mirror", func(t *testing.T) {
		t.Parallel()
		root, _, desk := borrowing(t, "session/s")
		if err := aside(root, "session/s", "deleted/s/1"); err != nil {
			t.Fatal(err)
		}
		clones, err := desk.Clones()
		if err != nil || len(clones) != 1 || clones[0].Path != ".left/deleted=s=1.1" || clones[0].Passing() {
			t.Fatalf("%+v %v", clones, err)
		}
		if n, err := desk.TidyMirrors(t.Context(), time.Hour, time.Now().Add(48*time.Hour)); n != 0 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		cmd := exec.Command("git", "fsck", "--strict")
		cmd.Dir = filepath.Join(root, clones[0].Path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("WS-14 a note that cannot be read is reported, and nothing is taken away for it", func(t *testing.T) {
		t.Parallel()
		root, objects, desk := borrowing(t, "run/hx-1")
		found, err := filepath.Glob(filepath.Join(root, gitwork.MirrorsDir, ".loans/*/loan.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v %v", found, err)
		}
		for _, text := range []string{"{", `{"path":"../../etc","mirror":""}`, `{"path":"run/hx-1","mirror":"../../../etc"}`} {
			if err := os.WriteFile(found[0], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if n, err := desk.TidyMirrors(t.Context(), time.Hour, time.Now().Add(48*time.Hour)); n != 0 || err == nil {
				t.Errorf("%s: %d %v", text, n, err)
			}
			if _, _, err := gitwork.Alternates(root, "run/hx-1", "x"); err == nil {
				t.Errorf("%s: it is lent", text)
			}
		}
		if _, err := os.Lstat(objects); err != nil {
			t.Error(err)
		}
		_, _, err = desk.Reclaim(t.Context(), "run/hx-1", func(context.Context, gitwork.Clone) (bool, error) { return true, nil }, func() error { return errors.New("removed") })
		if err == nil || strings.Contains(err.Error(), "removed") {
			t.Errorf("reclaim: %v", err)
		}
	})
}

// asked is a backend that keeps what it was asked for.
type asked struct {
	sandbox.Backend
	mode sandbox.Mode
	cfg  *sandbox.Config
}

func (a asked) Mode() sandbox.Mode { return a.mode }

func (a asked) Open(_ context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	*a.cfg = cfg
	return nil, errors.New("kept")
}

// askedAway is a backend whose commands run on another machine.
type askedAway struct{ asked }

func (askedAway) Away() {}
