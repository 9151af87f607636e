package gitwork_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/git"
	"github.com/inspan/inspan/internal/git/gittest"
	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/mem"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// raw runs git as a person would, without the settings of whoever runs the tests.
func raw(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(t testing.TB, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func absent(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

// rig is a station's git work, with a remote.
type rig struct {
	t          *testing.T
	st         *mem.Station
	root, temp string
	url, dir   string // of the remote
}

func newRig(t *testing.T) *rig {
	t.Helper()
	st, err := mem.New("s1", mem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, st: st, root: t.TempDir(), temp: t.TempDir(), dir: filepath.Join(t.TempDir(), "remote.git")}
	r.url = "file://" + r.dir
	remotes.Copy(t, r.dir, func(dir string) { fillRemote(t, dir) })
	return r
}

var remotes gittest.Template

// fillRemote makes the remote of a rig: all have the same commits.
func fillRemote(t *testing.T, dir string) {
	t.Helper()
	raw(t, "/", "init", "-q", "--bare", "--template=", dir)
	raw(t, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
	seed := t.TempDir()
	raw(t, seed, "init", "-q")
	for i, text := range []string{"one\n", "one\ntwo\n", "one\ntwo\nthree\n"} {
		put(t, filepath.Join(seed, "a.txt"), text)
		raw(t, seed, "add", "-A")
		raw(t, seed, "commit", "-qm", text)
		if i == 0 {
			raw(t, seed, "tag", "v1")
		}
	}
	raw(t, seed, "checkout", "-q", "--detach")
	put(t, filepath.Join(seed, "pr.txt"), "pr\n")
	raw(t, seed, "add", "-A")
	raw(t, seed, "commit", "-qm", "pr")
	raw(t, seed, "push", "-q", dir, "main", "main~1:refs/heads/old", "v1", "HEAD:refs/pull/123/head")
}

// hasty does git work and does not wait for others.
func (r *rig) hasty() *gitwork.Desk { return r.with(time.Millisecond) }

// desk does git work; change may change what it is made of.
func (r *rig) desk(change ...func(*git.Config)) *gitwork.Desk { return r.with(0, change...) }

func (r *rig) with(patience time.Duration, change ...func(*git.Config)) *gitwork.Desk {
	r.t.Helper()
	cfg := git.Config{Temp: r.temp, Protocols: []string{"file"}, Ignore: gitwork.Own()}
	for _, f := range change {
		f(&cfg)
	}
	g, err := git.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	d, err := gitwork.New(gitwork.Config{Git: g, Blobs: r.st.Blobs(), KV: r.st.KV(topology.TreeBucket), Root: r.root, Locks: filepath.Join(r.root, ".git-work"), Patience: patience})
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// bay is one run at work in one tree.
type bay struct {
	t    *testing.T
	desk *gitwork.Desk
	job  gitwork.Job
}

func (r *rig) bay(t *testing.T, d *gitwork.Desk) *bay {
	t.Helper()
	dir := filepath.Join(r.root, "run", strings.ReplaceAll(filepath.Base(t.TempDir()), "/", "")+filepath.Base(filepath.Dir(t.TempDir())))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".harness/artifacts.json"), "{}")
	put(t, filepath.Join(dir, ".session.lock"), "{}")
	return &bay{t: t, desk: d, job: gitwork.Job{Dir: dir, Scope: "session/demo", Agent: "Coder One", Call: "r1/c1"}}
}

// newBay is a run at work in a station of its own.
func newBay(t *testing.T) (*rig, *bay) {
	t.Helper()
	r := newRig(t)
	return r, r.bay(t, r.desk())
}

type args map[string]any

func (b *bay) try(name string, a args) (json.RawMessage, error) {
	b.t.Helper()
	return b.within(b.t.Context(), name, a)
}

func (b *bay) within(ctx context.Context, name string, a args) (json.RawMessage, error) {
	b.t.Helper()
	input, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.desk.At(b.job).Do(ctx, name, input)
}

// do wants success and decodes the result.
func do[T any](b *bay, name string, a args) T {
	b.t.Helper()
	out, err := b.try(name, a)
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, a, err)
	}
	return decode[T](b.t, out)
}

func decode[T any](t *testing.T, out json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// bad wants an error of a class that says something.
func (b *bay) bad(name string, a args, class tool.Class, want string) {
	b.t.Helper()
	out, err := b.try(name, a)
	if tool.ClassOf(err) != class || err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("%s %v: %s, %v of class %s, want %s with %q", name, a, out, err, tool.ClassOf(err), class, want)
	}
}

func (b *bay) put(name, text string) {
	b.t.Helper()
	put(b.t, filepath.Join(b.job.Dir, name), text)
}

func (b *bay) prepared(a args) gitwork.Prepared {
	b.t.Helper()
	p := do[gitwork.Prepared](b, gitwork.Prepare, a)
	tree := ""
	if p.Commit != "" {
		tree = raw(b.t, b.job.Dir, "rev-parse", p.Commit+"^{tree}")
	}
	if p.Tree != tree {
		b.t.Errorf("commit %s is said to have the tree %s, want %s", p.Commit, p.Tree, tree)
	}
	p.Tree = "" // it was compared
	return p
}

var workspaces gittest.Template

// begun is a workspace that git_prepare made of the remote, with a new branch if one is named. Where the remote is as the
// rig made it, it is a copy of one that was prepared once: most tests are about what comes after.
func (b *bay) begun(r *rig, branch string) {
	b.t.Helper()
	from, prepare := "file:///where/the/remote/is", args{}
	_, err := os.Lstat(filepath.Join(b.job.Dir, ".git"))
	if err == nil || b.job.Ephemeral || !remotes.Holds(r.dir) {
		prepare["url"] = r.url
	} else {
		workspaces.Copy(b.t, b.job.Dir, func(dir string) {
			first := &bay{t: b.t, desk: r.desk(), job: gitwork.Job{Dir: dir, Scope: "session/first", Agent: "Coder One", Call: "r1/c1"}}
			do[gitwork.Prepared](first, gitwork.Prepare, args{"url": r.url})
			rename(b.t, filepath.Join(dir, ".git/config"), r.url, from)
		})
		rename(b.t, filepath.Join(b.job.Dir, ".git/config"), from, r.url)
	}
	if branch != "" {
		prepare["new_branch"] = branch
	}
	if len(prepare) > 0 {
		b.prepared(prepare)
	}
}

// rename replaces a text in a file.
func rename(t *testing.T, path, from, to string) {
	t.Helper()
	text := get(t, path)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q", path, from)
	}
	put(t, path, strings.ReplaceAll(text, from, to))
}

