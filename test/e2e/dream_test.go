package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/report"
	"github.com/inspan/inspan/internal/kernel"
	"github.com/inspan/inspan/internal/schedule"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

// dreams are the checkpoints of a run that its clock took.
func dreams(s run.State) (all []run.Checkpoint) {
	for _, c := range run.All(s.Checkpoints) {
		if strings.HasPrefix(c.Name, "interval-") {
			all = append(all, c)
		}
	}
	return all
}

func TestDream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 8)
	began := make(chan struct{}, 8)
	held := &probe{name: "held", effect: tool.Idempotent, limit: time.Hour, do: func(ctx context.Context, _ int64, _ tool.Call) (tool.Result, error) {
		began <- struct{}{}
		select {
		case <-gate:
			return tool.Result{Output: "let go"}, nil
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}}
	w := newWorld(t, held)
	w.agent(events.Agent{Name: "dreamer", Tools: []string{"held"}}, `
turns:
  - {when: {turn: 1}, calls: [{name: held, input: {}}]}
  - {when: {turn: 2}, calls: [{name: held, input: {}}]}
  - text: I woke up.
`)
	w.start()
	w.start(events.Planner)
	w.start(events.Planner)
	letters := w.letters()
	const id = "night"
	t.Run("PERS-7 TEST-4 a run in Dream Mode checkpoints itself while it works, once for each interval with three planners", func(t *testing.T) {
		w := w.on(t)
		two, five := int64(2000), 5
		w.task(events.Task{ID: id, Agent: "dreamer", Task: "dream", Mode: events.ModeDream, CheckpointIntervalMS: &two, Autonomy: &five})
		for n := range 2 {
			<-began
			w.await(id, fmt.Sprintf("at checkpoint %d in its sleep", n+1), func(s run.State) bool { return len(dreams(s)) > n && s.CheckpointCovers > 0 })
			gate <- struct{}{}
		}
		s := w.ended(id)
		if s.Status != events.Completed || s.Direct() || s.Options.Mode != events.ModeDream {
			t.Fatalf("%+v", s.Result)
		}
		for i, c := range run.Slice(s.Checkpoints) {
			if want := events.IntervalCheckpoint(i + 1); c.Number != i+1 || i < s.CheckpointCount-1 && c.Name != want {
				t.Errorf("checkpoint %d is %+v", i+1, c)
			}
		}
		if n := w.count(id); n["checkpoint.taken"] != len(dreams(s)) || n["call.finished"] != 2 || s.Options.TimeoutMS != events.UnattendedTimeout.Milliseconds() {
			t.Errorf("%v %+v", n, s.Options)
		}
	})
	t.Run("PERS-9 its checkpoints are as far apart as its level of autonomy says, and no closer", func(t *testing.T) {
		w := w.on(t)
		last := *w.state(id).StartedAt
		for _, r := range w.events(id) {
			f, p, err := events.Read(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := p.(*events.CheckpointTakenData); ok {
				if f.Time.Sub(last) < time.Second || d.IntervalMS != 1000 {
					t.Errorf("%s after %s: %+v", d.Name, f.Time.Sub(last), d)
				}
				last = f.Time
			}
		}
	})
	t.Run("PERS-7 PERS-10 a run is restored from a checkpoint of the clock, by its name", func(t *testing.T) {
		w := w.on(t)
		gate <- struct{}{}
		gate <- struct{}{}
		first := dreams(w.state(id))[0]
		w.task(events.Task{ID: "restored", ForkOf: &events.ForkPoint{Run: id, Checkpoint: first.Name}})
		// Where a call was under way then, no one knows its effect: the other run asks before it is made again.
		s := w.await("restored", "asking or ended", func(s run.State) bool { return waiting(s) || s.Status.Ended() })
		if waiting(s) {
			w.publish(events.GateSubject("test", "restored", s.Waiting()[0].ID), `{"decision":"approve","by":"anna"}`)
		}
		s = w.ended("restored")
		if s.Status != events.Completed || s.Created.ForkOf.Sequence != first.Sequence {
			t.Errorf("%+v of %+v", s.Result, s.Created.ForkOf)
		}
	})
	t.Run("PERS-20 a run that ended in Dream Mode has a report, made from its log", func(t *testing.T) {
		w := w.on(t)
		if text := w.report(id); !strings.Contains(text, "| Mode | dream |") || !strings.Contains(text, "    I woke up.") || !strings.Contains(text, "done, unverified") {
			t.Errorf("%s", text)
		}
	})
	t.Run("PERS-20 a mode that cannot be is refused", func(t *testing.T) {
		w := w.on(t)
		for _, body := range []string{`{"agent":"dreamer","task":"x","mode":"asleep"}`, `{"agent":"dreamer","task":"x","mode":"overnight"}`,
			`{"agent":"dreamer","task":"x","mode":"dream","eternal_engine_enabled":false}`} {
			w.publish(events.TaskSubject("test"), body)
			if d := w.letter(letters); d.Code != "bad_input" || !strings.Contains(d.Reason, "mode") {
				t.Errorf("%s: %+v", body, d)
			}
		}
	})
}

// report is that of an ended run, once it is stored. It must be what its log says.
func (w *world) report(id string) string {
	w.t.Helper()
	i := w.row(id, func(i run.Info) bool { return i.Report != nil })
	stored, err := w.ports.Blobs.Get(w.ctx(), *i.Report)
	if err != nil {
		w.t.Fatal(err)
	}
	var lines [][]byte
	for _, r := range w.events(id) {
		lines = append(lines, r.Bytes)
	}
	if text, err := report.Of(lines); err != nil || text != string(stored) {
		w.t.Errorf("the report is not what the log says: %v\n%s\n%s", err, text, stored)
	}
	return string(stored)
}

// dying is the log of runs for processes that die before they append an event of a kind.
type dying struct {
	kernel.Journal
	at   events.Kind
	once sync.Once
	dead chan struct{}
}

// Append implements kernel.Journal.
func (d *dying) Append(ctx context.Context, e kernel.Entry) kernel.Ack {
	select {
	case <-d.dead:
		return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process is dead")}
	default:
	}
	if e.Kind == d.at {
		d.once.Do(func() { close(d.dead) })
		return kernel.Ack{Outcome: kernel.Transient, Err: errors.New("the process dies here")}
	}
	return d.Journal.Append(ctx, e)
}

// phased is a script that marks once and then ends.
const phased = `
turns:
  - {when: {turn: 1}, calls: [{name: mark, input: {}}], usage: {input: 90, output: 10}}
  - {text: Marked., usage: {input: 190, output: 10}}
`

func TestOvernight(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	done := map[string]int{}
	mark := &probe{name: "mark", effect: tool.Once, do: func(_ context.Context, _ int64, c tool.Call) (tool.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		done[c.Run]++
		return tool.Result{Output: "marked"}, nil
	}}
	marks := func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return done[id]
	}
	w := newWorld(t, mark)
	for _, name := range []string{"architect", "coder", "docs"} {
		w.agent(events.Agent{Name: name, Tools: []string{"mark"}}, phased)
	}
	clock := w.scheduled("2026-10-23T12:00:00Z")
	phases := []events.Phase{{Name: "explore", Agent: "architect"}, {Name: "build", Accept: accept("true")},
		{Name: "report", Agent: "docs", Task: "Write down what was done."}}
	spec := events.ScheduleSpec{Every: "24h", Mode: events.ModeOvernight, Phases: phases, CheckpointInterval: "1h",
		Task: events.ScheduledTask{Agent: "coder", Task: "make it faster", MaxTokens: 100_000}}
	whole := w.ports.Journal
	first := w.start()
	w.setSchedule("night", spec)
	first.stop()
	clock.move(w, clock.Now().Add(24*time.Hour))
	t.Run("PERS-8 PERS-20 TEST-4 a night goes on from its last phase after each restart of everything, and nothing is done twice", func(t *testing.T) {
		w := w.on(t)
		for _, at := range []events.Kind{events.PlanMade, events.StepFinished, events.StepReady, events.CheckPassed, events.PlanCompleted, events.RunCompleted} {
			d := &dying{Journal: whole, at: at, dead: make(chan struct{})}
			w.ports.Journal = d
			h := w.start()
			select {
			case <-d.dead:
			case <-w.ctx().Done():
				t.Fatalf("nothing came to %s: %v", at, w.firings("night"))
			}
			h.stop()
		}
		w.ports.Journal = whole
		w.start()
		s := w.scheduleIs("night", "done", doneWith(1))
		id := s.Last.Run
		r := w.state(id)
		n := w.count(id)
		if r.Status != events.Completed || marks(id) != 3 || n["call.started"] != 3 || n["step.finished"] != 3 || n["run.created"] != 1 {
			t.Errorf("%d marks, %v, %+v", marks(id), n, r.Result)
		}
		names := []string{}
		for _, c := range run.All(r.Checkpoints) {
			names = append(names, c.Name)
		}
		if strings.Join(names, " ") != "step-explore step-build step-report" || r.Options.Mode != events.ModeOvernight || r.Options.CheckpointIntervalMS != time.Hour.Milliseconds() {
			t.Errorf("checkpoints %v, %+v", names, r.Options)
		}
		w.fired("night", "created", "fired 1 at 24T12:00", "ended 1 agent_done")
	})
	w.start() // those before ended with their test
	t.Run("PERS-20 in the morning a report says per phase what was done, what was verified and what it cost", func(t *testing.T) {
		w := w.on(t)
		text := w.report(w.schedule("night").Last.Run)
		for _, want := range []string{"| Schedule | night, firing 1 for 2026-10-24 12:00:00 UTC |", "### 1. explore: done, unverified", "### 2. build: done, verified",
			"### 3. report: done, unverified", "- passed: true", "| Phases | 3 of 3 done, 1 verified |", "900 tokens of at most 100000", "3 tool calls of at most 2000",
			"Nothing: all phases are done."} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	})
	t.Run("PERS-20 a budget that is used up in the night ends the run with its reason, and the report says what is left", func(t *testing.T) {
		w := w.on(t)
		spec.Task.MaxTokens = 5000
		w.setSchedule("short", spec)
		clock.move(w, clock.Now().Add(24*time.Hour))
		s := w.scheduleIs("short", "done", idle)
		r := w.state(s.Last.Run)
		text := w.report(s.Last.Run)
		if r.Status != events.Failed || !strings.Contains(r.Result.Error, "of its 5000 tokens") || !strings.Contains(text, "of its 5000 tokens") ||
			!strings.Contains(text, "## What is left\n\n- ") {
			t.Errorf("%+v\n%s", r.Result, text)
		}
		w.scheduleIs("night", "done", doneWith(2))
	})
}

func TestScheduleReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := []events.Rule{{ID: "loud", Tool: "bash", Match: events.Match{Glob: "echo *"}, Action: "ask", Reason: "echo is loud"}}
	w.agent(events.Agent{Name: "nightly", Tools: []string{"bash"}, Prompt: "You review.", Guards: ask}, nightly)
	clock := w.scheduled("2026-05-01T00:00:00Z")
	w.start()
	w.start(events.Planner)
	w.start(events.Planner)
	spec := events.ScheduleSpec{Every: "1h", Overlap: events.OverlapReplace, Task: events.ScheduledTask{Agent: "nightly", Task: "wait", Session: "desk"}}
	w.setSchedule("fresh", spec)
	t.Run("TRIG-5 with overlap replace the run before is stopped first, and the next begins when it has ended", func(t *testing.T) {
		w := w.on(t)
		var ids []string
		for n := range 3 {
			clock.move(w, clock.Now().Add(time.Hour))
			s := w.scheduleIs("fresh", "replaced", func(s schedule.State) bool { return s.Fired == n+1 && len(s.Open) == 1 && s.Open[0].Number == n+1 })
			ids = append(ids, s.Open[0].Run)
			w.await(ids[n], "waiting", waiting)
		}
		for n, id := range ids[:2] {
			old, next := w.state(id), w.state(ids[n+1])
			if old.Result.FinishReason != events.FinishStopped || old.Result.By != "schedule fresh" || !next.CreatedAt.After(*old.EndedAt) {
				t.Errorf("%+v ended at %s, the next was created at %s", old.Result, old.EndedAt, next.CreatedAt)
			}
		}
		w.fired("fresh", "created", "fired 1 at 01T01:00", "fired 2 at 01T02:00", "ended 1 stopped", "fired 3 at 01T03:00", "ended 2 stopped")
	})
}

