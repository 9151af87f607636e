package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/workspace"
	"github.com/inspan/inspan/pkg/events"
)

// branches are what is published in a scope, by name.
func (w *world) branches(scope string) map[string]events.PublishedBranch {
	w.t.Helper()
	keys, err := w.ports.Trees.Keys(w.ctx(), events.BranchKeysOf(scope))
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]events.PublishedBranch{}
	for _, k := range keys {
		var rec events.PublishedBranch
		b, err := w.ports.Trees.Get(w.ctx(), k)
		if err == nil {
			err = json.Unmarshal(b, &rec)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		all[rec.Branch] = rec
	}
	return all
}

// fetch takes a published branch into a new clone of the remote as a person does, as the branch got.
func (w *world) fetch(from string, rec events.PublishedBranch) (clone string) {
	w.t.Helper()
	clone = filepath.Join(w.t.TempDir(), "clone")
	gitRaw(w.t, "/", "clone", "-q", from, clone)
	f, err := os.Create(clone + ".bundle")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, part := range rec.Parts {
		b, err := w.ports.Blobs.Get(w.ctx(), part)
		if err == nil {
			_, err = f.Write(b)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	gitRaw(w.t, clone, "fetch", "-q", f.Name(), rec.Branch+":got")
	return clone
}

// until waits for a condition.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := w.ctx()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("never %s", what)
		}
	}
}

// cutter is the log of workspaces of a process that is killed when it would say that nothing is kept of one.
type cutter struct {
	kernel.Journal
	dead atomic.Bool
	once sync.Once
	cut  chan struct{}
}

func (c *cutter) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if e.Kind == events.WorkspaceForgotten {
		c.dead.Store(true)
		c.once.Do(func() { close(c.cut) })
	}
	if c.dead.Load() {
		return kernel.Ack{Outcome: kernel.Full, Err: errors.New("the process is gone")}
	}
	return c.Journal.Append(ctx, e)
}

