package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// handsIn writes a file, hands in its work twice, and is done.
const handsIn = `
turns:
  - when: {turn: 1}
    text: I write it.
    calls:
      - {name: write, input: {path: alice.txt, content: good}}
  - when: {turn: 2}
    text: I hand it in.
    calls:
      - {name: deliver, input: {queue: none}}
  - when: {turn: 3}
    text: I hand it in to somebody.
    calls:
      - {name: deliver, input: {oversight: queue/leads}}
  - when: {turn: 4}
    text: I hand it in again.
    calls:
      - {name: deliver, input: {}}
  - when: {turn: 5}
    text: Done.
`

// idles does nothing.
const idles = "\nturns:\n  - when: {turn: 1}\n    text: Nothing to do.\n"

func TestHandIn(t *testing.T) {
	t.Parallel()
	w, r := gitWorld(t), newRemote(t)
	yes, no := true, false
	w.agent(events.Agent{Name: "alice", Tools: []string{"write", events.ToolDeliver}, Git: &events.GitSettings{RequireApproval: &no, AutoCommit: &yes}}, handsIn)
	w.agent(events.Agent{Name: "idle"}, idles)
	deliverers(t, w, "carl=fine")
	w.agent(events.Agent{Name: "reader", Tools: []string{"bash"}, Prompt: "You read."}, mailReader)
	w.start()
	w.registerAddress("queue/leads", events.AddressSpec{})
	t.Run("DLV-1 DLV-2 WORK-9 an agent hands in its own item, once, and it is delivered like one that was bound for that", func(t *testing.T) {
		w, r := w.on(t), remote{t, r.dir}
		w.addItem("hello", events.WorkSpec{Title: "Say hello"})
		c := sling("alice")
		c.Dispatch.Repo, c.Dispatch.Branch = r.url(), "main"
		w.work("hello", c)
		s := w.itemIs("hello", "released", isReleased)
		want := strings.Replace(strings.Replace(delivered, "started ", "started delivery.requested ", 1), "delivery.landed ", "", 1)
		if got := w.went("hello"); got != want {
			t.Errorf("got %s", got)
		}
		if d := s.Delivery; s.Status != events.WorkIsClosed || r.at(d.RemoteBranch) != d.Commit || r.git("-C", r.dir, "show", d.Commit+":alice.txt") != "good" ||
			len(w.box("queue/leads").Pending) != 1 {
			t.Errorf("%+v", d)
		}
		var got []string
		for _, call := range run.All(w.state(s.Last.Run).ToolCallHistory) {
			if call.CallName == events.ToolDeliver {
				got = append(got, fmt.Sprintf("%s %v %.30s", call.ID, call.Success, call.Result))
			}
		}
		if len(got) != 3 || !strings.Contains(got[0], "false refused (unknown_queue)") || !strings.Contains(got[1], "true work item hello is handed in") ||
			!strings.Contains(got[2], "false refused (bad_move)") {
			t.Errorf("%q", got)
		}
	})
	t.Run("DLV-1 a run that holds no item hands in nothing, whatever item there is", func(t *testing.T) {
		w := w.on(t)
		before := len(w.went("hello"))
		w.task(events.Task{ID: "free", Agent: "alice", Task: "hand in hello", Repo: r.url(), Branch: "main", WorkID: "hello"})
		for _, call := range run.All(w.ended("free").ToolCallHistory) {
			if call.CallName == events.ToolDeliver && (call.Success || !strings.Contains(call.Result, "holds no work item")) {
				t.Errorf("%+v", call)
			}
		}
		if len(w.went("hello")) != before {
			t.Errorf("the item went on: %s", w.went("hello"))
		}
	})
	for agent, want := range map[string]string{"carl": "Work item of-carl is done", "idle": "Work item of-idle bounced"} {
		t.Run("DLV-3 MSG-17 the agent that made the work is told what became of it, and reads it in its next prompt: "+agent, func(t *testing.T) {
			w, item, maker := w.on(t), "of-"+agent, "web/maker/"+agent
			w.registerAddress(maker, events.AddressSpec{Agent: "reader"})
			w.addItem(item, events.WorkSpec{Title: "Say it"})
			c := delivers(agent, r, "")
			c.Dispatch.Deliver.Maker = maker
			w.work(item, c)
			s := w.itemIs(item, "told", func(s work.State) bool { return isReleased(s) || isBounced(s) && !s.OwesNotice() })
			n := s.Delivery.Notices[len(s.Delivery.Notices)-1]
			if len(s.Delivery.Notices) != 3 || n.Target != events.NoticeMaker || n.To != maker || n.Mail == "" {
				t.Fatalf("%+v", s.Delivery.Notices)
			}
			box := w.boxIs(maker, "idle again", left(n.Mail))
			of := w.state(w.runsOf(maker)[0])
			if len(of.Messages) != 1 || !strings.Contains(of.Messages[0].Text, "| "+want) || box.Done[0].From != "station:delivery" ||
				box.Done[0].State != events.MailIsAcknowledged || w.shows(maker)[n.Mail] != 1 {
				t.Errorf("%+v, %+v", of.Messages, box.Done)
			}
		})
	}
}
