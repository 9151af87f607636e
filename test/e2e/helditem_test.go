package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// heldItem works on an item in two runs: the first one hands off, the next one is done.
const heldItem = `
turns:
  - when: {turn: 1, message: {contains: "| Work item login is done"}}
    text: Read.
  - when: {turn: 1, message: {contains: "| One more file"}}
    text: I begin.
    calls:
      - {name: write, input: {path: third.txt, content: good}}
  - when: {turn: 2, message: {contains: "| One more file"}}
    text: Done.
  - when: {turn: 1, message: {contains: "| the second half is left"}}
    text: I go on.
    calls:
      - {name: work_current, input: {}}
      - {name: write, input: {path: second.txt, content: good}}
  - when: {turn: 2, message: {contains: "| the second half is left"}}
    text: All of it is done.
  - when: {turn: 1, message: {contains: "| wait for a person"}}
    text: I ask.
    calls:
      - {name: bash, input: {command: echo waited}}
  - when: {turn: 1, message: {contains: "You hold the work item"}}
    text: I begin.
    calls:
      - {name: write, input: {path: first.txt, content: good}}
  - when: {turn: 2, message: {contains: "| wait for a person"}}
    text: It was permitted.
  - when: {turn: 2}
    text: I hand off.
    calls:
      - {name: handoff, input: {summary: "the second half is left"}}
`

func holds(address string) func(work.State) bool {
	return func(s work.State) bool { return s.Binding != nil && s.Binding.Address == address && s.Binding.Started }
}

func slingTo(address string) events.WorkControl {
	c := sling("")
	c.Dispatch.Address = address
	return c
}

// commit has somebody else put a file on main.
func (r remote) commit(name, text string) {
	r.t.Helper()
	dir := filepath.Join(r.t.(*testing.T).TempDir(), "others")
	r.git("clone", "--quiet", "--branch", "main", r.dir, dir)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.git("-C", dir, "add", ".")
	r.git("-C", dir, "commit", "--quiet", "-m", name)
	r.git("-C", dir, "push", "--quiet", "origin", "main")
}

