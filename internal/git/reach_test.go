package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/secret"
)

// at reaches each remote at one address.
func at(addr string, err error) func(*git.Config) {
	return func(c *git.Config) {
		c.Reach = func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(addr)}, err
		}
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	_, dir := bare(t)
	refused := errors.New("not there")
	t.Run("SAFE-12 by http and ssh the address that was given is dialled, whatever the name leads to", func(t *testing.T) {
		t.Parallel()
		url, _, _ := web(t, dir, "bot", "c4n4ry-c4n4ry", t.TempDir())
		url = strings.Replace(url, "127.0.0.1", "repo.test", 1)
		temp := must[string](t)(os.MkdirTemp("", "g"))
		t.Cleanup(func() { _ = os.RemoveAll(temp) })
		private, signer := key(t)
		_, host := key(t)
		_, port, _ := net.SplitHostPort(shell(t, host, signer.PublicKey(), func() {}))
		credential := func(_ context.Context, scheme, at string) (git.Credential, error) {
			if scheme == "ssh" {
				return git.Credential{Key: secret.New(private), KnownHosts: fmt.Sprintf("[repo.test]:%s %s", port, ssh.MarshalAuthorizedKey(host.PublicKey()))}, nil
			}
			return git.Credential{User: "bot", Password: secret.New("c4n4ry-c4n4ry")}, nil
		}
		for _, u := range []string{url, "ssh://git@repo.test:" + port + dir} {
			set := func(c *git.Config) {
				c.Temp, c.Protocols, c.Credential = temp, []string{"http", "ssh"}, credential
			}
			r := must[*git.Repo](t)(newGit(t, set, at("127.0.0.1", nil)).Clone(t.Context(), git.Source{URL: u}, filepath.Join(t.TempDir(), "ws")))
			if h := must[git.Head](t)(r.Head(t.Context())); h.ID != raw(t, dir, "rev-parse", "main") {
				t.Errorf("%s: got %+v", u, h)
			}
			if _, err := newGit(t, set).Clone(t.Context(), git.Source{URL: u}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, git.ErrUnreachable) {
				t.Errorf("%s without an address: %v", u, err)
			}
			if _, err := newGit(t, set, at("127.0.0.1", refused)).Clone(t.Context(), git.Source{URL: u}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, refused) {
				t.Errorf("%s refused: %v", u, err)
			}
		}
	})
}

