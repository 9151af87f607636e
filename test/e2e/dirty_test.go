package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/patrol"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

// messyScript leaves a file that is in no commit, or commits all there is.
const messyScript = `
turns:
  - when: {turn: 1, message: {contains: "| make a file"}}
    text: I write it.
    calls:
      - {name: bash, input: {command: "git init -q -b main . && echo x > left.txt"}}
  - when: {turn: 1, message: {contains: "| look around"}}
    text: Nothing to do.
  - when: {turn: 1, message: {contains: "| commit it"}}
    text: I commit it.
    calls:
      - {name: bash, input: {command: "git add left.txt && git -c user.name=a -c user.email=a@example.com commit -q -m all"}}
  - when: {turn: 2}
    text: Done.
`

func TestDirtyAgent(t *testing.T) {
	t.Parallel()
	t.Run("an idle agent whose directory has changes that are in no commit is found after half an hour, once, until they are committed; one whose directory is clean is not", func(t *testing.T) {
		t.Parallel()
		w := gitWorld(t)
		w.agent(events.Agent{Name: "messy", Tools: []string{"bash"}, Prompt: "You work."}, messyScript)
		at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
		clock := &movedClock{Timers: w.ports.AgentTimers, at: at, set: map[string]time.Time{}}
		w.ports.AgentTimers, w.ports.ScheduleClock = clock, clock.Now
		const agent = "web/worker/nux"
		timers := func() int {
			clock.mu.Lock()
			defer clock.mu.Unlock()
			return len(clock.set)
		}
		w.start()
		w.registerAddress(agent, events.AddressSpec{Agent: "messy"})
		after := func(id, text string, epoch int) (s mailbox.State) {
			t.Helper()
			w.send(agent, events.MailDraft{ID: id, Body: text})
			return w.boxIs(agent, "idle", func(s mailbox.State) bool {
				return s.Holder == nil && s.Epoch == epoch && len(s.Pending) == 0
			})
		}
		s := after("m1", "make a file", 1)
		if u := patrol.Left(w.state(s.Life.Past[0].Run)); u == nil || u.Paths != 1 || u.Branch != "main" {
			t.Fatalf("the run left %+v", u)
		}
		w.until("it is to be looked at again", func() bool { return timers() == 1 })
		clock.move(w, at.Add(patrol.DirtyAfter-time.Minute))
		if s := w.box(agent); s.Life.Alert != nil {
			t.Errorf("%+v", s.Life.Alert)
		}
		clock.move(w, at.Add(patrol.DirtyAfter))
		s = w.boxIs(agent, "found", func(s mailbox.State) bool { return s.Life.Alert != nil })
		if a := s.Life.Alert; a.Signal != patrol.Dirty || a.Severity != events.SeverityLow || !strings.Contains(a.Text, "1 file ") ||
			!a.Since.Equal(at) || mailbox.StateOf(s.Mailbox) != mailbox.IsIdle {
			t.Errorf("%+v", a)
		}
		// A run that changes nothing leaves what the one before left: the agent is found again, and not at once.
		s = after("m2", "look around", 2)
		if s.Life.Alert != nil {
			t.Errorf("%+v", s.Life.Alert)
		}
		clock.move(w, at.Add(2*patrol.DirtyAfter))
		w.boxIs(agent, "found again", func(s mailbox.State) bool { return s.Life.Alert != nil && s.Life.Alert.Epoch == 2 })
		s = after("m3", "commit it", 3)
		if u := patrol.Left(w.state(s.Life.Past[2].Run)); s.Life.Alert != nil || u == nil || u.Paths != 0 {
			t.Errorf("%+v, %+v", s.Life.Alert, u)
		}
		clock.move(w, at.Add(9*time.Hour))
		for _, on := range []bool{true, false} { // it is looked at for another reason
			w.mail(agent, events.MailControl{Action: mailbox.DND, On: &on})
			w.boxIs(agent, "looked at", func(s mailbox.State) bool { return s.Quiet == on })
		}
		if s := w.box(agent); s.Life.Alert != nil || timers() != 0 {
			t.Errorf("%+v, %d timers", s.Life.Alert, timers())
		}
	})
}