func TestHeldItem(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	no := false
	w.agent(events.Agent{Name: "pair", Tools: []string{"bash", "write", events.ToolHandoff, events.ToolWorkCurrent},
		Guards: askBeforeEcho(), Git: &events.GitSettings{RequireApproval: &no}}, heldItem)
	deliverers(t, w, "lander=")
	station, services, letters := w, w.start(), w.letters()
	w.registerAddress("web/worker/nux", events.AddressSpec{Agent: "pair"})
	w.registerAddress("web/worker/ada", events.AddressSpec{Agent: "pair"})
	w.addQueue("main", r, "lander", "true")
	t.Run("WORK-4 WORK-5 WORK-13 CONT-12 INV-3 an agent holds its item over a handoff, whose next run goes on with item, plan and branch, and delivers the work of both", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.addItem("login", events.WorkSpec{Title: "Fix the login"})
		c := slingTo("web/worker/nux")
		c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = r.url(), "main", &events.WorkDeliver{Queue: "main"}
		w.work("login", c)
		s := w.itemIs("login", "released", isReleased)
		want := strings.Replace(delivered, "started ", "started handed-off started ", 1)
		if got := w.went("login"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		runs := w.runsOf("web/worker/nux")
		old, next := w.state(runs[0]), w.state(runs[1])
		if o, n := old.Created, next.Created; *o.Work != *n.Work || n.Work.Work != "login" || n.WorkID != "login" || o.Git.NewBranch != n.Git.NewBranch ||
			n.Workspace != o.Workspace || s.Last.Agent != "web/worker/nux" || s.Last.Run != runs[1] || s.Delivery.Run != runs[1] {
			t.Errorf("%+v, %+v, %+v", o, n, s.Last)
		}
		for _, call := range run.All(next.ToolCallHistory) {
			if call.CallName == events.ToolWorkCurrent && !strings.Contains(call.Result, "Work item: login\n") {
				t.Errorf("%+v", call)
			}
		}
		if got := r.git("-C", r.dir, "log", "-1", "--format=%s", s.Delivery.Commit); got != "Fix the login" {
			t.Errorf("the commit of an item in a session says %q", got)
		}
		for _, file := range []string{"first.txt", "second.txt"} {
			if got := r.git("-C", r.dir, "show", "main:"+file); got != "good" {
				t.Errorf("%s of main is %q", file, got)
			}
		}
		w.boxIs("web/worker/nux", "without an item and has read that it is done", func(s mailbox.State) bool {
			return s.Holder == nil && s.Life.Work == nil && s.Epoch == 3 && len(s.Pending) == 0
		})
		if d := s.Delivery; d.Kept != "" || r.at(d.RemoteBranch) != "" {
			t.Errorf("the work branch is not removed: %+v", d)
		}
	})
	t.Run("DLV-5 the next item of the agent begins where the last one landed, in the same workspace and with what others landed", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		r.commit("other.txt", "by others")
		before := r.at("main")
		w.addItem("more", events.WorkSpec{Title: "One more file"})
		c := slingTo("web/worker/nux")
		c.Dispatch.Repo, c.Dispatch.Branch, c.Dispatch.Deliver = r.url(), "main", &events.WorkDeliver{Queue: "main"}
		w.work("more", c)
		s := w.itemIs("more", "released", isReleased)
		if d := s.Delivery; d.Base != before || d.Kept != "" || r.git("-C", r.dir, "rev-list", "--count", before+".."+d.Commit) != "1" {
			t.Errorf("main was at %s: %+v", before, d)
		}
		if got := r.git("-C", r.dir, "show", "main:third.txt"); got != "good" {
			t.Errorf("third.txt of main is %q", got)
		}
	})
	t.Run("WORK-2 WORK-3 WORK-4 WORK-7 an agent has one item: another one is refused it, and a restart of all services changes nothing", func(t *testing.T) {
		w := w.on(t)
		for _, id := range []string{"one", "two"} {
			w.addItem(id, events.WorkSpec{Title: "Do it", Text: "wait for a person"})
		}
		w.work("one", slingTo("web/worker/ada"))
		run := w.itemIs("one", "held", holds("web/worker/ada")).Binding.Run
		w.await(run, "waiting", waiting)
		services.stop()
		w.work("two", slingTo("web/worker/ada"))
		services = station.start()
		if s := w.itemIs("two", "free", isFree); s.Last.Code != mailbox.Busy || s.Last.Agent != "web/worker/ada" {
			t.Errorf("%+v", s.Last)
		}
		w.work("one", events.WorkControl{Action: work.Unassign})
		if d := w.letter(letters); d.Code != work.Running {
			t.Errorf("%+v", d)
		}
		w.mail("web/worker/ada", events.MailControl{Action: mailbox.Stop, By: "anna"})
		s := w.itemIs("one", "kept without a run", func(s work.State) bool { return s.Binding != nil && !s.Binding.Started })
		if s.Binding.Address != "web/worker/ada" || s.Binding.Run != "" {
			t.Errorf("%+v", s.Binding)
		}
		w.work("one", events.WorkControl{Action: work.Unassign, Agent: "web/worker/nux"})
		if d := w.letter(letters); d.Code != work.Taken {
			t.Errorf("%+v", d)
		}
		w.work("one", events.WorkControl{Action: work.Unassign, Agent: "web/worker/ada"})
		w.itemIs("one", "free", isFree)
		w.work("one", slingTo("web/worker/ada"))
		if d := w.letter(letters); d.Code != work.BadMove || !strings.Contains(d.Reason, "is stopped") {
			t.Errorf("%+v", d)
		}
		w.mail("web/worker/ada", events.MailControl{Action: mailbox.Start, By: "anna"})
		w.work("two", slingTo("list/none"))
		if d := w.letter(letters); d.Code != "bad_input" {
			t.Errorf("%+v", d)
		}
	})
}
