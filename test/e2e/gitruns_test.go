package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/delivery"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// writes is a model that writes a file and says so.
func writes(path, content string) string {
	return `
turns:
  - when: {turn: 1}
    text: I write it.
    calls:
      - {name: write, input: {path: ` + path + `, content: "` + content + `"}}
  - when: {turn: 2}
    text: "Written."
`
}

// remote is a bare repository of this machine with one commit on main.
type remote struct {
	t   testing.TB
	dir string
}

func newRemote(t testing.TB) remote {
	t.Helper()
	r := remote{t, filepath.Join(t.TempDir(), "project.git")}
	seed := filepath.Join(t.TempDir(), "seed")
	r.git("init", "--quiet", "--bare", "--initial-branch=main", r.dir)
	r.git("init", "--quiet", "--initial-branch=main", seed)
	if err := os.WriteFile(filepath.Join(seed, "README.md"), []byte("# project\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.git("-C", seed, "add", ".")
	r.git("-C", seed, "commit", "--quiet", "-m", "begin")
	r.git("-C", seed, "push", "--quiet", r.dir, "main")
	return r
}

func (r remote) url() string { return "file://" + r.dir }

// git runs the program and returns what it prints, without the last line break.
func (r remote) git(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (r remote) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=anna", "GIT_AUTHOR_EMAIL=anna@example.com",
		"GIT_COMMITTER_NAME=anna", "GIT_COMMITTER_EMAIL=anna@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// at is the commit of a branch, "" where the remote has none of that name.
func (r remote) at(branch string) string {
	out, err := r.try("-C", r.dir, "rev-parse", "--quiet", "--verify", "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return out
}

// gitWorld is a station whose toolrunners may reach repositories of this machine.
func gitWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.tune = func(c *service.Config) { c.GitProtocols, c.GitHosts = []string{"file"}, []string{"*"} }
	return w
}

func (w *world) approve(runID, decision string) {
	w.t.Helper()
	g := w.opened(runID)
	w.publish(g.AnswerSubject+".anna", `{"decision":"`+decision+`","reason":"seen","proposal_hash":"`+g.ProposalHash+`"}`)
}

func commits() *events.TaskGit {
	yes := true
	return &events.TaskGit{GitSettings: events.GitSettings{AutoCommit: &yes}}
}

func TestGitDelivery(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	fast := 1
	coder := events.Agent{Name: "coder", Tools: []string{"write"}, Retry: events.Retry{MaxRetries: &fast, BaseBackoffMS: 1}, MaxToolCalls: 1}
	w.agent(coder, writes("hello.txt", "hello"))
	no := false
	w.agent(events.Agent{Name: "trusted", Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes("hello.txt", "hello"))
	w.agent(events.Agent{Name: "breaks", Tools: []string{"write"}, MaxSteps: 1}, writes("half.txt", "half"))
	w.agent(events.Agent{Name: "pusher", Tools: []string{"git_commit", "git_push", "write"}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: git_push, input: {branch: main, commit: "`+r.at("main")+`", to: elsewhere}}
  - when: {turn: 2}
    text: "Result: {{result.1}}"
`)
	yes := true
	w.agent(events.Agent{Name: "strict", Tools: []string{"git_push"}, Git: &events.GitSettings{RequireApproval: &yes}}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: git_push, input: {branch: main, commit: "`+r.at("main")+`", to: here}}
  - when: {turn: 2}
    text: "Pushed."
`)
	w.start()
	five := 5

	t.Run("GIT-1 GIT-2 GIT-10 GIT-11 GATE-13 C18 TEST-10 a repository is cloned, the work committed, and pushed once a person approved that very commit", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.task(events.Task{ID: "yes", Agent: "coder", Task: "say hello", Repo: r.url(), Branch: "main", Git: commits(), Autonomy: &five})
		s := w.await("yes", "waiting", waiting)
		g := w.opened("yes")
		d := delivery.Of(s)
		if g.Rule != delivery.RuleApproval || g.Step != events.DeliverStep || !strings.Contains(string(g.Proposal), d.Commit) || d.Commit == "" || r.at("agent/coder/yes") != "" {
			t.Fatalf("%+v, %+v", g, d)
		}
		w.approve("yes", "approve")
		s = w.ended("yes")
		d = s.Result.Delivery
		if s.Status != events.Completed || s.Result.Output != "Written." || d == nil || !d.Pushed || d.Branch != "agent/coder/yes" || d.RemoteBranch != d.Branch || d.Bundle == "" {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("yes"))
		}
		if got := r.at(d.Branch); got != d.Commit || d.Base != r.at("main") {
			t.Errorf("the remote has %s at %s, told is %s off %s", d.Branch, got, d.Commit, d.Base)
		}
		if got := r.git("-C", r.dir, "show", d.Commit+":hello.txt"); got != "hello" {
			t.Errorf("%q", got)
		}
		if log := r.git("-C", r.dir, "log", "-1", "--format=%B", d.Commit); !strings.Contains(log, "say hello") || !strings.Contains(log, "yes") {
			t.Errorf("%q", log)
		}
		if s.TotalToolCalls != 1 || s.Result.ToolCallCount != 1 || s.Result.TotalSteps != 2 {
			t.Errorf("%d calls and %d turns are counted: those of the harness are not the agent's", s.TotalToolCalls, s.Result.TotalSteps)
		}
	})
	t.Run("GATE-13 a no ends the delivery as told and not the run, which is not paused; the work is kept", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.task(events.Task{ID: "no", Agent: "coder", Task: "say hello", Repo: r.url(), Git: commits()})
		w.await("no", "waiting", waiting)
		w.approve("no", "reject")
		s := w.ended("no")
		d := s.Result.Delivery
		if s.Status != events.Completed || d.Pushed || d.Bundle == "" || !strings.Contains(d.Note, "anna rejected it: seen") || r.at("agent/coder/no") != "" || w.count("no")["run.paused"] != 0 {
			t.Errorf("%s %+v\n%s", s.Status, d, w.story("no"))
		}
	})
	t.Run("GIT-11 what cannot be checked out fails the run with its reason before any model is asked", func(t *testing.T) {
		w := w.on(t)
		for id, task := range map[string]events.Task{"gone": {Repo: r.url() + "-gone"}, "nobranch": {Repo: r.url(), Branch: "nothing"}, "protocol": {Repo: "https://127.0.0.1/x"}} {
			task.ID, task.Agent, task.Task = id, "coder", "say hello"
			w.task(task)
			s := w.ended(id)
			if s.Status != events.Failed || s.Result.FinishReason != events.FinishCheckout || !strings.Contains(s.Result.Error, "git_prepare") || s.ModelTurns() != 0 || s.Step("step-1").Status != events.StepIsBlocked || s.Step(events.DeliverStep).Status != events.StepIsBlocked {
				t.Errorf("%s: %s %+v", id, s.Status, s.Result)
			}
		}
	})
	t.Run("GIT-10 C25 a run that fails delivers nothing, and what it did is committed and kept", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.task(events.Task{ID: "half", Agent: "breaks", Task: "say half", Repo: r.url(), Git: commits()})
		s := w.ended("half")
		d := s.Result.Delivery
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishMaxSteps || d == nil || d.Pushed || d.Bundle == "" || d.Commit == d.Base || !strings.Contains(d.Note, "not complete") || r.at(d.Branch) != "" || w.count("half")["gate.opened"] != 0 {
			t.Errorf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("half"))
		}
	})
	t.Run("GATE-13 C18 SAFE-9 an agent's own push needs the same yes, whatever its autonomy", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.task(events.Task{ID: "own", Agent: "pusher", Task: "push it", Repo: r.url(), Autonomy: &five})
		w.await("own", "waiting", waiting)
		if g := w.opened("own"); g.Rule != delivery.RuleApproval || g.Step != "step-1" || r.at("elsewhere") != "" {
			t.Fatalf("%+v", g)
		}
		w.approve("own", "approve")
		if s := w.ended("own"); s.Status != events.Completed || r.at("elsewhere") != r.at("main") {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("GATE-13 require_approval can be switched off in an agent's file, and not by a task", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		git, no := commits(), false
		git.RequireApproval = &no
		letters := w.letters()
		w.task(events.Task{ID: "loose", Agent: "coder", Task: "say hello", Repo: r.url(), Git: git})
		if d := w.letter(letters); !strings.Contains(d.Reason, "cannot switch it off") {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "free", Agent: "trusted", Task: "say hello", Repo: r.url(), Git: git})
		if s := w.ended("free"); s.Status != events.Completed || !s.Result.Delivery.Pushed || len(s.Gates) != 0 || r.at("agent/trusted/free") != s.Result.Delivery.Commit {
			t.Errorf("%+v %+v", s.Result, s.Gates)
		}
	})
	t.Run("GIT-13 the settings of a task hold for all steps of its run, also of agents whose files say otherwise, and for no other run", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		git, no := commits(), false
		git.RequireApproval = &no
		plan := &events.TaskPlan{Steps: []events.TaskStep{{ID: "a", Description: "write it"}, {ID: "b", Description: "push it", Agent: "strict", Needs: []string{"a"}}}}
		w.task(events.Task{ID: "all", Agent: "trusted", Task: "say hello", Plan: plan, Repo: r.url(), Git: git, MaxToolCalls: &five})
		if s := w.ended("all"); s.Status != events.Completed || len(s.Gates) != 0 || r.at("here") != r.at("main") {
			t.Errorf("%+v %+v", s.Result, s.Gates)
		}
		w.task(events.Task{ID: "again", Agent: "strict", Task: "push it", Repo: r.url()})
		if w.await("again", "waiting", waiting); w.opened("again").Rule != delivery.RuleApproval {
			t.Error("the agent's own settings do not hold again")
		}
	})
	t.Run("GIT-3 C17 without auto_commit nothing is committed, and the delivery says that nothing is new", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "plain", Agent: "coder", Task: "say hello", Repo: r.url()})
		if s := w.ended("plain"); s.Status != events.Completed || s.Result.Delivery.Commit != s.Result.Delivery.Base || s.Result.Delivery.Pushed || !strings.Contains(s.Result.Delivery.Note, "no new commits") {
			t.Errorf("%+v %+v", s.Result, s.Result.Delivery)
		}
	})
	t.Run("GATE-13 a remote that has moved on refuses, which fails the run, told, and both sides are kept", func(t *testing.T) {
		w, r := w.on(t), newRemote(t)
		w.task(events.Task{ID: "refused", Agent: "coder", Task: "say hello", Repo: r.url(), Git: commits()})
		w.await("refused", "waiting", waiting)
		others := r.git("-C", r.dir, "commit-tree", "main^{tree}", "-p", "main", "-m", "somebody else was faster")
		r.git("-C", r.dir, "update-ref", "refs/heads/agent/coder/refused", others)
		w.approve("refused", "approve")
		s := w.ended("refused")
		d := s.Result.Delivery
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishDelivery || d.Pushed || d.Bundle == "" || !strings.Contains(s.Result.Error, "git_push") || s.Result.Output != "Written." || r.at("agent/coder/refused") != others {
			t.Errorf("%s %+v %+v", s.Status, s.Result, d)
		}
	})
}

