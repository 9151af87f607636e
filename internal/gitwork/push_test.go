package gitwork_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/secret"
	"github.com/inspan/inspan/pkg/tool"
)

// work makes a commit on a branch of its own in a clone.
func (b *bay) work(url, branch, file string) gitwork.Committed {
	b.t.Helper()
	b.prepared(args{"url": url, "new_branch": branch})
	b.put(file, branch)
	return b.committed("work on " + file)
}

func TestPush(t *testing.T) {
	t.Parallel()
	t.Run("GIT-2 what the remote has afterwards is the answer, and again it is the same", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		want := gitwork.Pushed{URL: r.url, Branch: "agent/a/1", Commit: c.Commit}
		for range 2 {
			if got := do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url}); got != want || raw(t, r.dir, "rev-parse", "agent/a/1") != c.Commit {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		b.job.Repo = r.url
		want.Branch = "release"
		if got := do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "to": "release"}); got != want {
			t.Errorf("to another name, at the repository of the run: got %+v", got)
		}
	})
	t.Run("GATE-13 SAFE-12 a push to a remote on a disk runs none of its hooks", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		ran := filepath.Join(t.TempDir(), "ran")
		for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction"} {
			file := filepath.Join(r.dir, "hooks", hook)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("#!/bin/sh\necho "+hook+" >>"+ran+"\nexit 0\n"), 0o755); err != nil { //nolint:gosec // git runs it
				t.Fatal(err)
			}
		}
		c := b.work(r.url, "agent/a/1", "new.txt")
		do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url})
		if got, err := os.ReadFile(ran); err == nil {
			t.Errorf("the push of the tools ran %s", got)
		}
		raw(t, b.job.Dir, "push", r.dir, "HEAD:refs/heads/by-hand")
		if _, err := os.ReadFile(ran); err != nil {
			t.Errorf("the hooks do not run at all: %v", err)
		}
	})
	t.Run("GATE-13 SAFE-7 a branch that moved on since is not pushed", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		b.put("later.txt", "not seen by who approved")
		b.committed("later")
		b.bad(gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url}, tool.Invalid, "moved on")
		if refs := raw(t, r.dir, "for-each-ref", "refs/heads/agent"); refs != "" {
			t.Errorf("the remote has %s", refs)
		}
	})
	t.Run("GIT-2 without an address there must be one of the run", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		b.bad(gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit}, tool.Invalid, "pass url")
	})
	t.Run("GIT-14 a remote that moved on is not written over", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		d := r.desk()
		one, other := r.bay(t, d), r.bay(t, d)
		a, b := one.work(r.url, "agent/a/1", "a1.txt"), other.work(r.url, "agent/a/1", "b1.txt")
		errs := make(chan error, 2) // one for each
		var both sync.WaitGroup
		for x, c := range map[*bay]string{one: a.Commit, other: b.Commit} {
			both.Go(func() {
				_, err := x.try(gitwork.Push, args{"branch": "agent/a/1", "commit": c, "url": r.url})
				errs <- err
			})
		}
		both.Wait()
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), git.ErrRejected) || tool.ClassOf(errors.Join(first, second)) == tool.Transient {
			t.Errorf("got %v and %v, want one of them refused", first, second)
		}
	})
	t.Run("GIT-2 two pushes at once of one workspace", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		errs := make(chan error, 2) // one for each
		for range 2 {
			go func() {
				_, err := b.try(gitwork.Push, args{"branch": "agent/a/1", "commit": c.Commit, "url": r.url})
				errs <- err
			}()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Error(err)
		}
	})
	t.Run("SAFE-8 nothing is pushed, committed or published under an old fence", func(t *testing.T) {
		t.Parallel()
		r, b := newBay(t)
		c := b.work(r.url, "agent/a/1", "new.txt")
		stale := errors.New("another attempt has begun")
		b.job.Current = func(context.Context) error { return stale }
		b.put("more.txt", "x")
		for name, a := range map[string]args{gitwork.Push: {"branch": "agent/a/1", "commit": c.Commit, "url": r.url}, gitwork.Commit: {"message": "x"}, gitwork.Publish: {"branch": "agent/a/1"},
			gitwork.Prepare: {"url": r.url, "branch": "old"}, gitwork.Merge: {"from": []string{"old"}}, gitwork.Branch: {"task": "x"}} {
			if _, err := b.try(name, a); !errors.Is(err, stale) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if raw(t, b.job.Dir, "rev-parse", "HEAD") != c.Commit || raw(t, r.dir, "for-each-ref", "refs/heads/agent") != "" {
			t.Error("something was done")
		}
	})
}

