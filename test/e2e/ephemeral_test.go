package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/gitwork"
	"github.com/inspan/inspan/internal/sandbox"
	"github.com/inspan/inspan/internal/sandbox/bwrap"
	"github.com/inspan/inspan/internal/sandbox/docker"
	"github.com/inspan/inspan/internal/sandbox/gvisor"
	"github.com/inspan/inspan/internal/sandbox/landlock"
	"github.com/inspan/inspan/internal/sandbox/launch"
	"github.com/inspan/inspan/internal/sandbox/pool"
	"github.com/inspan/inspan/internal/sandbox/sandboxtest"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/tool"
)

// ephemeral are the settings of runs that borrow, commit and need no yes.
func ephemeral(push bool) *events.GitSettings {
	no, yes := false, true
	return &events.GitSettings{Workspace: events.WorkspaceEphemeral, AutoCommit: &yes, RequireApproval: &no, Push: &push}
}

// downloads counts how often a remote is asked for objects.
func (f *forge) downloads() *atomic.Int32 {
	var n atomic.Int32
	around := func(next http.Handler, w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		plain := body
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			if text, err := io.ReadAll(z); err == nil {
				plain = text
			}
		}
		if strings.HasSuffix(q.URL.Path, "/git-upload-pack") && bytes.Contains(plain, []byte("want ")) {
			n.Add(1)
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, q)
	}
	f.around.Store(&around)
	return &n
}

// gone waits until the workspace of a run is not there any more, nor anything that says it borrows.
func (w *world) gone(root, path string) {
	w.t.Helper()
	w.until("gone: "+path, func() bool {
		_, err := os.Lstat(filepath.Join(root, path))
		left, err2 := filepath.Glob(filepath.Join(root, gitwork.MirrorsDir, ".loans", "*", "loan.json"))
		for _, at := range left {
			if b, err := os.ReadFile(at); err == nil && bytes.Contains(b, []byte(`"`+path+`"`)) {
				return false
			}
		}
		return os.IsNotExist(err) && err2 == nil
	})
}