func (b *bay) committed(message string) gitwork.Committed {
	b.t.Helper()
	return do[gitwork.Committed](b, gitwork.Commit, args{"message": message})
}

func (b *bay) published(branch string) gitwork.Published {
	b.t.Helper()
	return do[gitwork.Published](b, gitwork.Publish, args{"branch": branch})
}

// rewrite changes what the station knows of a published branch.
func (r *rig) rewrite(scope, branch string, change func(*events.PublishedBranch)) {
	r.t.Helper()
	rec, _ := r.record(scope, branch)
	rec.Parts = slices.Clone(rec.Parts)
	change(&rec)
	b, err := json.Marshal(rec)
	if err == nil {
		err = r.st.KV(topology.TreeBucket).Put(r.t.Context(), events.BranchKey(scope, branch), b)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// web serves the remote by http. around, if set, stands before the repository.
func (r *rig) web(t *testing.T, around func(next http.Handler) http.Handler) string {
	t.Helper()
	raw(t, r.dir, "config", "http.receivepack", "true")
	var h http.Handler = &cgi.Handler{Path: filepath.Join(raw(t, "/", "--exec-path"), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	if around != nil {
		h = around(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/" + filepath.Base(r.dir)
}

// near lets a git reach this machine by http, and what resolve knows.
func near(resolve map[string]string) func(*git.Config) {
	return func(c *git.Config) {
		c.Protocols = []string{"http"}
		c.Limits.Time = 20 * time.Second
		c.Reach = gitwork.Reach{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if a, ok := resolve[name]; ok {
				return []netip.Addr{netip.MustParseAddr(a)}, nil
			}
			return nil, errors.New("no such host")
		}}.Addresses
	}
}