// TestLostAnswer cuts the answer of a remote that has taken a push.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var cut atomic.Int32
	url := r.web(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if !strings.HasSuffix(q.URL.Path, "/git-receive-pack") || cut.Load() == 0 {
				next.ServeHTTP(w, q)
				return
			}
			cut.Add(-1)
			next.ServeHTTP(httptest.NewRecorder(), q)
			panic(http.ErrAbortHandler)
		})
	})
	d := r.desk(near(nil))
	t.Run("SAFE-7 TOOL-22 a push that was taken and not answered is found to be done", func(t *testing.T) {
		b := r.bay(t, d)
		c := b.work(url, "agent/a/1", "new.txt")
		cut.Store(1)
		a := args{"branch": "agent/a/1", "commit": c.Commit, "url": url}
		if got := do[gitwork.Pushed](b, gitwork.Push, a); got.Commit != c.Commit || cut.Load() != 0 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("SAFE-7 TOOL-22 after a toolrunner was lost the remote is asked", func(t *testing.T) {
		b := r.bay(t, d)
		c := b.work(url, "agent/a/2", "new.txt")
		input, err := json.Marshal(args{"branch": "agent/a/2", "commit": c.Commit, "url": url})
		if err != nil {
			t.Fatal(err)
		}
		if done, out, err := d.At(b.job).Done(t.Context(), gitwork.Push, input); done || err != nil {
			t.Errorf("before: %s, %v", out, err)
		}
		raw(t, b.job.Dir, "push", "-q", r.dir, "agent/a/2")
		done, out, err := d.At(b.job).Done(t.Context(), gitwork.Push, input)
		if got := decode[gitwork.Pushed](t, out); !done || err != nil || got != (gitwork.Pushed{URL: url, Branch: "agent/a/2", Commit: c.Commit}) {
			t.Errorf("%v %+v, %v", done, got, err)
		}
		// Somebody builds on it.
		raw(t, b.job.Dir, "commit", "-q", "--allow-empty", "-m", "more")
		raw(t, b.job.Dir, "push", "-q", r.dir, "agent/a/2")
		later := raw(t, b.job.Dir, "rev-parse", "HEAD")
		raw(t, b.job.Dir, "reset", "-q", "--hard", c.Commit)
		done, out, err = d.At(b.job).Done(t.Context(), gitwork.Push, input)
		if got := decode[gitwork.Pushed](t, out); !done || err != nil || got.Commit != later || got.Holds != c.Commit {
			t.Errorf("%v %+v, %v", done, got, err)
		}
		// Somebody put something else there.
		raw(t, r.dir, "update-ref", "refs/heads/agent/a/2", "main")
		if done, out, err := d.At(b.job).Done(t.Context(), gitwork.Push, input); done || err != nil {
			t.Errorf("after it was replaced: %s, %v", out, err)
		}
	})
}

func TestRemotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	clone := func(t *testing.T, d *gitwork.Desk, url string, class tool.Class, want string) {
		t.Helper()
		b := r.bay(t, d)
		b.bad(gitwork.Prepare, args{"url": url}, class, want)
		absent(t, filepath.Join(b.job.Dir, ".git"))
	}
	t.Run("SAFE-12 addresses that are options, programs, other protocols or hold secrets", func(t *testing.T) {
		t.Parallel()
		d := r.desk(func(c *git.Config) { c.Protocols = nil })
		for url, class := range map[string]tool.Class{
			"ext::sh -c touch% x": tool.Invalid, "--upload-pack=touch x": tool.Invalid, "-oProxyCommand=x:y": tool.Invalid, "ssh://-oProxyCommand=x/y": tool.Invalid, "fd::7": tool.Invalid,
			"https://user:pass@example.com/x": tool.Invalid, "https://example.com/x\n": tool.Invalid, "https://example.com/\x00": tool.Invalid, "https://exa mple.com/x": tool.Invalid,
			"git@host:-x": tool.Invalid, "https://example.com/x?y=1": tool.Invalid, "": tool.Invalid, "a/b": tool.Invalid,
			"file:///etc": tool.Denied, "/etc": tool.Denied, "http://example.com/x": tool.Denied, "git://example.com/x": tool.Denied, "ftp://example.com/x": tool.Denied, "gopher://example.com/x": tool.Denied,
		} {
			if url != "" {
				clone(t, d, url, class, "")
			}
			b := r.bay(t, d)
			raw(t, b.job.Dir, "init", "-q")
			raw(t, b.job.Dir, "commit", "-q", "--allow-empty", "-m", "x")
			b.bad(gitwork.Push, args{"branch": "main", "commit": raw(t, b.job.Dir, "rev-parse", "HEAD"), "url": url}, class, "")
		}
	})
	t.Run("SAFE-12 SBX-9 addresses that are not public are not reached, however they are written", func(t *testing.T) {
		t.Parallel()
		reached := listen(t)
		_, port, _ := net.SplitHostPort(reached.addr)
		d := r.desk(func(c *git.Config) {
			c.Protocols = []string{"http", "https", "ssh"}
			c.Reach = gitwork.Reach{Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
				switch name {
				case "inside.test":
					return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
				case "cloud.test":
					return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
				case "mapped.test":
					return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, nil
				}
				return net.DefaultResolver.LookupNetIP(t.Context(), "ip", name)
			}}.Addresses
		})
		for _, host := range []string{"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "017700000001", "0.0.0.0", "10.1.2.3", "169.254.169.254", "192.168.1.1", "[::1]", "[::ffff:7f00:1]",
			"inside.test", "cloud.test", "mapped.test", "localhost.", "LOCALHOST"} {
			for _, scheme := range []string{"http", "https", "ssh"} {
				clone(t, d, scheme+"://"+host+":"+port+"/x", tool.Denied, "not reachable")
			}
			if !strings.HasPrefix(host, "[") {
				clone(t, d, "git@"+host+":x", tool.Denied, "not reachable")
			}
		}
		if n := reached.n.Load(); n != 0 {
			t.Errorf("it was reached %d times", n)
		}
	})
	t.Run("SAFE-12 the address that was judged is the one that is dialled, whatever the name leads to", func(t *testing.T) {
		t.Parallel()
		url := strings.Replace(r.web(t, nil), "127.0.0.1", "repo.test", 1) // no name server knows it
		b := r.bay(t, r.desk(near(map[string]string{"repo.test": "127.0.0.1"})))
		c := b.work(url, "agent/a/pinned", "new.txt")
		if got := do[gitwork.Pushed](b, gitwork.Push, args{"branch": "agent/a/pinned", "commit": c.Commit, "url": url}); got.Commit != c.Commit || got.URL != url {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("GIT-12 SAFE-12 by https the certificate must be that of the name, at whatever address", func(t *testing.T) {
		t.Parallel()
		raw(t, r.dir, "config", "http.receivepack", "true")
		s := httptest.NewTLSServer(&cgi.Handler{Path: filepath.Join(raw(t, "/", "--exec-path"), "git-http-backend"),
			Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}})
		t.Cleanup(s.Close)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		put(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		with := func(ca string) *gitwork.Desk {
			return r.desk(near(map[string]string{"example.com": "127.0.0.1", "other.test": "127.0.0.1"}), func(c *git.Config) { c.Protocols, c.CAFile = []string{"https"}, ca })
		}
		if p := r.bay(t, with(ca)).prepared(args{"url": "https://example.com:" + port + "/remote.git"}); !p.Cloned {
			t.Errorf("got %+v", p)
		}
		for d, name := range map[*gitwork.Desk]string{with(ca): "other.test", with(""): "example.com"} {
			b := r.bay(t, d)
			if out, err := b.try(gitwork.Prepare, args{"url": "https://" + name + ":" + port + "/remote.git"}); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("%s: %s, %v", name, out, err)
			}
		}
	})
	t.Run("SBX-9 hosts that an operator did not name are refused", func(t *testing.T) {
		t.Parallel()
		d := r.desk(func(c *git.Config) {
			c.Protocols = nil
			c.Reach = gitwork.Reach{Hosts: []string{"github.com", "*.good.example"}}.Addresses
		})
		for _, url := range []string{"https://evil.example/x", "https://github.com.evil.example/x", "https://good.example/x", "git@xgood.example:x", "ssh://git@evilgithub.com/x"} {
			clone(t, d, url, tool.Denied, "INSPAN_GIT_HOSTS")
		}
	})
	t.Run("GATE-13 a repository in a workspace is no remote: its hooks would run", func(t *testing.T) {
		t.Parallel()
		d := r.desk()
		b := r.bay(t, d)
		b.work(r.url, "agent/a/x", "new.txt")
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(b.job.Dir, link); err != nil {
			t.Fatal(err)
		}
		for _, url := range []string{b.job.Dir, "file://" + b.job.Dir, link + "/.git", r.root + "/run/../run/x"} {
			clone(t, d, url, tool.Denied, "it is inside the workspaces")
		}
	})
	t.Run("GIT-12 a credential is shown to its host alone", func(t *testing.T) {
		t.Parallel()
		var mu sync.Mutex
		seen := map[string][]string{} // what each server was shown, guarded by mu
		server := func(name string) string {
			return r.web(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					mu.Lock()
					seen[name] = append(seen[name], q.Header.Get("Authorization"))
					mu.Unlock()
					if strings.HasPrefix(q.URL.Path, "/moved") {
						http.Redirect(w, q, "http://"+strings.TrimPrefix(q.URL.Path, "/moved/"), http.StatusFound)
						return
					}
					if q.Header.Get("Authorization") == "" {
						w.Header().Set("WWW-Authenticate", `Basic realm="give it to me"`)
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					next.ServeHTTP(w, q)
				})
			})
		}
		good, evil := server("good"), server("evil")
		host := func(url string) string { return strings.TrimPrefix(url[:strings.LastIndex(url, "/")], "http://") }
		d := r.desk(near(nil), func(c *git.Config) {
			c.Credential = func(_ context.Context, scheme, at string) (git.Credential, error) {
				if scheme == "http" && at == host(good) {
					return git.Credential{User: "bot", Password: secret.New("c4n4ry-c4n4ry")}, nil
				}
				return git.Credential{}, nil
			}
		})
		if p := r.bay(t, d).prepared(args{"url": good}); !p.Cloned {
			t.Errorf("%+v", p)
		}
		clone(t, d, evil, tool.Permanent, "credential")
		clone(t, d, "http://"+host(good)+"/moved/"+host(evil)+"/remote.git", tool.Transient, "redirect")
		clone(t, d, "http://"+host(evil)+"/moved/"+host(good)+"/remote.git", tool.Transient, "redirect")
		mu.Lock()
		defer mu.Unlock()
		if want := "Basic " + base64.StdEncoding.EncodeToString([]byte("bot:c4n4ry-c4n4ry")); !strings.Contains(fmt.Sprint(seen["good"]), want) {
			t.Errorf("the good one was shown %v", seen["good"])
		}
		if all := strings.Join(seen["evil"], ""); all != "" {
			t.Errorf("the other was shown %q", all)
		}
	})
	t.Run("SAFE-12 a remote that hangs is given up", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		d := r.desk(near(nil), func(c *git.Config) { c.Limits.Time = time.Second })
		clone(t, d, "http://"+ln.Addr().String()+"/x", tool.Permanent, "took longer than 1s")
		b := r.bay(t, r.desk(near(nil)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.within(ctx, gitwork.Prepare, args{"url": "http://" + ln.Addr().String() + "/x"}); tool.ClassOf(err) != tool.Timeout {
			t.Errorf("the call's own time: %v", err)
		}
	})
	t.Run("SAFE-12 a remote that sends without end is cut off", func(t *testing.T) {
		t.Parallel()
		var sent atomic.Int64
		url := r.web(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				body, _ := io.ReadAll(q.Body)
				if !strings.HasSuffix(q.URL.Path, "/git-upload-pack") || bytes.Contains(body, []byte("command=ls-refs")) {
					q.Body = io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(w, q)
					return
				}
				endless(w, &sent)
			})
		})
		d := r.desk(near(nil), func(c *git.Config) { c.Limits.Pack = 4 << 20 })
		b := r.bay(t, d)
		b.bad(gitwork.Prepare, args{"url": url}, tool.Permanent, "too large")
		if n := sent.Load(); n < 4<<20 || n > 64<<20 {
			t.Errorf("%d bytes were sent", n)
		}
		absent(t, filepath.Join(b.job.Dir, ".git"))
	})
	t.Run("GIT-12 no one there is worth another try", func(t *testing.T) {
		t.Parallel()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := ln.Addr().String()
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		clone(t, r.desk(near(nil)), "http://"+addr+"/x", tool.Transient, "not reachable")
		clone(t, r.desk(near(nil)), "http://nowhere.test/x", tool.Transient, "the name has no address")
	})
}

