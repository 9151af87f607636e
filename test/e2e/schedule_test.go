package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// movedClock is the clock of schedules that a test moves. Their timers are set in the server when their time has come.
type movedClock struct {
	kernel.Timers
	mu  sync.Mutex
	at  time.Time
	set map[string]time.Time
}

func (c *movedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Set implements kernel.Timers.
func (c *movedClock) Set(ctx context.Context, id, name string, at time.Time, after uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.at) {
		c.set[id+"."+name] = at
		return nil
	}
	delete(c.set, id+"."+name)
	return c.Timers.Set(ctx, id, name, time.Now(), after)
}

// move sets the clock and has the timers fire that are due.
func (c *movedClock) move(w *world, to time.Time) {
	w.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = to
	for key, at := range c.set {
		if id, name, _ := strings.Cut(key, "."); !at.After(to) {
			delete(c.set, key)
			if err := c.Timers.Set(w.ctx(), id, name, time.Now(), 0); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// schedules gives a world a clock that is moved.
func (w *world) scheduled(start string) *movedClock {
	w.t.Helper()
	at, err := time.Parse(time.RFC3339, start)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &movedClock{Timers: w.ports.ScheduleTimers, at: at, set: map[string]time.Time{}}
	w.ports.ScheduleTimers, w.ports.ScheduleClock = c, c.Now
	return c
}

func (w *world) setSchedule(id string, spec events.ScheduleSpec) {
	w.t.Helper()
	b, err := json.Marshal(events.ScheduleControl{Action: "set", Spec: &spec, By: "anna"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.publish(events.ScheduleSubject("test", id), string(b))
	w.scheduleIs(id, "set", func(s schedule.State) bool { return s.Exists() })
}

// schedule folds a schedule from its log.
func (w *world) schedule(id string) schedule.State {
	w.t.Helper()
	l, err := schedule.NewLedger(schedule.LedgerConfig{Station: "test", By: events.Planner, Journal: w.ports.ScheduleLog, Entropy: rand.Reader})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := l.Fresh(w.ctx(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) scheduleIs(id, what string, want func(schedule.State) bool) (s schedule.State) {
	w.t.Helper()
	w.until("schedule "+id+" is "+what, func() bool { s = w.schedule(id); return want(s) })
	return s
}

// firings are the events of a schedule, in short.
func (w *world) firings(id string) []string {
	w.t.Helper()
	var all []string
	for after, more := uint64(0), true; more; {
		var batch []kernel.Record
		var err error
		if batch, more, err = w.ports.ScheduleLog.Read(w.ctx(), id, after); err != nil {
			w.t.Fatal(err)
		}
		for _, r := range batch {
			_, p, err := events.ReadAs(r.Bytes, events.ScheduleAggregate, events.LookupSchedule)
			if err != nil {
				w.t.Fatal(err)
			}
			text := strings.TrimPrefix(string(p.Kind()), "schedule.")
			switch d := p.(type) {
			case *events.ScheduleFiredData:
				text += fmt.Sprintf(" %d at %s", d.Number, d.At.Format("02T15:04"))
			case *events.ScheduleSkippedData:
				text += fmt.Sprintf(" %d %s until %s", d.Count, d.Reason, d.Last.Format("02T15:04"))
			case *events.ScheduleEndedData:
				text += fmt.Sprintf(" %d %s", d.Number, d.FinishReason)
			case *events.ScheduleRefusedData:
				text += fmt.Sprintf(" %d %s", d.Number, d.Code)
			}
			all, after = append(all, text), r.Seq
		}
	}
	return all
}

func (w *world) fired(id string, want ...string) {
	w.t.Helper()
	if got := w.firings(id); strings.Join(got, "; ") != strings.Join(want, "; ") {
		w.t.Errorf("schedule %s:\ngot  %s\nwant %s", id, strings.Join(got, "; "), strings.Join(want, "; "))
	}
}

// nightly answers, and waits for a person where the task says so.
const nightly = `
turns:
  - when: {turn: 1, message: {contains: "wait"}}
    text: I ask.
    calls:
      - {name: bash, input: {command: echo waited}}
  - when: {}
    text: Done.
`

func idle(s schedule.State) bool { return s.Fired > 0 && len(s.Open) == 0 }

func doneWith(n int) func(schedule.State) bool {
	return func(s schedule.State) bool { return s.Fired == n && len(s.Open) == 0 }
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "nightly", Tools: []string{"bash"}, Prompt: "You review.", Guards: ask}, nightly)
	clock := w.scheduled("2026-10-23T12:00:00Z")
	w.start()
	others := w.start(events.Planner)
	letters := w.letters()
	day := func(n int) time.Time { return time.Date(2026, 10, n, 2, 0, 30, 0, time.UTC) }

	t.Run("TRIG-5 a firing starts one run with two planners, at the local time of the schedule", func(t *testing.T) {
		w := w.on(t)
		w.setSchedule("nightly", events.ScheduleSpec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Task: events.ScheduledTask{Agent: "nightly", Task: "review"}})
		clock.move(w, time.Date(2026, 10, 24, 0, 30, 1, 0, time.UTC)) // 2:30 in Berlin, in summer
		s := w.scheduleIs("nightly", "idle", doneWith(1))
		clock.move(w, time.Date(2026, 10, 25, 0, 30, 1, 0, time.UTC)) // the first 2:30 of the night with two
		w.scheduleIs("nightly", "idle", doneWith(2))
		clock.move(w, time.Date(2026, 10, 25, 1, 30, 1, 0, time.UTC)) // the second
		clock.move(w, time.Date(2026, 10, 26, 1, 30, 1, 0, time.UTC)) // in winter
		w.scheduleIs("nightly", "idle", doneWith(3))
		w.fired("nightly", "created", "fired 1 at 24T00:30", "ended 1 agent_done", "fired 2 at 25T00:30", "ended 2 agent_done", "fired 3 at 26T01:30", "ended 3 agent_done")
		r := w.state(s.Last.Run)
		if f := r.Created.Firing; f == nil || f.Schedule != "nightly" || f.Number != 1 || r.Created.By != "anna" || w.count(s.Last.Run)["run.created"] != 1 {
			t.Errorf("%+v %v", r.Created, w.kinds(s.Last.Run))
		}
	})
	t.Run("TRIG-5 a task of an outsider with the id of a firing is refused", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: w.schedule("nightly").Last.Run, Agent: "nightly", Task: "mine"})
		if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, events.FiringPrefix) {
			t.Errorf("%+v", d)
		}
	})
	t.Run("TRIG-6 each firing continues in the session of the schedule", func(t *testing.T) {
		w := w.on(t)
		clock.move(w, day(27))
		w.setSchedule("bound", events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "nightly", Task: "go on", Session: "night"}})
		for n := range 2 {
			clock.move(w, day(27).Add(time.Duration(n+1)*time.Hour))
			s := w.scheduleIs("bound", "idle", doneWith(n+1))
			if r := w.state(s.Last.Run); r.Created.Session != "night" || (r.Created.History != nil) != (n > 0) {
				t.Errorf("firing %d: %+v", n+1, r.Created)
			}
		}
		w.publish(events.ScheduleSubject("test", "bound"), `{"action":"remove"}`)
		w.scheduleIs("bound", "removed", func(s schedule.State) bool { return !s.Exists() })
		clock.move(w, day(28))
		w.scheduleIs("nightly", "idle", doneWith(5))
		if s := w.schedule("bound"); s.Fired != 2 {
			t.Errorf("it fired after it was removed: %+v", s)
		}
	})
	t.Run("TRIG-5 overlaps are skipped, or wait for the end of the run before", func(t *testing.T) {
		w := w.on(t)
		for _, policy := range []events.OverlapPolicy{events.OverlapSkip, events.OverlapQueue} {
			w.setSchedule(string(policy), events.ScheduleSpec{Every: "1h", Overlap: policy, Task: events.ScheduledTask{Agent: "nightly", Task: "wait"}})
		}
		for n := range 2 {
			clock.move(w, clock.Now().Add(time.Hour))
			for _, id := range []string{"skip", "queue"} {
				s := w.scheduleIs(id, "handled", func(s schedule.State) bool { return s.Fired+s.Skipped == n+1 })
				w.await(s.Open[0].Run, "waiting", waiting)
			}
		}
		second := w.schedule("queue").Open[1].Run
		if w.state(second).Sequence > 0 {
			t.Error("the queued run exists already")
		}
		for _, id := range []string{"skip", "queue"} {
			w.publish(events.ControlSubject("test", w.schedule(id).Open[0].Run), `{"action":"stop"}`)
		}
		w.await(second, "waiting", waiting)
		w.publish(events.ControlSubject("test", second), `{"action":"stop"}`)
		w.scheduleIs("queue", "idle", doneWith(2))
		w.scheduleIs("skip", "idle", idle)
		w.fired("skip", "created", "fired 1 at 28T03:00", "skipped 1 overlap until 28T04:00", "ended 1 stopped")
		w.fired("queue", "created", "fired 1 at 28T03:00", "fired 2 at 28T04:00", "ended 1 stopped", "ended 2 stopped")
	})
	others.stop()
}