// TestGitAgain looks at runs in git once they are over: their decisions are made again, and one is forked.
func TestGitAgain(t *testing.T) {
	t.Parallel()
	w, r, no := gitWorld(t), newRemote(t), false
	w.agent(events.Agent{Name: "coder", Tools: []string{"write"}}, writes("hello.txt", "hello")+"  - when: {turn: 3}\n    text: \"More.\"\n")
	w.agent(events.Agent{Name: "breaks", Tools: []string{"write"}, MaxSteps: 1}, writes("half.txt", "half"))
	w.agent(events.Agent{Name: "trusted", Tools: []string{"write"}, Git: &events.GitSettings{RequireApproval: &no}}, writes("hello.txt", "hello"))
	w.start()
	free := commits()
	free.RequireApproval = &no
	for id, task := range map[string]events.Task{"gated": {Git: commits()}, "denied": {Git: commits()}, "open": {Agent: "trusted", Git: free}, "gone": {Branch: "nothing"}, "half": {Agent: "breaks", Git: commits()}} {
		task.ID, task.Task, task.Repo = id, "say hello", r.url()
		if task.Agent == "" {
			task.Agent = "coder"
		}
		w.task(task)
	}
	for id, decision := range map[string]string{"gated": "approve", "denied": "reject"} {
		w.await(id, "waiting", waiting)
		w.approve(id, decision)
	}
	for _, id := range []string{"gated", "denied", "open", "gone", "half"} {
		w.ended(id)
	}
	t.Run("PLUS-6 GIT-10 the decisions of runs in git are made again as they were", func(t *testing.T) {
		for _, id := range []string{"gated", "denied", "open", "gone", "half"} {
			if p := replayed(t, lawOf(t, events.GateTerms{}), w.log(id)); !p.OK() || p.Decided == 0 || p.Decided+p.Taken != int(p.Events) { //nolint:gosec // a small number
				t.Errorf("%s: %+v", id, p)
			}
		}
	})
	t.Run("PLUS-1 GIT-14 a fork begins with the commit that the run had there, and delivers it on a branch of its own", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		old := w.state("denied") // its work was published and not pushed
		w.task(events.Task{ID: "later", ForkOf: &events.ForkPoint{Run: "denied", Sequence: old.Sequence}, Say: "go on"})
		w.await("later", "waiting", waiting)
		if g := w.opened("later"); !strings.Contains(string(g.Proposal), "agent/coder/denied.later") {
			t.Errorf("asked is %s", g.Proposal)
		}
		w.approve("later", "approve")
		s := w.ended("later")
		d, was := s.Result.Delivery, old.Result.Delivery
		if s.Status != events.Completed || !d.Pushed || d.Base != was.Base || r.at(d.Branch) != d.Commit {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("later"))
		}
		r.git("-C", r.dir, "merge-base", "--is-ancestor", was.Commit, d.Commit)
	})
	t.Run("PLUS-1 GIT-11 a fork whose commit is nowhere any more does not begin elsewhere, and says what to do", func(t *testing.T) {
		w := w.on(t)
		for name := range w.branches("run/half") {
			if err := w.ports.Trees.Delete(w.ctx(), events.BranchKey("run/half", name)); err != nil {
				t.Fatal(err)
			}
		}
		w.task(events.Task{ID: "lost", ForkOf: &events.ForkPoint{Run: "half", Sequence: w.state("half").Sequence}, Say: "go on"})
		if s := w.ended("lost"); s.Status != events.Failed || s.Result.FinishReason != events.FinishCheckout || !strings.Contains(s.Result.Error, "fork at an earlier event") {
			t.Errorf("%s %+v", s.Status, s.Result)
		}
	})
	t.Run("PLUS-1 GIT-14 a fork checks out anew and delivers a branch of its own", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.task(events.Task{ID: "forked", ForkOf: &events.ForkPoint{Run: "open", Sequence: 3}})
		s := w.ended("forked")
		d := s.Result.Delivery
		if s.Status != events.Completed || d == nil || !d.Pushed || d.Branch != "agent/trusted/open.forked" || r.at(d.Branch) != d.Commit || s.Created.Workspace != "run/forked" {
			t.Errorf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("forked"))
		}
	})
}

