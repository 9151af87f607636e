package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// mailWriter sends mail when it is woken, and says what it sees.
const mailWriter = `
turns:
  - when: {turn: 1, message: {contains: "| write to the others"}}
    text: I look who there is.
    calls:
      - {name: who, input: {}}
      - {name: mail_send, input: {to: crew/reader/two, subject: Build, body: "Is the build green?", priority: high}}
      - {name: mail_send, input: {to: crew/reader/tow, body: "x"}}
      - {name: mail_send, input: {to: queue/jobs, body: "job"}}
      - {name: mail_read, input: {queue: queue/jobs}}
      - {name: mail_read, input: {queue: queue/jobs}}
      - {name: mail_read, input: {}}
  - when: {turn: 2}
    text: Done.
  - when: {turn: 1}
    text: Read.
`

func TestMailTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tools := []string{events.ToolMailSend, events.ToolMailRead, events.ToolWho}
	w.agent(events.Agent{Name: "reader", Tools: []string{"bash"}, Prompt: "You read."}, mailReader)
	w.agent(events.Agent{Name: "writer", Tools: tools, Prompt: "You write."}, mailWriter)
	w.start()
	t.Run("MSG-5 MSG-9 MSG-11 MSG-17 an agent sends as itself, claims of a queue alone, and reads why something is refused", func(t *testing.T) {
		w := w.on(t)
		w.registerAddress("queue/jobs", events.AddressSpec{})
		w.registerAddress("crew/writer/one", events.AddressSpec{Agent: "writer"})
		w.registerAddress("crew/reader/two", events.AddressSpec{Agent: "reader"})
		w.send("crew/writer/one", events.MailDraft{ID: "m1", Body: "write to the others"})
		w.boxIs("crew/writer/one", "idle again", left("m1"))
		s := w.state(w.runsOf("crew/writer/one")[0])
		got := map[string]run.CallRecord{}
		for _, r := range run.All(s.ToolCallHistory) {
			got[r.ID] = r
		}
		for id, want := range map[string]string{"c1-1": "You are crew/writer/one.\ncrew/reader/two: ", "c1-2": "sent to crew/reader/two as message msg-",
			"c1-3": "refused (unknown_address): address crew/reader/tow is not registered. did you mean crew/reader/two?",
			"c1-4": "sent to queue/jobs as message msg-", "c1-7": "no mail waits for you"} {
			if r := got[id]; !strings.HasPrefix(r.Result, want) && id != "c1-7" || r.Success != (id != "c1-3") {
				t.Errorf("%s: %+v, want %q", id, r, want)
			}
		}
		claims := 0
		for _, id := range []string{"c1-5", "c1-6"} {
			if r := got[id]; !r.Success {
				t.Errorf("%s: %+v", id, r)
			} else if strings.Contains(r.Result, "| job") && strings.Contains(r.Result, "| crew/writer/one\n") {
				claims++
			}
		}
		queue := w.box("queue/jobs")
		if claims > 1 || claims+len(queue.Pending) != 1 || len(queue.Claimed) != 0 {
			t.Errorf("%d claims, %+v", claims, queue.Mailbox)
		}
		two := w.boxIs("crew/reader/two", "idle again", func(s mailbox.State) bool { return s.Holder == nil && len(s.Done) == 1 })
		r := w.state(w.runsOf("crew/reader/two")[0])
		if r.Result.Output != "It is green." || two.Done[0].From != "crew/writer/one" || !strings.HasPrefix(two.Done[0].ID, events.MailPrefix) {
			t.Errorf("%q, %+v", r.Result.Output, two.Done)
		}
	})
	t.Run("MSG-17 a run that is no agent can send nothing, and arguments make it none", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "liar", Tools: tools, Prompt: "You lie."}, `
turns:
  - when: {turn: 1}
    text: I lie.
    calls:
      - {name: mail_send, input: {to: crew/reader/two, body: "obey", from: crew/writer/one}}
      - {name: mail_send, input: {to: crew/reader/two, body: "obey"}}
  - when: {turn: 2}
    text: Done.
`)
		before := w.box("crew/reader/two").Sequence
		w.task(events.Task{ID: "lies", Agent: "liar", Task: "lie"})
		s := w.ended("lies")
		for _, r := range run.All(s.ToolCallHistory) {
			if r.Success || r.Outcome == "finished" {
				t.Errorf("%+v", r)
			}
		}
		if s.ToolCallHistory.Len() != 2 || w.box("crew/reader/two").Sequence != before {
			t.Errorf("%d calls, %+v", s.ToolCallHistory.Len(), w.box("crew/reader/two").Mailbox)
		}
	})
	t.Run("MSG-9 of many agents that want the messages of a queue each has other ones", func(t *testing.T) {
		w := w.on(t)
		w.agent(events.Agent{Name: "taker", Tools: tools, Prompt: "You take."}, `
turns:
  - when: {turn: 1}
    text: I take.
    calls:
      - {name: mail_read, input: {queue: queue/work}}
      - {name: mail_read, input: {queue: queue/work}}
  - when: {turn: 2}
    text: Done.
`)
		w.registerAddress("queue/work", events.AddressSpec{})
		for i := range 6 {
			w.send("queue/work", events.MailDraft{ID: fmt.Sprint("job", i), Body: fmt.Sprint("work ", i)})
		}
		w.boxIs("queue/work", "full", func(s mailbox.State) bool { return len(s.Pending) == 6 })
		var takers []string
		for i := range 5 {
			takers = append(takers, fmt.Sprint("crew/taker/t", i))
			w.registerAddress(takers[i], events.AddressSpec{Agent: "taker"})
		}
		for _, a := range takers {
			w.send(a, events.MailDraft{ID: "go", Body: "go"})
		}
		by := map[string]string{}
		for _, a := range takers {
			w.boxIs(a, "idle again", left("go"))
			for _, r := range run.All(w.state(w.runsOf(a)[0]).ToolCallHistory) {
				for i := range 6 {
					if strings.Contains(r.Result, fmt.Sprint("| work ", i)) {
						if id := fmt.Sprint("job", i); by[id] != "" {
							t.Errorf("%s is claimed by %s and by %s", id, by[id], a)
						} else {
							by[id] = a
						}
					}
				}
			}
		}
		s := w.box("queue/work")
		if len(by) != 6 || len(s.Pending)+len(s.Claimed) != 0 || len(s.Done) != 6 {
			t.Errorf("%v, %+v", by, s.Mailbox)
		}
	})
}
