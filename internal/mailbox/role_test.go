package mailbox_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
)

func never(events.RoleSlot) bool { return false }

func TestQuota(t *testing.T) {
	t.Parallel()
	t.Run("ID-1 CONT-9 a role admits as many as it has, the others wait, and the end of one lets the next one in", func(t *testing.T) {
		t.Parallel()
		s := mailbox.Opening(mailbox.State{}, "web/worker", at)
		var may bool
		if s, may = mailbox.Admit(s, "web/worker/a", 1, 2, never, at); !may {
			t.Fatal("the first one waits")
		}
		if s, may = mailbox.Admit(s, "web/worker/b", 4, 2, never, at); !may {
			t.Fatal("the second one waits")
		}
		if s, may = mailbox.Admit(s, "web/worker/c", 1, 2, never, at); may {
			t.Fatal("a third one is at work")
		}
		if q := s.Life.Quota; q.Max != 2 || len(q.Working) != 2 || strings.Join(q.Waiting, " ") != "web/worker/c" {
			t.Errorf("%+v", q)
		}
		before := len(s.Changes())
		if s, may = mailbox.Admit(s, "web/worker/c", 1, 2, never, at); may || len(s.Changes()) != before {
			t.Error("waiting again is an event again")
		}
		if s, may = mailbox.Admit(s, "web/worker/a", 1, 2, never, at); !may || len(s.Changes()) != before {
			t.Error("an epoch is admitted twice")
		}
		over := func(w events.RoleSlot) bool { return w.Agent == "web/worker/a" }
		if s, may = mailbox.Admit(s, "web/worker/c", 1, 2, over, at); !may || len(s.Life.Quota.Waiting) != 0 {
			t.Errorf("%+v", s.Life.Quota)
		}
		// The next epoch of one that is at work takes the place of the one before.
		if s, may = mailbox.Admit(s, "web/worker/b", 5, 2, never, at); !may || len(s.Life.Quota.Working) != 2 {
			t.Errorf("%+v", s.Life.Quota)
		}
	})
	t.Run("ID-1 a slot lasts as long as its epoch, and one that nobody used is free again", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "coder"})
		slot := events.RoleSlot{Agent: "web/worker/nux", Epoch: 1, At: at}
		if mailbox.Over(b.s, slot, at.Add(events.WakeTerm-1)) || !mailbox.Over(b.s, slot, at.Add(events.WakeTerm)) {
			t.Error("one that was admitted and not woken")
		}
		b.must(b.send(events.MailDraft{ID: "m1", Body: "x"}))
		b.wake()
		if mailbox.Over(b.s, slot, at.Add(99*time.Hour)) {
			t.Error("one that works")
		}
		b.s = mailbox.End(b.s, b.s.Holder.Run, mailbox.Completed, "", b.now)
		if !mailbox.Over(b.s, slot, at) {
			t.Error("one whose run ended")
		}
	})
	t.Run("ID-1 whatever is asked in any order, never more are admitted than the quota has", rapid.MakeCheck(func(t *rapid.T) {
		s, live := mailbox.Opening(mailbox.State{}, "worker", at), map[string]int{}
		most := rapid.IntRange(1, 3).Draw(t, "most")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			agent := "web/worker/" + rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "agent")
			if rapid.Bool().Draw(t, "ends") {
				delete(live, agent)
				continue
			}
			if _, works := live[agent]; works {
				continue
			}
			epoch, may := rapid.IntRange(1, 100).Draw(t, "epoch"), false
			s, may = mailbox.Admit(s, agent, epoch, most, func(w events.RoleSlot) bool { return live[w.Agent] != w.Epoch }, at)
			if may {
				live[agent] = epoch
			}
			if len(live) > most {
				t.Fatalf("%d of %d are at work: %+v", len(live), most, s.Life.Quota)
			}
			if !may && len(live) < most {
				t.Fatalf("%s waits, and %d of %d are at work", agent, len(live), most)
			}
		}
	}))
	t.Run("ID-1 SAFE-2 a role takes no control but mail, and its log does not fold with more than its quota", func(t *testing.T) {
		t.Parallel()
		s := mailbox.Opening(mailbox.State{}, "web/worker", at)
		if err := mailbox.Check(events.RoleAddress, events.MailControl{Action: mailbox.Stop}); err == nil {
			t.Error("a role is stopped")
		}
		two := []events.RoleSlot{{Agent: "web/worker/a", Epoch: 1}, {Agent: "web/worker/b", Epoch: 1}}
		twice := []events.RoleSlot{two[0], two[0]}
		for what, q := range map[string]events.RoleQuota{"too many": {Max: 1, Working: two}, "one twice": {Max: 2, Working: twice}, "no quota": {}} {
			f := events.Event{Subject: s.ID, Sequence: 2, Time: at}
			if _, err := mailbox.Aggregate().Apply(s, f, &events.AgentAdmittedData{Event: "agent_admitted", RoleQuota: q}, "h"); err == nil {
				t.Errorf("%s folds", what)
			}
		}
	})
}