func TestGitAway(t *testing.T) {
	t.Parallel()
	t.Run("GATE-13 TOOL-3 a remote that does not answer is tried again, then the run fails told, and the work is kept", func(t *testing.T) {
		t.Parallel()
		f, w, once := newForge(t), newWorld(t), 1
		w.tune = nearGit
		w.agent(events.Agent{Name: "coder", Tools: []string{"write"}, Retry: events.Retry{MaxRetries: &once, BaseBackoffMS: 1}}, writes("hello.txt", "hello"))
		w.start()
		w.task(events.Task{ID: "away", Agent: "coder", Task: "say hello", Repo: f.url, Git: commits()})
		w.await("away", "waiting", waiting)
		away := func(_ http.Handler, rw http.ResponseWriter, _ *http.Request) {
			if c, _, err := http.NewResponseController(rw).Hijack(); err == nil {
				_ = c.Close() // as a host that goes away does
			}
		}
		f.around.Store(&away)
		w.approve("away", "approve")
		s := w.ended("away")
		d := s.Result.Delivery
		if s.Status != events.Failed || s.Result.FinishReason != events.FinishDelivery || d.Pushed || d.Bundle == "" || w.count("away")["call.deferred"] != once || s.Result.Output != "Written." {
			t.Errorf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("away"))
		}
	})
}

