package e2e

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestRemind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "ask", Tool: "bash", Action: "ask",
		Gate: events.GateTerms{GateReminders: events.GateReminders{
			RemindMS: 150, EscalateMS: 400, EscalateTo: "leads"}}}}
	w.agent(events.Agent{Name: "asker", Tools: []string{"bash"}, Guards: ask}, calling("bash", `{command: "true"}`))
	roles := w.start()
	reminded := func(s run.State) []*events.GateRemindedData { return said[*events.GateRemindedData](w, s.HarnessID) }
	t.Run("PLUS-23a people are called again while a gate waits, others after a time, each once, over a restart; "+
		"an answer ends it", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "slow", Agent: "asker", Task: "go"})
		w.await("slow", "two reminders", func(s run.State) bool { return len(s.Gates) == 1 && s.Gates[0].Reminded >= 2 })
		roles.stop()
		before := w.state("slow").Gates[0].Reminded
		roles = w.start()
		s := w.await("slow", "escalated", func(s run.State) bool {
			all := reminded(s)
			return len(all) > 0 && all[len(all)-1].To == "leads" &&
				(s.Gates[0].Reminded > before || before == events.MaxReminders) // a slow machine may be through with them
		})
		last := 0
		for _, d := range reminded(s) {
			after, to, ok := s.Gates[0].Reminder(d.Number)
			if !ok || d.Number <= last || d.To != to || d.WaitMS < after.Milliseconds() {
				t.Errorf("%+v behind reminder %d", d, last)
			}
			last = d.Number
		}
		w.answerAs(w.opened("slow"), "anna", events.Answer{Decision: "approve"})
		if s := w.ended("slow"); s.Status != events.Completed {
			t.Fatalf("%+v", s.Result)
		}
		all := said[*events.GateRemindedData](w, "slow")
		if len(all) > events.MaxReminders {
			t.Errorf("%d reminders", len(all))
		}
	})
}
