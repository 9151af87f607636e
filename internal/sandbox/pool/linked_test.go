package pool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/host"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/workspace/workdir"
	"github.com/inspan/inspan/pkg/events"
)

// sh runs a command in a sandbox and returns what it said.
func sh(t *testing.T, b *Opener, workspace, command string) (string, error) {
	t.Helper()
	sb, err := b.OpenAs(t.Context(), "id", workspace, events.Sandbox{Network: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = sb.Destroy(context.Background()) }()
	var out bytes.Buffer
	_, err = sb.Exec(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", command}, Stdout: &out, Stderr: &out})
	return out.String(), err
}

func sandboxesIn(t *testing.T, root string, backend sandbox.Backend) *Opener {
	t.Helper()
	b, err := NewOpener(Config{Root: root, Default: backend.Mode(), Backends: map[sandbox.Mode]sandbox.Backend{backend.Mode(): backend}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPinned(t *testing.T) {
	t.Parallel()
	for what, plant := range map[string]string{
		"the workspace": "rmdir session/mine && ln -s victim session/mine",
		"its parent":    "mkdir -p other/mine && rm -r session/mine && mv session away && ln -s run session",
		"a file":        "rmdir session/mine && touch session/mine",
	} {
		t.Run("SBX-14 WS-3 a link in the place of "+what+" leads a sandbox, and the files of the harness, to no other run", func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			b := sandboxesIn(t, root, host.New(""))
			for _, ws := range []string{"session/victim", "run/mine", "session/mine"} {
				if _, err := sh(t, b, ws, "echo "+ws+" > whose"); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := sh(t, b, "run/x", "rm -f ../../session/mine/whose && cd ../.. && "+plant); err != nil || out != "" {
				t.Fatalf("%v %s", err, out) // a sandbox without walls can do so
			}
			if out, err := sh(t, b, "session/mine", "cat whose; echo taken > whose"); !errors.Is(err, workdir.ErrLinked) {
				t.Errorf("got %q, %v, want workdir.ErrLinked", out, err)
			}
			if r, err := workdir.Open(root, "session/mine"); !errors.Is(err, workdir.ErrLinked) {
				t.Errorf("got %v, %v, want workdir.ErrLinked", r, err)
			}
		})
	}
	t.Run("SBX-14 WS-3 a workspace that is replaced while its sandbox opens is given up", func(t *testing.T) {
		t.Parallel()
		root := t.TempDir()
		x := &swapper{Backend: host.New(""), root: root}
		b := sandboxesIn(t, root, x)
		if _, err := sh(t, b, "session/mine", "true"); !errors.Is(err, workdir.ErrLinked) {
			t.Errorf("got %v, want workdir.ErrLinked", err)
		}
		x.root = ""
		if err := os.Remove(filepath.Join(root, "session/mine")); err != nil {
			t.Fatal(err)
		}
		if _, err := sh(t, b, "session/mine", "true"); err != nil {
			t.Error(err)
		}
	})
	t.Run("SBX-14 WS-3 a command in a sandbox can replace nothing on the way to its workspace or another's", func(t *testing.T) {
		t.Parallel()
		backend := bwrap.New("", "")
		sandboxtest.Need(t, backend)
		root := t.TempDir()
		b := sandboxesIn(t, root, backend)
		if _, err := sh(t, b, "session/victim", "echo victim > whose"); err != nil {
			t.Fatal(err)
		}
		const attack = `at=$(pwd); cd /; rmdir $at; mv $at $at.away; mv $(dirname $at) /away; ln -s victim $(dirname $at)/mine;
			rm -rf $(dirname $at)/victim; ln -sfn $(dirname $at)/victim $at; ln -sfn ../victim $at/in; true`
		if _, err := sh(t, b, "session/mine", attack); err != nil {
			t.Fatal(err)
		}
		if _, err := sh(t, b, "session/mine", "echo mine > whose; echo mine > in/whose"); err != nil {
			t.Fatal(err)
		}
		for ws, want := range map[string]string{"session/mine": "mine", "session/victim": "victim"} {
			if out, err := sh(t, b, ws, "cat whose"); err != nil || strings.TrimSpace(out) != want {
				t.Errorf("%s: %v %q", ws, err, out)
			}
		}
	})
}

// swapper is a backend in whose Open a workspace is replaced by a link.
type swapper struct {
	sandbox.Backend
	root string
}

func (s *swapper) Open(ctx context.Context, cfg sandbox.Config) (sandbox.Sandbox, error) {
	if s.root != "" {
		err := errors.Join(os.MkdirAll(filepath.Join(s.root, "session/victim"), 0o755), os.Remove(cfg.Workspace), os.Symlink("victim", cfg.Workspace))
		if err != nil {
			return nil, err
		}
	}
	return s.Backend.Open(ctx, cfg)
}