func TestShare(t *testing.T) {
	t.Parallel()
	url, dir := bare(t)
	g := newGit(t)
	one := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "one")))
	if err := one.CreateBranch(t.Context(), "agent/a/1", "HEAD"); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Share(t.Context(), new(bytes.Buffer), "agent/a/1", true); !errors.Is(err, git.ErrNothing) {
		t.Errorf("nothing new: %v", err)
	}
	put(t, filepath.Join(one.Dir(), "new.txt"), "x")
	c := must[git.Committed](t)(one.Commit(t.Context(), "work", ada))
	var thin, whole bytes.Buffer
	ref := must[git.Ref](t)(one.Share(t.Context(), &thin, "agent/a/1", true))
	must[git.Ref](t)(one.Share(t.Context(), &whole, "agent/a/1", false))
	if ref != (git.Ref{Name: "agent/a/1", ID: c.ID}) || thin.Len() >= whole.Len() {
		t.Errorf("%+v, %d and %d bytes", ref, thin.Len(), whole.Len())
	}
	t.Run("GIT-7 a shared branch is taken elsewhere, and none of the branches there is touched", func(t *testing.T) {
		t.Parallel()
		clone := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "two")))
		empty := must[*git.Repo](t)(g.Init(t.Context(), filepath.Join(t.TempDir(), "three"), "main"))
		for r, b := range map[*git.Repo][]byte{clone: thin.Bytes(), empty: whole.Bytes()} {
			before := raw(t, r.Dir(), "for-each-ref", "refs/heads", "refs/remotes")
			for range 2 {
				if err := r.Take(t.Context(), bytes.NewReader(b), ref); err != nil {
					t.Fatal(err)
				}
			}
			if id := must[string](t)(r.Resolve(t.Context(), git.Published+"agent/a/1")); id != c.ID || raw(t, r.Dir(), "for-each-ref", "refs/heads", "refs/remotes") != before {
				t.Errorf("got %s", id)
			}
		}
	})
	t.Run("SAFE-12 what is cut off, changed, of another commit or lacks its beginning changes nothing", func(t *testing.T) {
		t.Parallel()
		r := must[*git.Repo](t)(g.Init(t.Context(), filepath.Join(t.TempDir(), "four"), "main"))
		changed := bytes.Clone(whole.Bytes())
		changed[len(changed)-30] ^= 1
		for what, x := range map[string]struct {
			b    []byte
			ref  git.Ref
			want error
		}{"cut off": {whole.Bytes()[:whole.Len()-9], ref, git.ErrDamaged}, "changed": {changed, ref, git.ErrDamaged}, "nothing": {nil, ref, git.ErrDamaged},
			"another commit": {whole.Bytes(), git.Ref{Name: ref.Name, ID: strings.Repeat("a", 40)}, git.ErrDamaged}, "another name": {whole.Bytes(), git.Ref{Name: "main", ID: ref.ID}, git.ErrDamaged},
			"a name that is none": {whole.Bytes(), git.Ref{Name: "../main", ID: ref.ID}, git.ErrName}, "no beginning": {thin.Bytes(), ref, git.ErrNotFound}} {
			if err := r.Take(t.Context(), bytes.NewReader(x.b), x.ref); !errors.Is(err, x.want) {
				t.Errorf("%s: got %v, want %v", what, err, x.want)
			}
		}
		if refs := raw(t, r.Dir(), "for-each-ref"); refs != "" {
			t.Errorf("there is %s", refs)
		}
	})
	t.Run("GIT-2 the remote is asked where a branch is", func(t *testing.T) {
		t.Parallel()
		if id := must[string](t)(g.RemoteBranch(t.Context(), url, "main")); id != raw(t, dir, "rev-parse", "main") {
			t.Errorf("got %s", id)
		}
		if id := must[string](t)(g.RemoteBranch(t.Context(), url, "nowhere")); id != "" {
			t.Errorf("got %s", id)
		}
		if _, err := g.RemoteBranch(t.Context(), url, "--upload-pack=x"); !errors.Is(err, git.ErrName) {
			t.Errorf("got %v", err)
		}
	})
}

func TestUnlock(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-12 only lock files of the repository are removed, and nothing behind a link", func(t *testing.T) {
		t.Parallel()
		tree, outside := t.TempDir(), t.TempDir()
		put(t, filepath.Join(outside, "x.lock"), "not yours")
		for _, name := range []string{".git/index.lock", ".git/HEAD", ".git/refs/heads/a.lock", ".git/refs/heads/a", ".git/objects/x.lock", "my.lock"} {
			put(t, filepath.Join(tree, name), "x")
		}
		for _, link := range []string{".git/refs/outside", ".git/link.lock"} {
			if err := os.Symlink(outside, filepath.Join(tree, link)); err != nil {
				t.Fatal(err)
			}
		}
		if n := must[int](t)(git.Unlock(tree)); n != 2 {
			t.Errorf("removed %d", n)
		}
		absent(t, filepath.Join(tree, ".git/index.lock"))
		for _, there := range []string{filepath.Join(outside, "x.lock"), filepath.Join(tree, "my.lock"), filepath.Join(tree, ".git/refs/heads/a"), filepath.Join(tree, ".git/objects/x.lock")} {
			get(t, there)
		}
		if n := must[int](t)(git.Unlock(t.TempDir())); n != 0 {
			t.Errorf("removed %d of no repository", n)
		}
	})
}
