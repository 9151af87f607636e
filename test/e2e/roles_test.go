package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// crewScript looks where it is, or waits at a gate, or gives work to the role itself.
const crewScript = `
turns:
  - when: {turn: 1, message: {contains: "| wait"}}
    text: I wait.
    calls:
      - {name: bash, input: {command: echo waited}}
  - when: {turn: 1, message: {contains: "| give it away"}}
    text: I give it away.
    calls:
      - {name: mail_send, input: {to: role/worker/of/web, body: "look around"}}
  - when: {turn: 1}
    text: I look.
    calls:
      - {name: bash, input: {command: "printenv TEAM AREA INSPAN_AGENT; pwd"}}
  - when: {turn: 2}
    text: That is all.
`

const crewRole = `
agent = "coder"
max_instances = 2
names = ["nux", "ada"]
prompt_template = "You are {name}, a worker of {project}."
[session]
pattern = "crew_{project}_{role}_{name}"
work_dir = "{root}/services/{name}"
start_command = "built-in"
[env]
TEAM = "blue"
AREA = "{project}"
[health]
kill_cooldown = "1m"
`

// crew registers the definition coder with its role from files.
func (w *world) crew(role string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "crew")
	for name, text := range map[string]string{
		filepath.Join(dir, "web/worker/role.toml"): role,
		filepath.Join(dir, "coder.prompt"): "---\nmodel: scripted/coder\ntools: [bash, mail_send]\nguards: [{id: asks, tool: bash, match: {argv: [echo, \"**\"]}, action: ask, reason: a person decides}]\n" +
			"harness: {enabled: true}\n---\nYou work.\n",
		filepath.Join(w.dir, "scripts", "coder.yaml"): crewScript} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, _, err := (&service.Agents{KV: w.ports.Config}).Register(w.ctx(), dir); err != nil {
		w.t.Fatal(err)
	}
}

// itemsAre waits until one of several items is as said, and returns it.
func (w *world) itemsAre(ids []string, what string, holds func(work.State) bool) (found work.State) {
	w.t.Helper()
	w.until("one of the items "+strings.Join(ids, " ")+" "+what, func() bool {
		for _, id := range ids {
			if found = w.item(id); holds(found) {
				return true
			}
		}
		return false
	})
	return found
}

// took is the agent that was given a message to a role.
func (w *world) took(id string) (agent string) {
	for _, a := range []string{"web/worker/nux", "web/worker/ada", "web/worker/agent-1", "web/worker/agent-2", "web/worker/agent-3"} {
		for _, p := range w.agentEvents(a) {
			if d, ok := p.(*events.MailSentData); ok && d.Mail.ID == id {
				agent += a
			}
		}
	}
	return agent
}

