package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/jet"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/tool"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "echo"}, `
turns:
  - when: {step: bad}
    error: {class: invalid, message: no such thing}
  - when: {step: flaky, attempt: {from: 1, to: 2}}
    error: {class: transient, status: 529, message: overloaded}
  - when: {step: silent}
    text: cut in the middle of
    finish: length
  - text: "output of {{step}}"
`)
	w.agent(events.Agent{Name: "other"}, `
turns:
  - when: {message: {contains: "output of a"}}
    text: "other saw a"
`)
	w.agent(events.Agent{Name: "architect", Plan: "model"}, `
turns:
  - when: {purpose: plan}
    text: '{"steps":[{"id":"one","description":"first","dependencies":[],"critical":false},{"id":"two","description":"second","agent":"echo","dependencies":["one"],"critical":false}]}'
  - text: "done {{step}}"
`)
	w.agent(events.Agent{Name: "muddled", Plan: "model"}, `
turns:
  - when: {purpose: plan}
    error: {class: invalid, message: no such model}
`)
	w.start()
	plan := func(steps ...events.TaskStep) *events.TaskPlan { return &events.TaskPlan{Steps: steps} }
	step := func(id string, needs ...string) events.TaskStep {
		return events.TaskStep{ID: id, Description: "do " + id, Needs: needs}
	}
	five := 5

	t.Run("PLAN-1 PLAN-5 PLAN-7 PLAN-8 PLAN-13 a diamond runs in the order of its dependencies", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "diamond", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))})
		s := w.ended("diamond")
		if s.Status != events.Completed || s.Result.Output != "output of d" || s.Result.StepsCompleted != 4 {
			t.Fatalf("%+v", s.Result)
		}
		at := map[string]int{}
		for i, r := range w.events("diamond") {
			f, p, err := events.Read(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			switch d := p.(type) {
			case *events.StepReadyData:
				at["ready "+d.Step] = i
			case *events.StepFinishedData:
				at["finished "+d.Step] = i
			}
			_ = f
		}
		for _, pair := range [][2]string{{"finished a", "ready b"}, {"finished a", "ready c"}, {"finished b", "ready d"}, {"finished c", "ready d"}} {
			if at[pair[0]] >= at[pair[1]] {
				t.Errorf("%s came after %s", pair[0], pair[1])
			}
		}
		if n := w.count("diamond"); n["plan.completed"] != 1 || n["plan.made"] != 1 {
			t.Errorf("OBS-26: %v", n)
		}
	})
	t.Run("PERS-1 PERS-11 OBS-22 each step that ended is one checkpoint, with its number, and the last state can be loaded", func(t *testing.T) {
		w := w.on(t)
		s := w.state("diamond")
		if s.CheckpointCount != 4 || s.LastCheckpointAt == nil {
			t.Errorf("got %d checkpoints of 4 steps", s.CheckpointCount)
		}
		numbers := map[int]bool{}
		for _, r := range w.events("diamond") {
			if _, p, err := events.Read(r.Bytes); err != nil {
				t.Fatal(err)
			} else if d, ok := p.(*events.StepFinishedData); ok {
				numbers[d.Checkpoint] = true
			}
		}
		for n := 1; n <= 4; n++ {
			if !numbers[n] {
				t.Errorf("no end of a step emitted the number of checkpoint %d: %v", n, numbers)
			}
		}
		// A persister that is behind may see the run first when it has ended: then its row and archive are what is stored.
		for ctx := w.ctx(); ; {
			_, snapshot := w.ports.State.Get(ctx, "snap.diamond")
			var row run.Info
			stored, err := w.ports.State.Get(ctx, "run.diamond")
			if err == nil {
				err = json.Unmarshal(stored, &row)
			}
			if snapshot == nil || err == nil && row.Status == events.Completed {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("neither a snapshot nor a row of the end: %v, %v", snapshot, err)
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	t.Run("PERS-10 each checkpoint has a name of its own, and a run can be restored from each", func(t *testing.T) {
		w := w.on(t)
		all := run.Slice(w.state("diamond").Checkpoints)
		names := map[string]uint64{}
		for _, c := range all {
			names[c.Name] = c.Sequence
		}
		if len(all) != 4 || len(names) != 4 {
			t.Fatalf("got %+v", all)
		}
		var lines [][]byte
		for _, r := range w.events("diamond") {
			lines = append(lines, r.Bytes)
		}
		for n, id := range []string{"a", "b", "c", "d"} {
			name := events.StepCheckpoint(id)
			at, err := run.Fold(run.State{}, lines[:names[name]]...)
			if err != nil || at.Step(id).Status != events.StepIsCompleted {
				t.Fatalf("%s: step %s is %+v, %v", name, id, at.Step(id), err)
			}
			fork := fmt.Sprintf("diamond-%d", n)
			w.task(events.Task{ID: fork, ForkOf: &events.ForkPoint{Run: "diamond", Checkpoint: name}})
			s := w.ended(fork)
			done, _ := at.StepsCompleted()
			if s.Status != events.Completed || s.Created.ForkOf.Sequence != names[name] || s.CheckpointCount != 4-done {
				t.Errorf("%s: %s, forked after event %d, %d checkpoints of its own, want %d and %d", name, s.Status, s.Created.ForkOf.Sequence, s.CheckpointCount, names[name], 4-done)
			}
		}
		for i, from := range []events.ForkPoint{{Run: "diamond", Checkpoint: "step-none"}, {Run: "nowhere", Checkpoint: "step-a"}, {Run: "diamond"}, {Run: "diamond", Checkpoint: "step-a", Sequence: 3}} {
			letters := w.letters()
			w.task(events.Task{ID: fmt.Sprint("lost", i), ForkOf: &from})
			d := w.letter(letters)
			if want := []string{"bad_fork", "unknown_run", "bad_input", "bad_input"}[i]; d.Code != want || i == 0 && !strings.Contains(d.Reason, "step-a, step-") {
				t.Errorf("%+v: got %s, %s, want %s", from, d.Code, d.Reason, want)
			}
		}
	})
	t.Run("PERS-1 a step that failed is a checkpoint too; a blocked one, which never began, is none", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "halves", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("free"), step("bad", "free"), step("after", "bad"))})
		var names []string
		for _, c := range run.All(w.ended("halves").Checkpoints) {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); got != "step-free step-bad" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("PLAN-6ab OBS-26b a failed step blocks what depends on it, the others finish, the run fails", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "broken", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("bad"), step("after", "bad"), step("later", "after"), step("free"))})
		s := w.ended("broken")
		want := map[string]events.StepStatus{"bad": events.StepIsFailed, "after": events.StepIsBlocked, "later": events.StepIsBlocked, "free": events.StepIsCompleted}
		for id, status := range want {
			if got := s.Step(id).Status; got != status {
				t.Errorf("%s is %s, want %s", id, got, status)
			}
		}
		if s.Status != events.Failed || !strings.Contains(s.Result.Error, "no such thing") || len(s.Result.BlockedSteps) != 2 {
			t.Errorf("LIFE-18: %+v", s.Result)
		}
	})
	t.Run("PLUS-7 LOOP-4 a model request that may pass is made again later, with the attempt in the log", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "flaky", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("flaky"))})
		s := w.ended("flaky")
		if n := w.count("flaky"); s.Status != events.Completed || n["turn.deferred"] != 2 {
			t.Errorf("%+v %v", s.Result, n)
		}
	})
	t.Run("LOOP-4 an answer cut at the limit fails the step with its own reason", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "silent", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("silent"))})
		if s := w.ended("silent"); s.Status != events.Failed || !strings.Contains(s.Result.Error, "output limit") {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("FORM-5 steps in a row are worked off strictly one after another", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "row", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("a"), step("b", "a"), step("c", "b"), step("d", "c"))})
		if s := w.ended("row"); s.Status != events.Completed {
			t.Fatalf("%+v", s.Result)
		}
		var order []string
		for _, r := range w.events("row") {
			_, p, err := events.Read(r.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			switch d := p.(type) {
			case *events.StepAllowedData:
				order = append(order, d.Step+" begins")
			case *events.StepFinishedData:
				order = append(order, d.Step+" ends")
			}
		}
		if got, want := strings.Join(order, ", "), "a begins, a ends, b begins, b ends, c begins, c ends, d begins, d ends"; got != want {
			t.Errorf("got %s", got)
		}
	})
	t.Run("TEST-9d PLAN-2 a step of another agent is done by that agent, with the results of the steps before", func(t *testing.T) {
		w := w.on(t)
		other := step("b", "a")
		other.Agent = "other"
		w.task(events.Task{ID: "two", Agent: "echo", Task: "go", Autonomy: &five, Plan: plan(step("a"), other)})
		if s := w.ended("two"); s.Result.Output != "other saw a" {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("PLAN-1 an agent that asks a model for the plan gets it, checked; a model that cannot fails the run", func(t *testing.T) {
		w := w.on(t)
		w.task(events.Task{ID: "asked", Agent: "architect", Task: "build it", Autonomy: &five})
		if s := w.ended("asked"); s.Status != events.Completed || s.Plan.Origin != "model" || len(s.Plan.Steps) != 2 {
			t.Errorf("%+v", s.Result)
		}
		w.task(events.Task{ID: "muddled", Agent: "muddled", Task: "build it"})
		if s := w.ended("muddled"); s.Status != events.Failed || !strings.Contains(s.Result.Error, "no plan") {
			t.Errorf("%+v", s.Result)
		}
	})
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	effects := map[string]int{}
	count := &probe{name: "count", effect: tool.Once, do: func(_ context.Context, _ int64, c tool.Call) (tool.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		effects[c.Key]++
		return tool.Result{Output: "counted"}, nil
	}}
	w := newWorld(t, count)
	w.agent(events.Agent{Name: "worker", Tools: []string{"count"}}, "turns:\n  - when: {turn: {from: 1, to: 5}}\n    calls:\n      - {name: count, input: {n: \"{{turn}}\"}}\n      - {name: count, input: {m: \"{{turn}}\"}}\n  - text: done\n")
	first := w.start()
	w.start()
	third := w.start()
	t.Run("DEPL-2 LIFE-16 TOOL-21 EVT-11 three replicas of every service do nothing twice, also while they come and go", func(t *testing.T) {
		w := w.on(t)
		const n = 30
		for i := range n {
			w.task(events.Task{ID: fmt.Sprintf("r%d", i), Agent: "worker", Task: "go"})
			switch i {
			case n / 3:
				first.stop()
			case n / 2:
				third.stop()
			}
		}
		for i := range n {
			if s := w.ended(fmt.Sprintf("r%d", i)); s.Status != events.Completed || s.TotalToolCalls != 10 {
				t.Errorf("r%d: %s, %d calls", i, s.Status, s.TotalToolCalls)
			}
			w.row(fmt.Sprintf("r%d", i), func(i run.Info) bool { return i.Status == events.Completed })
		}
		mu.Lock()
		defer mu.Unlock()
		if len(effects) != 10*n {
			t.Errorf("%d effects of %d calls", len(effects), 10*n)
		}
		for k, times := range effects {
			if times != 1 {
				t.Errorf("effect %s happened %d times", k, times)
			}
		}
	})
}

func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent(events.Agent{Name: "reader", Tools: []string{"read"}}, reader)
	w.file("session/s1", "note.txt", "hello from the note\n")
	w.start()
	t.Run("OBS-15 OBS-1 DEPL-8 what a watcher saw live is what the log replays, byte for byte", func(t *testing.T) {
		w := w.on(t)
		var mu sync.Mutex
		var live [][]byte
		stop, err := w.st.Watch(w.ctx(), "*", false, func(s jet.Seen) {
			mu.Lock()
			defer mu.Unlock()
			live = append(live, append([]byte(nil), s.Data...))
		})
		if err != nil {
			t.Fatal(err)
		}
		w.task(events.Task{ID: "seen", Agent: "reader", Task: "read", Session: "s1"})
		w.ended("seen")
		want := w.events("seen")
		w.await("seen", "seen whole", func(run.State) bool {
			mu.Lock()
			defer mu.Unlock()
			return len(live) >= len(want)
		})
		stop()
		for i, r := range want {
			if string(live[i]) != string(r.Bytes) {
				t.Errorf("event %d differs", i+1)
			}
		}
	})
	t.Run("LIFE-10 PERS-2 EVT-15 the state is the same from the log, from its JSON and on a service that never saw it", func(t *testing.T) {
		w := w.on(t)
		s := w.state("seen")
		b, err := run.Codec{}.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := run.Codec{}.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := json.Marshal(back)
		if string(again) != string(b) {
			t.Error("the state changed on its way through JSON")
		}
	})
}