func TestScheduleJitter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "nightly", Tools: []string{"write"}, Prompt: "You review."}, nightly)
	clock := w.scheduled("2026-05-01T00:00:00Z")
	w.start()
	w.start(events.Planner)
	w.start(events.Planner)
	w.setSchedule("late", events.ScheduleSpec{Cron: "0 2 * * *", Jitter: "2h", Task: events.ScheduledTask{Agent: "nightly", Task: "review"}})
	t.Run("TRIG-5 a time with jitter fires once, later than its time and at the same moment for all planners", func(t *testing.T) {
		w := w.on(t)
		s := w.schedule("late")
		at := schedule.Next(s.Schedule, 1)[0]
		nominal := time.Date(2026, 5, 1, 2, 0, 0, 0, time.UTC)
		if !at.After(nominal) || at.Sub(nominal) >= 2*time.Hour {
			t.Fatalf("it fires at %s", at)
		}
		clock.move(w, at.Add(-time.Second))
		clock.move(w, at)
		w.scheduleIs("late", "done", doneWith(1))
		w.fired("late", "created", "fired 1 at 01T02:00", "ended 1 agent_done")
	})
}

func TestScheduleFile(t *testing.T) {
	t.Parallel()
	t.Run("TRIG-5 PERS-20 what the control subject refuses of modes and phases says why", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.agent(events.Agent{Name: "coder"}, nightly)
		w.start(events.Planner)
		letters := w.letters()
		for want, spec := range map[string]events.ScheduleSpec{
			"ghost":            {Mode: events.ModeOvernight, Phases: []events.Phase{{Name: "a", Agent: "ghost"}}},
			"overnight needs":  {Mode: events.ModeOvernight},
			"want normal":      {Mode: "asleep"},
			"jitter":           {Jitter: "1ms"},
			"two phases":       {Mode: events.ModeDream, Phases: []events.Phase{{Name: "a"}, {Name: "a"}}},
			"phases[0]: name ": {Mode: events.ModeDream, Phases: []events.Phase{{Name: "a b"}}},
		} {
			spec.Every, spec.Task = "1h", events.ScheduledTask{Agent: "coder", Task: "x"}
			b, err := json.Marshal(events.ScheduleControl{Action: "set", Spec: &spec})
			if err != nil {
				t.Fatal(err)
			}
			w.publish(events.ScheduleSubject("test", "bad"), string(b))
			if d := w.letter(letters); !strings.Contains(d.Reason, want) {
				t.Errorf("got %+v, want %q", d, want)
			}
		}
	})
}