func TestGitRescued(t *testing.T) {
	t.Parallel()
	t.Run("GIT-10 C17 WS-5 SAFE-7 the work of a run that is stopped is published before its workspace goes, also where the machine is killed between the two", func(t *testing.T) {
		t.Parallel()
		f := newForge(t)
		w := newWorld(t)
		w.tune = func(c *service.Config) {
			nearGit(c)
			c.CleanupOnComplete = true
		}
		w.ports.Models = doing(t, wants(t, "git_prepare", map[string]any{"url": f.url, "new_branch": "agent/coder/1"}), wants(t, "write", map[string]any{"path": "a.md", "content": "a\n"}),
			wants(t, "git_commit", map[string]any{"message": "a"}), wants(t, "write", map[string]any{"path": "b.md", "content": "b\n"}),
			wants(t, "git_push", map[string]any{"branch": "agent/coder/1", "commit": "$COMMIT", "url": f.url}))
		w.agent(events.Agent{Name: "coder", Model: "heard/x", Tools: gitTools}, "")
		w.start(events.Planner, events.Gatekeeper, events.Executor)
		g, whole := &graves{Leases: w.ports.Leases}, w.ports.TreeLog
		c := &cutter{Journal: whole, cut: make(chan struct{})}
		w.ports.TreeLog = c
		first := g.on(w, "follow", "one")
		w.ports.TreeLog = whole
		w.task(events.Task{ID: "first", Agent: "coder", Task: "push"})
		w.await("first", "waiting for a yes to its push", waiting)
		w.publish(events.ControlSubject("test", "first"), `{"action":"stop"}`)
		if s := w.ended("first"); s.Status == events.Completed {
			t.Fatalf("%+v", s.Result)
		}
		select {
		case <-c.cut:
		case <-w.ctx().Done():
			t.Fatal("its workspace was never given up\n" + w.story("first"))
		}
		first.lose()
		kept := w.branches("run/first")
		var names []string
		for name := range kept {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) != 2 || names[0] != "agent/coder/1" || !strings.HasPrefix(names[1], "rescued/changes-") {
			t.Fatalf("kept are %v", names)
		}
		clone := w.fetch(f.dir, kept[names[1]])
		if got := gitRaw(t, clone, "show", "got:b.md"); got != "b" || gitRaw(t, clone, "rev-parse", "got^") != kept["agent/coder/1"].Commit {
			t.Errorf("got %q", got)
		}
		g.on(w, "follow", "two")
		w.task(events.Task{ID: "second", Agent: "coder", Task: "push"})
		w.await("second", "waiting for a yes to its push", waiting)
		w.approve("second", "approve")
		w.ended("second")
		w.treeUntil("run/second", "gone", func(r workspace.Record) bool { return r.Owner == "" && r.Snapshot == "" })
		now := w.branches("run/first")
		for _, name := range names {
			if now[name].Commit != kept[name].Commit {
				t.Errorf("%s was at %s and is at %s", name, kept[name].Commit, now[name].Commit)
			}
		}
	})
	for _, mode := range []string{"local", "follow"} {
		t.Run("SESS-6 GIT-10 what was not pushed of a session is kept where the session is deleted, apart from the next of its name: "+mode, func(t *testing.T) {
			t.Parallel()
			w, r := gitWorld(t), newRemote(t)
			w.agent(events.Agent{Name: "coder", Tools: []string{"write"}}, writes("hello.txt", "hello"))
			w.agent(events.Agent{Name: "nests", Tools: []string{"bash"}}, `
turns:
  - when: {turn: 1}
    calls: [{name: bash, input: {command: "git init -q inner && printf x > inner/x"}}]
  - when: {turn: 2}
    text: "Nested."
`)
			w.start(events.Planner, events.Gatekeeper, events.Executor)
			m := (&graves{Leases: w.ports.Leases}).on(w, mode, "one")
			no := false
			quiet := func() *events.TaskGit { return &events.TaskGit{GitSettings: events.GitSettings{Push: &no}} }
			for session, agent := range map[string]string{"plain": "coder", "nested": "nests"} {
				w.task(events.Task{ID: session, Agent: agent, Task: "do it", Session: session, Repo: r.url(), Git: quiet()})
			}
			ends := map[string]string{}
			for _, session := range []string{"plain", "nested"} {
				s := w.ended(session)
				if s.Status != events.Completed {
					t.Fatalf("%+v\n%s", s.Result, w.story(session))
				}
				ends[session] = s.Result.Delivery.Commit
				e := w.sessionOf(session, "free", func(e events.Session) bool { return len(e.Holders) == 0 })
				w.publish(events.SessionSubject("test", session), `{"action":"delete"}`)
				w.publish(events.SweepSubject("test", session), `{}`)
				scope := events.DeletedScope(events.Session{ID: session, Born: e.Fence + 1})
				if mode == "follow" {
					w.treeUntil("session/"+session, "gone", func(r workspace.Record) bool { return r.Owner == "" && r.Snapshot == "" })
				}
				w.until("cleared", func() bool {
					_, err := os.Lstat(filepath.Join(m.root, "session", session))
					return os.IsNotExist(err)
				})
				if session == "plain" {
					rec := w.branches(scope)["agent/plain.session"]
					if rec.Commit != ends[session] || rec.Until.IsZero() || len(w.branches("session/plain")) != 0 {
						t.Fatalf("%s has %+v, want %s", scope, rec, ends[session])
					}
					if got := gitRaw(t, w.fetch(r.dir, rec), "show", "got:hello.txt"); got != "hello" {
						t.Errorf("got %q", got)
					}
					continue
				}
				left, err := filepath.Glob(filepath.Join(m.root, ".left", "deleted=nested=*", "inner", "x"))
				if err != nil || len(left) != 1 {
					t.Errorf("put aside is %v, %v", left, err)
				}
			}
			w.task(events.Task{ID: "anew", Agent: "coder", Task: "do it", Session: "plain", Repo: r.url(), Git: quiet()})
			if s := w.ended("anew"); s.Status != events.Completed || s.Result.Delivery.Base != r.at("main") || s.Result.Delivery.Commit == s.Result.Delivery.Base {
				t.Errorf("%+v %+v", s.Result, s.Result.Delivery)
			}
		})
	}
}