func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.crew(crewRole)
	w.start()
	letters := w.letters()
	const role = "role/worker/of/web"
	idle := func(s mailbox.State) bool { return s.Holder == nil && s.Epoch > 0 && len(s.Pending) == 0 }
	working := func(s mailbox.State) bool { return s.Holder != nil && s.Holder.Started }
	passed := func(id string) func(mailbox.State) bool {
		return func(s mailbox.State) bool { return s.Knows(id) && !s.Waits(id) }
	}

	t.Run("ID-1 ID-7 CONT-7 CONT-9 WORK-10 WORK-11 work for a role makes an agent of it, with the name, session, folder, variables and prompt of the role", func(t *testing.T) {
		w := w.on(t)
		if err := os.MkdirAll(filepath.Join(w.dir, "work", "session", "crew_web_worker_nux", "services", "nux"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.send(role, events.MailDraft{ID: "m1", Body: "look around"})
		s := w.boxIs("web/worker/nux", "idle", idle)
		if s.Spec.Agent != "coder" || s.Spec.Session != "crew_web_worker_nux" || s.Life.Role == nil || s.Life.Role.Name != "web/worker" {
			t.Errorf("%+v", s.Mailbox)
		}
		r := w.state(w.runsOf("web/worker/nux")[0])
		if !strings.HasPrefix(r.Created.Task, "You are nux, a worker of web.\n\n") || r.Created.Session != "crew_web_worker_nux" || len(r.Agents["coder"].Roles) != 0 {
			t.Errorf("%+v", r.Created)
		}
		found := ""
		for _, c := range run.Backward(r.ToolCallHistory) {
			found = c.Result
		}
		for _, want := range []string{"blue\nweb\nweb/worker/nux\n", "/crew_web_worker_nux/services/nux\n"} {
			if !strings.Contains(found, want) {
				t.Errorf("%q is missing in %q", want, found)
			}
		}
	})
	t.Run("WORK-10 WORK-11 an agent gives work to a role with a tool, and another agent has it", func(t *testing.T) {
		w := w.on(t)
		w.send("web/worker/nux", events.MailDraft{ID: "m2", Body: "give it away"})
		w.boxIs("web/worker/nux", "idle again", func(s mailbox.State) bool { return idle(s) && s.Epoch == 2 })
		w.boxIs("web/worker/ada", "idle", idle)
		if got := w.passed("web/worker/ada"); !strings.HasPrefix(got, "agent.registered mail.sent agent.woken") {
			t.Errorf("%s", got)
		}
	})
	t.Run("WORK-10 ID-1 many dispatchers at once: each piece of work has an agent of its own, and no more are at work than the quota says", func(t *testing.T) {
		w := w.on(t)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() { w.send(role, events.MailDraft{ID: fmt.Sprintf("g%d", i), Body: "wait"}) })
		}
		all.Wait()
		var agents []string
		for i := range 4 {
			w.boxIs(role, "passed on", passed(fmt.Sprintf("g%d", i)))
			agents = append(agents, w.took(fmt.Sprintf("g%d", i)))
		}
		slices.Sort(agents)
		if got := strings.Join(agents, " "); got != "web/worker/ada web/worker/agent-1 web/worker/agent-2 web/worker/nux" {
			t.Fatalf("got %s", got)
		}
		quota := events.RoleAddressOf("web/worker")
		for done := range 4 {
			// Two are at work until a person lets one end; those that wait say for what.
			s := w.boxIs(quota, "full", func(s mailbox.State) bool {
				n := 0
				for _, a := range agents {
					if working(w.box(a)) {
						n++
					}
				}
				return s.Life.Quota != nil && n == min(2, 4-done) && len(s.Life.Quota.Waiting) == max(0, 2-done)
			})
			if s.Life.Quota.Max != 2 {
				t.Errorf("%+v", s.Life.Quota)
			}
			for _, a := range agents {
				if b := w.box(a); working(b) {
					id := b.Holder.Run
					r := w.await(id, "waiting", waiting)
					w.publish(events.GateSubject("test", id, r.Waiting()[0].ID), `{"decision":"approve"}`)
					w.boxIs(a, "idle", func(s mailbox.State) bool { return s.Holder == nil })
					break
				}
			}
		}
		for _, p := range w.agentEvents(quota) {
			if d, ok := p.(*events.AgentAdmittedData); ok && len(d.Working) > 2 {
				t.Errorf("%+v", d)
			}
		}
	})
	t.Run("WORK-2 WORK-10 WORK-11 WORK-13 items that are given to a role go to a free agent each, which begins with its item, no more at a time than the quota says", func(t *testing.T) {
		w := w.on(t)
		ids := []string{"i1", "i2", "i3"}
		for _, id := range ids {
			w.addItem(id, events.WorkSpec{Title: "wait for a person"})
		}
		holders := map[string]string{}
		for _, id := range ids {
			w.work(id, slingTo(role))
			b := w.itemIs(id, "held", func(s work.State) bool { return s.Binding != nil && s.Binding.Address != "" }).Binding
			if holders[b.Address] != "" || !strings.HasPrefix(b.Address, "web/worker/") {
				t.Fatalf("%s is held by %s; the others by %v", id, b.Address, holders)
			}
			holders[b.Address] = id
			w.boxIs(b.Address, "accepted "+id, func(s mailbox.State) bool { return s.Life.Work != nil && s.Life.Work.Work == id })
		}
		for range ids { // two are at work at a time
			s := w.itemsAre(ids, "has a run that waits", func(s work.State) bool {
				return s.Binding != nil && s.Binding.Started && waiting(w.state(s.Binding.Run))
			})
			r := w.state(s.Binding.Run)
			if !strings.Contains(r.Created.Task, "You hold the work item "+s.ID) || r.Created.Address.Address != s.Binding.Address {
				t.Errorf("%s: %+v", s.ID, r.Created)
			}
			w.publish(events.GateSubject("test", r.HarnessID, r.Waiting()[0].ID), `{"decision":"approve"}`)
			w.itemIs(s.ID, "closed", isClosed)
			ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == s.ID })
		}
		for _, id := range holders {
			if got := w.went(id); got != "created bound started closed" && got != "created bound started closed unbound" && got != "created bound started unbound closed" {
				t.Errorf("%s: %s", id, got)
			}
		}
	})
	t.Run("WORK-11 what is no role is refused with the nearest one", func(t *testing.T) {
		w := w.on(t)
		w.send("role/workr/of/web", events.MailDraft{ID: "x1", Body: "look"})
		if d := w.letter(letters); d.Code != mailbox.UnknownRole || !strings.Contains(d.Hint, "web/worker") {
			t.Errorf("%+v", d)
		}
	})
}