func TestGitTogether(t *testing.T) {
	t.Parallel()
	w, r, no := gitWorld(t), newRemote(t), false
	open := &events.GitSettings{RequireApproval: &no}
	for _, name := range []string{"alice", "bob", "carol"} {
		content := "from " + name
		path := "shared.txt"
		if name == "carol" {
			path = "carol.txt"
		}
		w.agent(events.Agent{Name: name, Tools: []string{"write", "read"}, Git: open}, writes(path, content))
	}
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}, Git: open}, `
turns:
  - when: {turn: 1}
    calls:
      - {name: read, input: {path: shared.txt}}
  - when: {turn: 2}
    text: "Read: {{result.1}}"
`)
	w.agent(events.Agent{Name: "merger", Git: open}, "turns:\n  - text: \"I merge.\"\n")
	w.start()
	quiet := func() *events.TaskGit {
		return &events.TaskGit{GitSettings: events.GitSettings{Push: &no, RequireApproval: &no}}
	}
	free := func(e events.Session) bool { return e.ID != "" && len(e.Holders) == 0 }

	t.Run("TEST-10 GIT-5 GIT-6 GIT-10 SESS-6 in a session B sees the commits of A, on one branch, and the lock goes when it ends", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "a1", Agent: "alice", Task: "write", Session: "line", Repo: r.url(), Git: quiet()})
		a := w.ended("a1").Result.Delivery
		w.sessionOf("line", "free", free)
		w.task(events.Task{ID: "b1", Agent: "reader", Task: "read", Session: "line", Repo: r.url(), Git: quiet()})
		s := w.ended("b1")
		b := s.Result.Delivery
		if a == nil || b == nil || a.Branch != "agent/line.session" || b.Branch != a.Branch || b.Base != a.Commit || a.Commit == a.Base || !strings.Contains(s.Result.Output, "from alice") {
			t.Errorf("%+v then %+v: %+v", a, b, s.Result)
		}
		if e := w.sessionOf("line", "free", free); e.Runs != 2 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("TEST-10 GIT-7 GIT-8 GIT-14 C22 SESS-4 two agents work side by side on branches of their own; a merge takes what goes together and reports what does not", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		side := func() *events.TaskGit {
			g := quiet()
			g.Collaboration, g.WorkingBranch = events.Parallel, "feature/x"
			return g
		}
		for _, name := range []string{"alice", "bob", "carol"} {
			w.task(events.Task{ID: "side-" + name, Agent: name, Task: "write", Session: "team", Repo: r.url(), Git: side()})
		}
		var branches []string
		for _, name := range []string{"alice", "bob", "carol"} {
			s := w.ended("side-" + name)
			d := s.Result.Delivery
			if s.Status != events.Completed || d.Branch != "agent/team/"+name || d.Bundle == "" || d.Base != r.at("main") || s.Created.Workspace != "run/side-"+name {
				t.Fatalf("%s %+v %+v in %s", s.Status, s.Result, d, s.Created.Workspace)
			}
			branches = append(branches, d.Branch)
		}
		g := quiet()
		g.Merge, g.WorkingBranch = branches, "feature/x"
		w.task(events.Task{ID: "merge", Agent: "merger", Task: "merge", Session: "team", Repo: r.url(), Git: g})
		s := w.ended("merge")
		d := s.Result.Delivery
		if s.Status != events.Completed || d == nil || d.Branch != "feature/x" || len(d.Conflicts) != 1 || d.Conflicts[0].Branch != "agent/team/bob" || !slices.Equal(d.Conflicts[0].Paths, []string{"shared.txt"}) {
			t.Fatalf("%s %+v %+v\n%s", s.Status, s.Result, d, w.story("merge"))
		}
		var merged []string
		for _, m := range d.Merged {
			merged = append(merged, m.Branch)
		}
		if !slices.Equal(merged, []string{"agent/team/alice", "agent/team/carol"}) || d.Conflicts[0].Ours == "" || d.Conflicts[0].Theirs == "" {
			t.Errorf("%+v", d)
		}
		tree := filepath.Join(w.dir, "work", "session", "team")
		if log := r.git("-C", tree, "ls-tree", "--name-only", d.Commit); log != "README.md\ncarol.txt\nshared.txt" {
			t.Errorf("%q", log)
		}
		if got := r.git("-C", tree, "show", d.Conflicts[0].Theirs+":shared.txt"); got != "from bob" {
			t.Errorf("the side that is not merged says %q", got)
		}
	})
	t.Run("C22 GIT-14 a second run of an agent on the branch of its first is refused while that lives", func(t *testing.T) {
		w := w.on(t)
		letters := w.letters()
		one := 1
		side := quiet()
		side.Collaboration = events.Parallel
		w.task(events.Task{ID: "busy-1", Agent: "alice", Task: "write", Session: "busy", Git: side, Autonomy: &one})
		w.await("busy-1", "waiting", waiting)
		w.task(events.Task{ID: "busy-2", Agent: "alice", Task: "write", Session: "busy", Git: side, Autonomy: &one})
		if d := w.letter(letters); d.Code != "branch_busy" || !strings.Contains(d.Reason, "busy-1") || w.session("busy").Runs != 1 {
			t.Errorf("%+v", d)
		}
		w.task(events.Task{ID: "busy-3", Agent: "bob", Task: "write", Session: "busy", Git: side, Autonomy: &one})
		w.await("busy-3", "waiting", func(s run.State) bool { return waiting(s) })
	})
}