func TestEphemeralRuns(t *testing.T) {
	t.Parallel()
	t.Run("WS-14 GIT-11 WS-5 of two runs on one remote the second downloads nothing, both deliver, and both workspaces go", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		n := f.downloads()
		w := newWorld(t)
		w.tune = nearGit
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		w.agent(events.Agent{Name: "sender", Tools: []string{"write"}, Git: ephemeral(true)}, writes("hello.txt", "hello"))
		w.agent(events.Agent{Name: "breaks", Tools: []string{"write"}, MaxSteps: 1, Git: ephemeral(false)}, writes("half.txt", "half"))
		w.start()
		root := filepath.Join(w.dir, "work")
		for _, id := range []string{"first", "second"} {
			w.task(events.Task{ID: id, Agent: "coder", Task: "say hello", Repo: f.url})
			s := w.ended(id)
			if d := s.Result.Delivery; s.Status != events.Completed || d == nil || d.Commit == "" || d.Bundle == "" || d.Branch != "agent/coder/"+id {
				t.Fatalf("%+v\n%s", s.Result, w.story(id))
			}
			if r := s.ToolCallHistory.At(0); !strings.Contains(r.Result, `"ephemeral":true`) {
				t.Errorf("%s was told %s", id, r.Result)
			}
			w.gone(root, "run/"+id)
			if got := n.Load(); got != 1 {
				t.Errorf("after %s objects were asked for %d times, want once", id, got)
			}
			if _, err := w.ports.Trees.Get(w.ctx(), events.BranchKey("run/"+id, "agent/coder/"+id)); err != nil {
				t.Errorf("the branch of %s is not kept: %v", id, err)
			}
		}
		letters := w.letters()
		w.task(events.Task{ID: "refork", ForkOf: &events.ForkPoint{Run: "first", Sequence: 4, SameWorkspace: true}})
		if d := w.letter(letters); d.Code != "bad_fork" || !strings.Contains(d.Reason, "ephemeral") {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "third", Agent: "sender", Task: "say hello", Repo: f.url})
		if s := w.ended("third"); s.Status != events.Completed || !s.Result.Delivery.Pushed || gitRaw(t, f.dir, "rev-parse", "agent/sender/third") != s.Result.Delivery.Commit {
			t.Errorf("%+v\n%s", s.Result, w.story("third"))
		}
		w.gone(root, "run/third")
		w.task(events.Task{ID: "fourth", Agent: "breaks", Task: "begin", Repo: f.url})
		if s := w.ended("fourth"); s.Status != events.Failed {
			t.Errorf("%+v", s.Result)
		}
		w.gone(root, "run/fourth")
		if _, err := w.ports.Trees.Get(w.ctx(), events.BranchKey("run/fourth", "agent/breaks/fourth")); err != nil {
			t.Errorf("the work of a run that failed is not kept: %v", err)
		}
	})
	t.Run("WS-14 what a toolrunner left that was lost is taken away by the next one", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t)
		w := gitWorld(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		hears := w.ports.Ports
		w.ports.SubscribeRepublished = nil // no one hears of the end
		rest := w.start(events.Planner, events.Gatekeeper, events.Executor, events.Persister)
		first := w.start(events.Toolrunner)
		w.task(events.Task{ID: "left", Agent: "coder", Task: "say hello", Repo: r.url()})
		w.task(events.Task{ID: "part", Agent: "coder", Task: "say hello", Repo: r.url(), WorkflowRun: "wf"})
		for _, id := range []string{"left", "part"} {
			if s := w.ended(id); s.Status != events.Completed {
				t.Fatalf("%+v\n%s", s.Result, w.story(id))
			}
		}
		first.stop()
		root := filepath.Join(w.dir, "work")
		if _, err := os.Lstat(filepath.Join(root, "run/left/hello.txt")); err != nil {
			t.Fatalf("it went too early: %v", err)
		}
		w.ports.Ports = hears
		second := w.start(events.Toolrunner)
		w.gone(root, "run/left")
		w.task(events.Task{ID: "after", Agent: "coder", Task: "say hello", Repo: r.url()})
		w.ended("after")
		w.gone(root, "run/after") // it was looked through more than once
		if _, err := os.Lstat(filepath.Join(root, "workflow/wf/hello.txt")); err != nil {
			t.Errorf("what a workflow shares went with a run: %v", err)
		}
		second.stop()
		tune := w.tune
		w.tune = func(c *service.Config) { tune(c); c.CleanupAfter = time.Nanosecond }
		w.start(events.Toolrunner)
		w.gone(root, "workflow/wf")
		rest.stop()
	})
	t.Run("WS-14 toolrunners that share a volume take a workspace away once", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t)
		w := gitWorld(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g := &graves{Leases: w.ports.Leases}
		m := g.on(w, "shared", "one")
		g.on(w, "shared", "one")
		for _, id := range []string{"a", "b"} {
			w.task(events.Task{ID: id, Agent: "coder", Task: "say hello", Repo: r.url()})
			if s := w.ended(id); s.Status != events.Completed || s.Result.Delivery.Bundle == "" {
				t.Fatalf("%+v\n%s", s.Result, w.story(id))
			}
			w.gone(m.root, "run/"+id)
		}
	})
	t.Run("WS-14 SBX-20 where workspaces follow their runs it is refused before a model is asked", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t)
		w := gitWorld(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		(&graves{Leases: w.ports.Leases}).on(w, "follow", "one")
		w.task(events.Task{ID: "no", Agent: "coder", Task: "say hello", Repo: r.url()})
		s := w.ended("no")
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishCheckout || !strings.Contains(s.Result.Error, "INSPAN_WORKSPACE_MODE=follow") || s.ModelTurns() != 0 {
			t.Errorf("%+v\n%s", s.Result, w.story("no"))
		}
	})
	t.Run("WS-14 a task with a depth is refused, and one of an unknown word", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t)
		w := gitWorld(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		letters := w.letters()
		w.start()
		w.task(events.Task{ID: "deep", Agent: "coder", Task: "x", Repo: r.url(), Depth: 1})
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "remove depth") {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "odd", Agent: "coder", Task: "x", Repo: r.url(), Git: &events.TaskGit{GitSettings: events.GitSettings{Workspace: "light"}}})
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "want persistent or ephemeral") {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "full", Agent: "coder", Task: "x", Repo: r.url(), Depth: 1, Git: &events.TaskGit{GitSettings: events.GitSettings{Workspace: events.WorkspacePersistent}}})
		if s := w.ended("full"); s.Status != events.Completed {
			t.Errorf("%+v", s.Result)
		}
		if _, err := os.Lstat(filepath.Join(w.dir, "work/run/full/hello.txt")); err != nil {
			t.Errorf("a persistent one went: %v", err)
		}
	})
	t.Run("WS-14 SESS-1 the tree of a session stays, and its next run finds it", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t)
		w := gitWorld(t)
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Git: ephemeral(false)}, writes("hello.txt", "hello"))
		w.start()
		for _, id := range []string{"one", "two"} {
			w.task(events.Task{ID: id, Agent: "coder", Task: "say hello", Repo: r.url(), Session: "team"})
			if s := w.ended(id); s.Status != events.Completed || s.Result.Delivery.Branch != "agent/team.session" {
				t.Fatalf("%+v\n%s", s.Result, w.story(id))
			}
			if _, err := os.Lstat(filepath.Join(w.dir, "work/session/team/.git/objects/info/alternates")); err != nil {
				t.Errorf("after %s: %v", id, err)
			}
		}
	})
}