// endless answers a fetch with a pack of one blob that does not end.
func endless(w http.ResponseWriter, sent *atomic.Int64) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	line := func(b []byte) bool {
		_, err := fmt.Fprintf(w, "%04x%s", len(b)+4, b)
		sent.Add(int64(len(b)))
		return err == nil
	}
	line([]byte("packfile\n"))
	// A pack of two objects, the first a blob of 2^33 bytes, stored without compression.
	head := append([]byte("\x01PACK\x00\x00\x00\x02\x00\x00\x00\x02"), 0xb0, 0x80, 0x80, 0x80, 0x80, 0x01, 0x78, 0x01)
	line(head)
	block := append([]byte{1, 0x00, 0xff, 0x7f, 0x00, 0x80}, make([]byte, 0x7fff)...) // after \x01: a stored block of 32767 bytes
	block[1], block[2], block[3], block[4], block[5] = 0x00, 0xff, 0x7f, 0x00, 0x80
	for line(block) {
		_ = http.NewResponseController(w).Flush()
	}
}

// listener counts who comes.
type listener struct {
	addr string
	n    atomic.Int64
}

func listen(t *testing.T) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{addr: ln.Addr().String()}
	gone := make(chan struct{}) // closed when no one is accepted any more
	go func() {
		defer close(gone)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.n.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-gone })
	return l
}
