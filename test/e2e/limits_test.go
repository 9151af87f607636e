package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/internal/service"
	"github.com/inspan/inspan/internal/topology"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// parked is a task whose run waits at a gate before its only step.
func parked(id string) events.Task {
	one := 1
	return events.Task{ID: id, Agent: "parker", Task: "wait for a person", Autonomy: &one}
}

const parker = `
turns:
  - text: "done"
`

// room sets the limit of the station's log.
func (w *world) room(bytes int64) {
	w.t.Helper()
	if err := w.conn.Setup().Apply(w.ctx(), "test", jet.ApplyOptions{Limits: topology.Limits{LogBytes: bytes}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) used() int64 {
	w.t.Helper()
	fills, err := w.ports.StationStats.Fills(w.ctx())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range fills {
		if f.Store == "the stream LOG_test" {
			return f.Used
		}
	}
	w.t.Fatal("the log has no limit")
	return 0
}

// heavy is a parked task of 40 KiB.
func heavy(id string) events.Task {
	t := parked(id)
	t.Task = strings.Repeat("heavy ", 40<<10/6)
	return t
}

func TestFullLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "parker"}, parker)
	w.room(64 << 20)
	letters := w.letters()
	w.start()
	for i := range 10 {
		w.task(heavy(fmt.Sprint("early", i)))
		w.await(fmt.Sprint("early", i), "waiting", waiting)
	}
	// taken gives tasks until one is taken on or refused with a code, as want says.
	taken := func(w *world, want string) {
		w.t.Helper()
		ctx := w.ctx()
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprint(strings.Trim(want, "_"), "more", i)
			w.task(heavy(id))
			select {
			case d := <-letters:
				if d.Code == want && d.Hint != "" && d.Reason != "" {
					return
				}
			case <-time.After(1500 * time.Millisecond): // longer than the planner's count is good for
				if w.state(id).Sequence > 0 && want == "" {
					return
				}
			}
		}
		w.t.Fatalf("no task met with %q", want)
	}
	t.Run("SAFE-14 before the log is full new tasks are refused, and runs under way still end", func(t *testing.T) {
		w := w.on(t)
		w.room(w.used() * 100 / 87)
		taken(w, "station_full")
		w.publish(w.opened("early0").AnswerSubject, `{"decision":"approve"}`)
		if s := w.ended("early0"); s.Status != events.Completed {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
	})
	t.Run("SAFE-14 in a log without any room runs stand still, and with room they go on by themselves", func(t *testing.T) {
		w := w.on(t)
		w.room(w.used() + 100) // not one more event
		w.publish(w.opened("early1").AnswerSubject, `{"decision":"approve"}`)
		taken(w, "station_full")
		if s := w.state("early1"); !waiting(s) {
			t.Errorf("the answer was recorded in a full log: %s", s.Status)
		}
		w.room(64 << 20)
		if s := w.ended("early1"); s.Status != events.Completed {
			t.Errorf("%s: %+v", s.Status, s.Result)
		}
		taken(w, "")
	})
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-14 over the limit of running runs tasks wait for their turn, with three planners and a restart of all", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.MaxRuns, c.Patience = 2, time.Hour }
		w.agent(events.Agent{Name: "parker"}, parker)
		all := []*hosted{w.start(), w.start(events.Planner), w.start(events.Planner)}
		w.task(parked("a"))
		w.await("a", "waiting", waiting)
		w.task(parked("b"))
		w.await("b", "waiting", waiting)
		for _, h := range all {
			h.stop()
		}
		w.start()
		w.start(events.Planner)
		w.task(parked("c"))
		w.publish("station.test.run.a.control", `{"action":"pause"}`)
		w.await("a", "paused", func(s run.State) bool { return s.Status == events.Paused })
		if s := w.state("c"); s.Sequence != 0 {
			t.Fatal("a third run began although two have not ended")
		}
		w.publish("station.test.run.a.control", `{"action":"stop"}`)
		w.await("c", "waiting", waiting)
	})
	t.Run("SAFE-14 a task that waited for its patience is refused with what to do", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.MaxRuns, c.Patience = 1, 300*time.Millisecond }
		w.agent(events.Agent{Name: "parker"}, parker)
		letters := w.letters()
		w.start()
		w.task(parked("a"))
		w.await("a", "waiting", waiting)
		w.task(parked("b"))
		if d := w.letter(letters); d.Code != "quota_exceeded" || !strings.Contains(d.Hint, "INSPAN_MAX_RUNS") {
			t.Errorf("%+v", d)
		}
		w.task(parked("a")) // a task that has its run is no new one
		w.publish(w.opened("a").AnswerSubject, `{"decision":"approve"}`)
		w.ended("a")
	})
	t.Run("SAFE-14 SAFE-12 one sender or approver who says too much is refused, others are not", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.SenderPerMinute, c.AnswersPerMinute = 2, 2 }
		w.agent(events.Agent{Name: "parker"}, parker)
		letters := w.letters()
		w.start()
		body := func(id string) string { return `{"id":"` + id + `","agent":"parker","task":"wait","autonomy":1}` }
		for _, id := range []string{"a", "b"} {
			w.publish("station.test.task.loud", body(id))
			w.await(id, "waiting", waiting)
		}
		w.publish("station.test.task.loud", body("c"))
		if d := w.letter(letters); d.Code != "quota_exceeded" || !strings.Contains(d.Hint, "again in") {
			t.Errorf("%+v", d)
		}
		w.publish("station.test.task.quiet", body("d"))
		w.await("d", "waiting", waiting)
		for range 2 {
			w.publish("station.test.run.a.gate.g-none.anna", `{"decision":"approve"}`)
			if d := w.letter(letters); d.Code != "unknown_gate" {
				t.Errorf("%+v", d)
			}
		}
		w.publish(w.opened("a").AnswerSubject+".anna", `{"decision":"approve"}`)
		if d := w.letter(letters); d.Code != "quota_exceeded" || d.Run != "a" {
			t.Errorf("%+v", d)
		}
		w.publish(w.opened("a").AnswerSubject+".bert", `{"decision":"approve"}`)
		w.ended("a")
	})
	t.Run("SAFE-14 no more gates of a run stand open than its limit, and each answer opens the next", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.tune = func(c *service.Config) { c.MaxGates = 2 }
		w.agent(events.Agent{Name: "parker"}, parker)
		w.start()
		task := parked("many")
		task.Plan = &events.TaskPlan{}
		for i := range 5 {
			task.Plan.Steps = append(task.Plan.Steps, events.TaskStep{ID: fmt.Sprint("s", i), Description: "wait"})
		}
		w.task(task)
		for range 5 {
			s := w.await("many", "waiting at no more than two gates", waiting)
			if open := len(s.Waiting()); open > 2 {
				t.Errorf("%d gates stand open", open)
			}
			g := s.Waiting()[0].ID
			w.publish(events.GateSubject("test", "many", g), `{"decision":"approve"}`)
			w.await("many", "answered", func(s run.State) bool { return s.Gate(g).Status != run.GatePending })
		}
		if s := w.ended("many"); s.Status != events.Completed || len(s.Gates) != 5 {
			t.Errorf("%s with %d gates", s.Status, len(s.Gates))
		}
	})
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "parker"}, parker)
	letters := w.letters()
	w.start()
	t.Run("SAFE-15 SAFE-12 a task that grows too large for an event is refused once, not tried for ever", func(t *testing.T) {
		w := w.on(t)
		// A bracket is one byte of the message and six of an event.
		w.publish(events.TaskSubject("test"), `{"id":"big","agent":"parker","task":"x","variables":{"v":"`+strings.Repeat("<", 200<<10)+`"}}`)
		if d := w.letter(letters); d.Code != "too_large" || d.Hint == "" {
			t.Errorf("%+v", d)
		}
		if s := w.state("big"); s.Sequence != 0 {
			t.Errorf("it left %d events", s.Sequence)
		}
	})
}
