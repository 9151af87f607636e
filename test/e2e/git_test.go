package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// gitRaw runs git as a person would.
func gitRaw(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return remote{t: t}.git(append([]string{"-C", dir}, args...)...)
}

// forge is a remote with a main branch and a pull request, served by http on this machine.
type forge struct {
	dir, url string
	// around stands before each request.
	around atomic.Pointer[func(next http.Handler, w http.ResponseWriter, q *http.Request)]
}

func newForge(t *testing.T) *forge {
	t.Helper()
	r := newRemote(t)
	f := &forge{dir: r.dir}
	gitRaw(t, f.dir, "config", "http.receivepack", "true")
	gitRaw(t, f.dir, "update-ref", "refs/pull/7/head", "main")
	backend := &cgi.Handler{Path: filepath.Join(gitRaw(t, "/", "--exec-path"), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(f.dir), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if around := f.around.Load(); around != nil {
			(*around)(backend, w, q)
			return
		}
		backend.ServeHTTP(w, q)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL + "/" + filepath.Base(f.dir)
	return f
}

// nearGit lets a station reach remotes on this machine by http.
func nearGit(c *service.Config) {
	c.GitProtocols, c.GitPrivate, c.GitAuthorName, c.GitAuthorEmail = []string{"http"}, []string{"127.0.0.0/8"}, "The Station", "station@example.com"
}

// doing is a model that does one call after the other; what stands as $COMMIT is the commit of the last result that has
// one.
func doing(t *testing.T, calls ...llm.Call) *received {
	return &received{planned: func(req llm.Request) llm.Answer {
		if req.Meta.Turn > len(calls) {
			return llm.Answer{Text: "done"}
		}
		var last struct{ Commit string }
		for _, m := range req.Messages {
			for _, r := range m.Results {
				_ = json.Unmarshal([]byte(r.Output), &last) // others are no JSON
			}
		}
		c := calls[req.Meta.Turn-1]
		c.ID, c.Input = "a", json.RawMessage(strings.ReplaceAll(string(c.Input), "$COMMIT", last.Commit))
		return llm.Answer{Calls: []llm.Call{c}}
	}}
}

func wants(t *testing.T, name string, input map[string]any) llm.Call {
	t.Helper()
	b, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	return llm.Call{Name: name, Input: b}
}

var gitTools = []string{"git_prepare", "git_branch", "git_commit", "git_push", "git_merge", "git_publish", "write", "bash"}

func TestGitTools(t *testing.T) {
	t.Parallel()
	t.Run("GIT-2 GIT-11 GIT-12 an agent clones, makes a branch, commits and pushes; nothing it cloned is taken for what it made", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = nearGit
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url, "ref": "pull/7/head", "depth": 1}), wants(t, "git_branch", map[string]any{"task": "greet people"}),
			wants(t, "write", map[string]any{"path": "greeting.md", "content": "good morning\n"}), wants(t, "git_commit", map[string]any{"message": "greet"}),
			wants(t, "git_push", map[string]any{"branch": "agent/coder/greet-people", "commit": "$COMMIT", "url": f.url}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start()
		w.task(events.Task{ID: "greets", Agent: "coder", Task: "greet", Session: "s1"})
		w.await("greets", "waiting for a yes to its push", waiting)
		w.approve("greets", "approve")
		s := w.ended("greets")
		if s.Status != events.Completed || s.ToolCallHistory.Len() != 5 {
			t.Fatalf("%+v\n%s", s.Result, w.story("greets"))
		}
		var pushed struct{ URL, Branch, Commit string }
		last := s.ToolCallHistory.At(4)
		if err := json.Unmarshal([]byte(last.Result), &pushed); err != nil || pushed.URL != f.url || pushed.Branch != "agent/coder/greet-people" {
			t.Fatalf("%+v, %v", last, err)
		}
		if got := gitRaw(t, f.dir, "rev-parse", "agent/coder/greet-people"); got != pushed.Commit {
			t.Errorf("the remote has %s, told was %s", got, pushed.Commit)
		}
		if got := gitRaw(t, f.dir, "show", "--format=%an <%ae> %s", "--name-only", pushed.Commit); got != "The Station <station@example.com> greet\n\ngreeting.md" {
			t.Errorf("the commit is %q", got)
		}
		var names []string
		for _, a := range run.All(s.Artifacts) {
			names = append(names, a.Path)
		}
		if all := strings.Join(names, " "); all != "greeting.md" {
			t.Errorf("kept as made by the run: %s", all)
		}
	})
	t.Run("GIT-11 SAFE-12 a remote in a private network is refused, and the agent is told why", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.GitProtocols = []string{"http"} }
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start()
		w.task(events.Task{ID: "denied", Agent: "coder", Task: "clone"})
		s := w.ended("denied")
		if r := s.ToolCallHistory.At(0); r.Code != "denied" || !strings.Contains(r.Result, "INSPAN_GIT_PRIVATE") {
			t.Errorf("%+v", r)
		}
	})
}