func TestRole(t *testing.T) {
	t.Parallel()
	role := &events.AgentRole{Name: "worker", Prompt: "You are {name}.", WorkDir: "services/{name}", Env: map[string]string{"AREA": "{project}"},
		Health: events.RoleHealth{Failures: 2, CooldownMS: 60_000}}
	b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "coder", Respawn: true})
	b.must(b.send(events.MailDraft{ID: "m1", Body: "x"}))
	wake := func() {
		b.s = mailbox.WakeIn(b.s, b.now, runOf, mailbox.Waking{Role: role})
		b.s, _ = mailbox.Accept(b.s, b.s.Epoch, b.s.Holder.Run, b.now)
	}
	wake()
	t.Run("ID-1 CONT-9 a run is begun with what the role of its agent was when it was woken", func(t *testing.T) {
		if task := mailbox.TaskOf(b.s, *b.s.Holder); !strings.HasPrefix(task.Task, "You are nux.\n\nYou are the agent web/worker/nux") {
			t.Errorf("%s", task.Task)
		}
		if env, dir := mailbox.PlaceOf(b.s); env["AREA"] != "web" || dir != "services/nux" {
			t.Errorf("%v, %s", env, dir)
		}
	})
	t.Run("ID-1 CONT-17 the thresholds of a role are those of its agents", func(t *testing.T) {
		b.s = mailbox.Shown(b.s, b.s.Holder.Run, []string{"m1"}, b.now)
		fail := func() time.Duration {
			b.s = mailbox.EndWith(b.s, b.s.Holder.Run, mailbox.Failed, "x", events.AgentAccount{}, b.now)
			wait := b.s.NotBefore.Sub(b.now)
			b.now = b.s.NotBefore
			return wait
		}
		if wait := fail(); wait != time.Minute {
			t.Errorf("the first failure is followed by %s", wait)
		}
		wake()
		if wait := fail(); wait != 2*time.Minute {
			t.Errorf("the second failure is followed by %s", wait)
		}
		if s := mailbox.WakeIn(b.s, b.now, runOf, mailbox.Waking{Role: role}); s.Holder != nil {
			t.Error("it is woken after as many failures as its role permits")
		}
		if s := mailbox.Judge(b.s, mailbox.Finding{}, b.now); s.Life.Alert == nil || s.Life.Alert.Signal != mailbox.SignalCrashLoop {
			t.Errorf("%+v", s.Life.Alert)
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	t.Run("WORK-10 work goes to a free agent, else to a free name of the pool, else to a new name", func(t *testing.T) {
		t.Parallel()
		busy := map[string]bool{}
		free := func(agent string) (bool, error) { return !busy[agent], nil }
		s := mailbox.Opening(mailbox.State{}, "web/worker", at)
		next := func() string {
			got, err := mailbox.Choose(s, "web/worker", []string{"nux", "ada"}, []string{"app/worker/eve", "web/work/x", "web/worker/max"}, free)
			if err != nil {
				t.Fatal(err)
			}
			busy[got] = true
			return strings.TrimPrefix(got, "web/worker/")
		}
		for _, want := range []string{"max", "nux", "ada", "agent-1", "agent-2"} {
			if got := next(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		delete(busy, "web/worker/nux")
		if got := next(); got != "nux" {
			t.Errorf("got %s, and nux is free", got)
		}
	})
	t.Run("WORK-10 of two dispatchers each gets another agent: what waits in the log of the role has its own", func(t *testing.T) {
		t.Parallel()
		s, free := mailbox.Opening(mailbox.State{}, "web/worker", at), func(string) (bool, error) { return true, nil }
		var all []string
		for _, id := range []string{"m1", "m2", "m3"} {
			agent, err := mailbox.Choose(s, "web/worker", []string{"nux", "ada"}, nil, free)
			if err == nil {
				s, err = mailbox.Deliver(s, events.Mail{ID: id, From: "@anna", Body: "x", Priority: "normal", ExpiresAt: at.Add(time.Hour)}, []string{agent}, events.MailBy{}, at)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, agent)
		}
		if got := strings.Join(all, " "); got != "web/worker/nux web/worker/ada web/worker/agent-1" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("WORK-10 an agent that works, is stopped, or has mail is not free", func(t *testing.T) {
		t.Parallel()
		b := newBox(t, "web/worker/nux", events.AddressSpec{Agent: "coder"})
		if !mailbox.Free(mailbox.State{}) || !mailbox.Free(b.s) {
			t.Error("a name that is not taken, and an idle agent, are free")
		}
		b.must(b.send(events.MailDraft{ID: "m1", Body: "x"}))
		if mailbox.Free(b.s) {
			t.Error("it has mail")
		}
		b.wake()
		if b.s = mailbox.Shown(b.s, b.s.Holder.Run, []string{"m1"}, b.now); len(b.s.Pending) != 0 || mailbox.Free(b.s) {
			t.Error("it works")
		}
		c := newBox(t, "web/worker/ada", events.AddressSpec{Agent: "coder"})
		c.must(c.steer(events.MailControl{Action: mailbox.Stop}, c.s.Address))
		if mailbox.Free(c.s) {
			t.Error("it is stopped")
		}
	})
}