// insideScript works with git as an agent would, and then tries what it may not.
const insideScript = `
m=$(cat .git/objects/info/alternates)
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git log --format=subject:%s && git fsck --strict && echo x > x.txt && git add x.txt && git commit -qm mine && git diff --stat HEAD~1 && git show HEAD~1:README.md && echo COMMITTED
for f in "$m"/pack/*; do
	(echo bad >> "$f") 2>/dev/null && echo WROTE
	rm -f "$f" 2>/dev/null && echo REMOVED
	mv "$f" "$f.x" 2>/dev/null && echo MOVED
done
touch "$m/new" 2>/dev/null && echo MADE
mkdir "$m/info" 2>/dev/null && echo MADE
cat "$m/../HEAD" "$m/../../about.json" 2>/dev/null && echo READ
cat "$m"/../../../*/about.json 2>/dev/null && echo READ
for d in "$m"/../../../*/; do [ ! -e "$d" ] || [ "$d" -ef "$m/../.." ] || echo "OTHER $d"; done
git gc -q
git log --format=%s | grep -q begin && echo TRIED
`

// TestEphemeralWalls lets an agent work with git inside of its sandbox on objects that it borrows.
func TestEphemeralWalls(t *testing.T) {
	t.Parallel()
	for _, backend := range []sandbox.Backend{bwrap.New("", ""), landlock.New([]string{"/proc/self/exe", launch.Word}, ""),
		docker.New(engine()), gvisor.New(gvisor.Config{Program: os.Getenv("INSPAN_GVISOR"), Base: t.TempDir()})} {
		t.Run("WS-14 SBX-1 behind "+string(backend.Mode())+" an agent reads what it borrows, commits on top of it, changes none of it and sees no other mirror", func(t *testing.T) {
			t.Parallel()
			sandboxtest.Need(t, backend)
			r, other := newRemote(t), newRemote(t)
			w := gitWorld(t)
			root := filepath.Join(w.dir, "work")
			sandboxes, err := pool.NewOpener(pool.Config{Root: root, Default: backend.Mode(), Least: backend.Mode(), Backends: map[sandbox.Mode]sandbox.Backend{backend.Mode(): backend}})
			if err != nil {
				t.Fatal(err)
			}
			w.ports.Sandboxes = sandboxes
			tries := &probe{name: "tries", effect: tool.Once, do: func(ctx context.Context, _ int64, c tool.Call) (tool.Result, error) {
				var out bytes.Buffer
				_, err := c.Env.Sandbox.Exec(ctx, sandbox.Cmd{Args: []string{"sh", "-c", insideScript}, Stdout: &out, Stderr: &out})
				return tool.Result{Output: out.String()}, err
			}}
			w.tools = append(w.tools, tries)
			w.agent(events.Agent{Name: "walled", Tools: []string{"tries"}, Git: ephemeral(false)}, calling("tries", "{}"))
			w.start()
			w.task(events.Task{ID: "before", Agent: "walled", Task: "go", Repo: other.url()})
			w.ended("before")
			w.task(events.Task{ID: "walled", Agent: "walled", Task: "go", Repo: r.url()})
			s := w.ended("walled")
			if s.Status != events.Completed || s.ToolCallHistory.Len() < 2 {
				t.Fatalf("%+v\n%s", s.Result, w.story("walled"))
			}
			out := s.ToolCallHistory.At(1).Result
			for _, good := range []string{"subject:begin", "# project", "COMMITTED", "TRIED"} {
				if !strings.Contains(out, good) {
					t.Errorf("no %s: %q", good, out)
				}
			}
			for _, bad := range []string{"WROTE", "REMOVED", "MOVED", "MADE", "READ", "OTHER", other.dir} {
				if strings.Contains(out, bad) {
					t.Errorf("%s: %q", bad, out)
				}
			}
			w.gone(root, "run/walled")
			mirrors, err := filepath.Glob(filepath.Join(root, gitwork.MirrorsDir, "*", ".git"))
			if err != nil || len(mirrors) != 2 {
				t.Fatalf("%v %v", mirrors, err)
			}
			for _, m := range mirrors {
				gitRaw(t, filepath.Dir(m), "fsck", "--strict")
			}
		})
	}
}