// TestGitLost loses the toolrunner after the remote has taken its push and before that was answered.
func TestGitLost(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 TOOL-22 GIT-2 a push whose toolrunner is lost is found at the remote by another, and not made again", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = nearGit
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url, "new_branch": "agent/coder/1"}), wants(t, "write", map[string]any{"path": "a.md", "content": "a\n"}),
			wants(t, "git_commit", map[string]any{"message": "a"}), wants(t, "git_push", map[string]any{"branch": "agent/coder/1", "commit": "$COMMIT", "url": f.url}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		taken, wake := make(chan struct{}), make(chan struct{})
		var pushes atomic.Int32
		var once sync.Once
		around := func(next http.Handler, rw http.ResponseWriter, q *http.Request) {
			if !strings.HasSuffix(q.URL.Path, "/git-receive-pack") {
				next.ServeHTTP(rw, q)
				return
			}
			pushes.Add(1)
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, q)
			once.Do(func() { close(taken) })
			<-wake
			for k, v := range answer.Header() {
				rw.Header()[k] = v
			}
			_, _ = rw.Write(answer.Body.Bytes()) // no one may be there to hear it
		}
		f.around.Store(&around)
		g := &graves{Leases: w.ports.Leases}
		first := g.on(w, "follow", "one")
		release := sync.OnceFunc(func() { close(wake) })
		t.Cleanup(release)
		w.task(events.Task{ID: "pushes", Agent: "coder", Task: "push"})
		w.await("pushes", "waiting for a yes to its push", waiting)
		w.approve("pushes", "approve")
		select {
		case <-taken:
		case <-w.ctx().Done():
			t.Fatal("it was never pushed\n" + w.story("pushes"))
		}
		g.on(w, "follow", "two")
		t.Cleanup(release)
		first.lose()
		s := w.ended("pushes")
		if s.Status != events.Completed {
			t.Fatalf("%+v\n%s", s.Result, w.story("pushes"))
		}
		var pushed struct{ Commit string }
		last := s.ToolCallHistory.At(3)
		if err := json.Unmarshal([]byte(last.Result), &pushed); err != nil || pushed.Commit == "" || pushed.Commit != gitRaw(t, f.dir, "rev-parse", "agent/coder/1") || pushes.Load() != 1 {
			t.Errorf("%+v, %v, pushed %d times", last, err, pushes.Load())
		}
		release()
		first.stop()
		if n := w.state("pushes").Sequence; n != s.Sequence {
			t.Errorf("the lost one said %d events after the end", n-s.Sequence)
		}
	})
}

// TestGitCloneLost loses the toolrunner while it clones.
func TestGitCloneLost(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-7 GIT-11 a clone whose toolrunner is lost is made by another, and its answer is JSON all the same", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = nearGit
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url, "new_branch": "agent/coder/1"}), wants(t, "bash", map[string]any{"command": "cat README.md"}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		begun, wake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		around := func(next http.Handler, rw http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/git-upload-pack") {
				once.Do(func() { close(begun); <-wake })
			}
			next.ServeHTTP(rw, q)
		}
		f.around.Store(&around)
		g := &graves{Leases: w.ports.Leases}
		first := g.on(w, "follow", "one")
		release := sync.OnceFunc(func() { close(wake) })
		t.Cleanup(release)
		w.task(events.Task{ID: "clones", Agent: "coder", Task: "clone"})
		select {
		case <-begun:
		case <-w.ctx().Done():
			t.Fatal("it never began\n" + w.story("clones"))
		}
		first.lose()
		release()
		g.on(w, "follow", "two")
		s := w.ended("clones")
		var p struct {
			Branch, Commit string
			Cloned         bool
		}
		if err := json.Unmarshal([]byte(s.ToolCallHistory.At(0).Result), &p); err != nil || p.Branch != "agent/coder/1" || !p.Cloned || p.Commit != gitRaw(t, f.dir, "rev-parse", "main") {
			t.Errorf("%+v, %v", s.ToolCallHistory.At(0), err)
		}
		if told := s.ToolCallHistory.At(1).Result; !strings.Contains(told, "# project") || !strings.Contains(told, "machine that held this workspace was lost") {
			t.Errorf("the next call was told %q", told)
		}
	})
}

func TestGitKept(t *testing.T) {
	t.Parallel()
	t.Run("GIT-10 WS-5 what was not pushed is kept when the workspace of a run goes", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = func(c *service.Config) {
			nearGit(c)
			c.CleanupOnComplete = true
		}
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url, "new_branch": "agent/coder/1"}), wants(t, "write", map[string]any{"path": "a.md", "content": "a\n"}),
			wants(t, "git_commit", map[string]any{"message": "a"}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g := &graves{Leases: w.ports.Leases}
		m := g.on(w, "follow", "one")
		w.task(events.Task{ID: "first", Agent: "coder", Task: "commit"})
		s := w.ended("first")
		var done struct{ Commit string }
		if err := json.Unmarshal([]byte(s.ToolCallHistory.At(2).Result), &done); err != nil || s.Status != events.Completed {
			t.Fatalf("%+v, %v", s.Result, err)
		}
		w.treeUntil("run/first", "gone with its directory", func(r workspace.Record) bool {
			left, err := filepath.Glob(filepath.Join(m.root, ".trees", "*", "*", "tree"))
			return err == nil && len(left) == 0 && r.Owner == "" && r.Snapshot == "" && r.Fence > 0
		})
		if kept := w.branches("run/first"); kept["agent/coder/1"].Commit != done.Commit {
			t.Errorf("kept are %+v, want %s", kept, done.Commit)
		}
	})
}
