package git_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/secret"
)

// seen reports where a secret can be read by others: in arguments and environments of processes, and in files.
func seen(canary, temp string) []string {
	var found []string
	look := func(path string) {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(canary)) {
			found = append(found, path)
		}
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		look(p + "/cmdline")
		look(p + "/environ")
	}
	_ = filepath.WalkDir(temp, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			look(path)
		}
		return nil
	})
	return found
}

// web serves repositories by http to one user. While a request with the right password is answered, it looks for the
// password all over the machine.
func web(t *testing.T, dir, user, pass, temp string) (url string, leaks *atomic.Pointer[[]string], logins *atomic.Int32) {
	t.Helper()
	raw(t, dir, "config", "http.receivepack", "true")
	backend := &cgi.Handler{Path: filepath.Join(raw(t, "/", "--exec-path"), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	leaks, logins = new(atomic.Pointer[[]string]), new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusFound)
			return
		}
		u, p, ok := r.BasicAuth()
		if !ok || u != user || p != pass {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		logins.Add(1)
		if found := seen(pass, temp); len(found) > 0 {
			leaks.Store(&found)
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(dir), leaks, logins
}

func TestWeb(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry-p%40ss w:rd"
	_, dir := bare(t)
	temp := t.TempDir()
	url, leaks, logins := web(t, dir, "bot", canary, temp)
	var asked []string
	var mu sync.Mutex // guards asked
	with := func(user, pass string, fail error) *git.Git {
		return newGit(t, func(c *git.Config) {
			c.Protocols, c.Temp = []string{"http"}, temp
			c.Credential = func(_ context.Context, scheme, host string) (git.Credential, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, scheme+" "+host)
				return git.Credential{User: user, Password: secret.New(pass)}, fail
			}
		})
	}
	t.Run("GIT-12a clone and push with a credential that is seen nowhere", func(t *testing.T) {
		g := with("bot", canary, nil)
		r := must[*git.Repo](t)(g.Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws")))
		if err := r.CreateBranch(t.Context(), "agent/a/b", "HEAD"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(r.Dir(), "new"), "x")
		c := must[git.Committed](t)(r.Commit(t.Context(), "work", ada))
		if p := must[git.Pushed](t)(r.Push(t.Context(), git.Push{URL: url, Branch: "agent/a/b"})); p.ID != c.ID || raw(t, dir, "rev-parse", "agent/a/b") != c.ID {
			t.Errorf("got %+v", p)
		}
		if l := leaks.Load(); l != nil {
			t.Errorf("the password was read in %v", *l)
		}
		if logins.Load() == 0 || len(asked) == 0 || !strings.HasPrefix(asked[0], "http 127.0.0.1:") {
			t.Errorf("%d logins, asked %v", logins.Load(), asked)
		}
		if found := seen(canary, r.Dir()); len(found) > 0 {
			t.Errorf("the password is in %v", found)
		}
	})
	t.Run("GIT-12 the test would see a secret in a file or an environment", func(t *testing.T) {
		at := filepath.Join(t.TempDir(), "f")
		put(t, at, "x"+canary)
		if found := seen(canary, filepath.Dir(at)); len(found) != 1 {
			t.Errorf("got %v", found)
		}
	})
	for name, g := range map[string]*git.Git{"another password": with("bot", "wrong-c4n4ry", nil), "no password": with("bot", "", nil),
		"no credentials": newGit(t, func(c *git.Config) { c.Protocols = []string{"http"} })} {
		t.Run("GIT-12 refused: "+name, func(t *testing.T) {
			_, err := g.Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws"))
			if !errors.Is(err, git.ErrAuth) || strings.Contains(err.Error(), "c4n4ry") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("GIT-12 the store's own error is told", func(t *testing.T) {
		lost := errors.New("the vault is sealed")
		if _, err := with("", "", lost).Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("GIT-12 a redirect is not followed", func(t *testing.T) {
		before := logins.Load()
		_, err := with("bot", canary, nil).Clone(t.Context(), git.Source{URL: strings.Replace(url, "/remote.git", "/moved/remote.git", 1)}, filepath.Join(t.TempDir(), "ws"))
		if err == nil || strings.Contains(err.Error(), "127.0.0.1:1/") && !errors.Is(err, git.ErrUnreachable) || logins.Load() != before {
			t.Errorf("got %v", err)
		}
	})
	t.Run("GIT-12 no one there", func(t *testing.T) {
		ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := with("", "", nil).Clone(t.Context(), git.Source{URL: "http://" + ln.Addr().String() + "/x"}, filepath.Join(t.TempDir(), "ws")); !errors.Is(err, git.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a repository's credential helper is not asked", func(t *testing.T) {
		b := bait{"helper", config("[credential]\n helper = PROGRAM\n[http]\n proxy = http://127.0.0.1:1\n extraHeader = X: y\n"), nil}
		_, local := bare(t)
		ws, marks, _ := laid(t, []bait{b}, "file://"+local)
		if !tripped(t, ws, marks[0], "-c http.proxy= ls-remote "+url) {
			t.Fatal("the bait is none")
		}
		r := must[*git.Repo](t)(with("bot", canary, nil).Open(t.Context(), ws))
		must[string](t)(r.Fetch(t.Context(), git.Source{URL: url}))
		absent(t, marks[0])
	})
}

func key(t *testing.T) (string, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block := must[*pem.Block](t)(ssh.MarshalPrivateKey(private, ""))
	return string(pem.EncodeToMemory(block)), must[ssh.Signer](t)(ssh.NewSignerFromKey(private))
}

// shell serves git by ssh to the holder of one key.
func shell(t *testing.T, host ssh.Signer, user ssh.PublicKey, probe func()) string {
	t.Helper()
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if bytes.Equal(k.Marshal(), user.Marshal()) {
			return nil, nil
		}
		return nil, errors.New("unknown key")
	}}
	cfg.AddHostKey(host)
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { session(c, cfg, probe) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		all.Wait()
	})
	return ln.Addr().String()
}

func session(c net.Conn, cfg *ssh.ServerConfig, probe func()) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests) // ends with the connection
	for nc := range channels {
		ch, in, err := nc.Accept()
		if err != nil {
			return
		}
		for req := range in {
			if req.Type != "exec" {
				_ = req.Reply(req.Type == "env", nil)
				continue
			}
			_ = req.Reply(true, nil)
			probe()
			var command struct{ Line string }
			_ = ssh.Unmarshal(req.Payload, &command)
			cmd := exec.Command("/bin/sh", "-c", command.Line)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = ch, ch, ch.Stderr()
			code := struct{ Status uint32 }{}
			if cmd.Run() != nil {
				code.Status = 1
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(code))
			_ = ch.Close()
		}
	}
}

// TestShell needs the ssh program, as git does.
func TestShell(t *testing.T) {
	t.Parallel()
	_, dir := bare(t)
	// Not below the test's own directory: the path of a socket is short.
	temp := must[string](t)(os.MkdirTemp("", "g"))
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	private, signer := key(t)
	_, host := key(t)
	_, otherHost := key(t)
	otherKey, _ := key(t)
	canary := strings.Split(private, "\n")[2]
	var leaks []string
	var logins int
	var mu sync.Mutex // guards both
	addr := shell(t, host, signer.PublicKey(), func() {
		mu.Lock()
		defer mu.Unlock()
		logins++
		leaks = append(leaks, seen(canary, temp)...)
	})
	name, port, _ := net.SplitHostPort(addr)
	url := "ssh://git@" + addr + dir
	knows := func(k ssh.Signer) string {
		return fmt.Sprintf("[%s]:%s %s", name, port, ssh.MarshalAuthorizedKey(k.PublicKey()))
	}
	with := func(private, hosts string) *git.Git {
		return newGit(t, func(c *git.Config) {
			c.Protocols, c.Temp = []string{"ssh"}, temp
			c.Credential = func(context.Context, string, string) (git.Credential, error) {
				return git.Credential{Key: secret.New(private), KnownHosts: hosts}, nil
			}
		})
	}
	t.Run("GIT-12b clone and push by ssh with a key that is in no file", func(t *testing.T) {
		r := must[*git.Repo](t)(with(private, knows(host)).Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws")))
		if err := r.CreateBranch(t.Context(), "agent/a/b", "HEAD"); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(r.Dir(), "new"), "x")
		c := must[git.Committed](t)(r.Commit(t.Context(), "work", ada))
		if p := must[git.Pushed](t)(r.Push(t.Context(), git.Push{URL: url, Branch: "agent/a/b"})); p.ID != c.ID {
			t.Errorf("got %+v", p)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(leaks) > 0 || logins == 0 {
			t.Errorf("%d logins, the key was read in %v", logins, leaks)
		}
	})
	for what, c := range map[string]struct {
		key, hosts string
		want       error
	}{
		"an unknown host":           {private, "", git.ErrHostKey},
		"a host with another key":   {private, knows(otherHost), git.ErrHostKey},
		"another user":              {otherKey, knows(host), git.ErrAuth},
		"no key":                    {"", knows(host), git.ErrAuth},
		"a key that cannot be read": {"-----BEGIN OPENSSH PRIVATE KEY-----\nc4n4ry\n-----END OPENSSH PRIVATE KEY-----", knows(host), git.ErrAuth},
	} {
		t.Run("GIT-12 refused by ssh: "+what, func(t *testing.T) {
			_, err := with(c.key, c.hosts).Clone(t.Context(), git.Source{URL: url}, filepath.Join(t.TempDir(), "ws"))
			if !errors.Is(err, c.want) || strings.Contains(err.Error(), "c4n4ry") {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	t.Run("a repository's ssh command is not used", func(t *testing.T) {
		_, local := bare(t)
		ws, marks, _ := laid(t, []bait{{"ssh", config("[core]\n sshCommand = PROGRAM\n gitProxy = PROGRAM\n"), nil}}, "file://"+local)
		if !tripped(t, ws, marks[0], "ls-remote "+url) {
			t.Fatal("the bait is none")
		}
		r := must[*git.Repo](t)(with(private, knows(host)).Open(t.Context(), ws))
		must[string](t)(r.Fetch(t.Context(), git.Source{URL: url}))
		absent(t, marks[0])
	})
}