// cutRuns is the log of runs for roles that die before they create the run of a firing.
type cutRuns struct {
	kernel.Journal
	once  sync.Once
	tried chan struct{}
}

// Append implements kernel.Journal.
func (c *cutRuns) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	if e.Kind != events.RunCreated {
		return c.Journal.Append(ctx, e)
	}
	c.once.Do(func() { close(c.tried) })
	return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
}

func TestScheduleDowntime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "nightly", Tools: []string{"write"}, Prompt: "You review."}, nightly)
	clock := w.scheduled("2026-05-01T00:00:00Z")
	services := w.start()
	for id, spec := range map[string]events.ScheduleSpec{
		"none": {Missed: events.MissedSkip}, "one": {}, "all": {Missed: events.MissedAll, Overlap: events.OverlapQueue},
		"two": {Missed: events.MissedAll, MissedLimit: 2, Overlap: events.OverlapAllow},
	} {
		spec.Cron, spec.Task = "0 * * * *", events.ScheduledTask{Agent: "nightly", Task: "review"}
		w.setSchedule(id, spec)
	}
	services.stop()
	t.Run("TRIG-5 times that passed while the station was down are skipped, stand for one firing, or fire all", func(t *testing.T) {
		w := w.on(t)
		clock.move(w, time.Date(2026, 5, 1, 3, 30, 0, 0, time.UTC))
		w.start()
		w.start(events.Planner)
		w.scheduleIs("none", "handled", func(s schedule.State) bool { return s.Skipped == 3 })
		w.scheduleIs("one", "idle", doneWith(1))
		w.scheduleIs("two", "idle", doneWith(2))
		w.scheduleIs("all", "idle", doneWith(3))
		w.fired("none", "created", "skipped 2 missed until 01T02:00", "skipped 1 missed until 01T03:00")
		w.fired("one", "created", "fired 1 at 01T03:00", "ended 1 agent_done")
		for id, want := range map[string]int{"all": 3, "two": 2} {
			n := 0
			for _, e := range w.firings(id) {
				if strings.HasPrefix(e, "fired ") {
					n++
				}
			}
			if n != want {
				t.Errorf("%s fired %d times, want %d: %q", id, n, want, w.firings(id))
			}
		}
	})
}

func TestScheduleCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "nightly", Tools: []string{"write"}, Prompt: "You review."}, nightly)
	clock := w.scheduled("2026-05-01T00:00:00Z")
	whole, cut := w.ports.Journal, &cutRuns{Journal: w.ports.Journal, tried: make(chan struct{})}
	w.ports.Journal = cut
	first := w.start()
	w.setSchedule("cut", events.ScheduleSpec{Every: "1h", Task: events.ScheduledTask{Agent: "nightly", Task: "review"}})
	clock.move(w, clock.Now().Add(time.Hour))
	t.Run("TRIG-5 SAFE-3 a firing whose planner died before its run existed starts one run", func(t *testing.T) {
		w := w.on(t)
		select {
		case <-cut.tried:
		case <-w.ctx().Done():
			t.Fatal("nothing fired")
		}
		first.stop()
		s := w.schedule("cut")
		if len(s.Open) != 1 || w.state(s.Open[0].Run).Sequence != 0 {
			t.Fatalf("%+v", s)
		}
		w.ports.Journal = whole
		w.start()
		w.start(events.Planner)
		if r := w.await(s.Open[0].Run, "ended", func(s run.State) bool { return s.Status.Ended() }); r.Status != events.Completed {
			t.Errorf("%+v", r.Result)
		}
		w.scheduleIs("cut", "idle", doneWith(1))
		w.fired("cut", "created", "fired 1 at 01T01:00", "ended 1 agent_done")
	})
}
