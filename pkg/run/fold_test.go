package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// running returns a run with plan a <- b <- c and d, step a under way.
func running() *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(),
		runtest.Plan(runtest.Step("a"), runtest.Step("b", "a"), runtest.Step("c", "b"), runtest.Step("d")),
		runtest.Ready("a"), runtest.Allowed("a"))
	return b
}

var bash = runtest.Ref("a", "c1-1", "bash")

// called is running with one call of tool bash asked for, and then what else is given.
func called(more ...events.Payload) *runtest.Builder {
	b := running()
	b.Append(runtest.Turn(1, "a", "go", runtest.Asked(1, 1, "bash", `{}`)))
	b.Append(more...)
	return b
}

func document(t interface {
	Helper()
	Fatalf(string, ...any)
}, s run.State) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encode state: %v", err)
	}
	return string(b)
}

func TestChain(t *testing.T) {
	t.Parallel()
	next := func() events.Payload { return runtest.StepBad("a", "x") }
	for _, c := range []struct {
		name  string
		spoil func(*events.Event)
		fault string
	}{
		{"a gap", func(f *events.Event) { f.Sequence++ }, "an event is missing or repeated"},
		{"a repeated sequence", func(f *events.Event) { f.Sequence-- }, "an event is missing or repeated"},
		{"a wrong hash", func(f *events.Event) { f.PrevHash = strings.Repeat("0", 64) }, "the log was changed"},
		{"a hash in capitals", func(f *events.Event) { f.PrevHash = strings.ToUpper(f.PrevHash) }, "the log was changed"},
		{"another run", func(f *events.Event) { f.Run, f.Subject = "other", "other" }, "belongs to another run"},
		{"another station", func(f *events.Event) { f.Station, f.Source = "other", "/station/other/executor" }, "belongs to another run"},
		{"a service that may not say it", func(f *events.Event) { f.Source = "/station/demo/toolrunner" }, "only executor may say it"},
		{"a service that does not exist", func(f *events.Event) { f.Source = "/station/demo/root" }, "only executor may say it"},
		{"a second run.created", func(f *events.Event) {
			f.Type, f.Source = events.RunCreated.Type(), "/station/demo/planner"
		}, "the run exists already"},
		{"an unknown version", func(f *events.Event) { f.Type = "dev.inspan.step.failed.v2" }, "unknown event type"},
		{"an unknown kind", func(f *events.Event) { f.Type = "dev.inspan.step.lost.v1" }, "unknown event type"},
		{"data of another shape", func(f *events.Event) { f.Data = json.RawMessage(`[]`) }, "cannot be read"},
	} {
		t.Run("SAFE-2 EVT-8 "+c.name+" is refused and yields no state", func(t *testing.T) {
			t.Parallel()
			b := running()
			got, err := b.State().Apply(b.Bad(next(), c.spoil))
			var fault *run.FoldError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %v, want a FoldError with %q", err, c.fault)
			}
			if !reflect.DeepEqual(got, run.State{}) {
				t.Errorf("got a state at %d, want none", got.Sequence)
			}
			if _, err := b.Try(next()); err != nil {
				t.Errorf("the sound event: %v", err)
			}
		})
	}
	t.Run("SAFE-2 a run begins with run.created", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		if _, err := b.Try(runtest.Started()); err == nil || !strings.Contains(err.Error(), "begins with run.created") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("EVT-7 the cause can be told apart", func(t *testing.T) {
		t.Parallel()
		b := running()
		var unknown *events.UnknownTypeError
		_, err := b.State().Apply(b.Bad(next(), func(f *events.Event) { f.Type = "dev.inspan.step.failed.v9" }))
		if !errors.As(err, &unknown) {
			t.Errorf("got %v, want an UnknownTypeError inside", err)
		}
		if _, err := b.State().Apply([]byte("{")); !errors.Is(err, events.ErrDamaged) {
			t.Errorf("got %v, want ErrDamaged inside", err)
		}
	})
	t.Run("SAFE-3 any byte of any stored event changed is found by the next event", func(t *testing.T) {
		t.Parallel()
		evs := called().Events()
		for i := range len(evs) - 1 {
			for at := 0; at < len(evs[i]); at += 7 {
				changed := append([][]byte{}, evs...)
				changed[i] = append([]byte{}, evs[i]...)
				changed[i][at] ^= 1
				if got, err := run.Fold(run.State{}, changed...); err == nil || got.Sequence != 0 {
					t.Fatalf("byte %d of event %d: got a state at %d, want an error", at, i+1, got.Sequence)
				}
			}
		}
	})
	t.Run("EVT-15 SAFE-3 an event dropped, repeated or swapped is refused", func(t *testing.T) {
		t.Parallel()
		evs := called().Events()
		for i := range len(evs) - 1 {
			dropped := append(append([][]byte{}, evs[:i]...), evs[i+1:]...)
			repeated := append(append([][]byte{}, evs[:i+1]...), evs[i:]...)
			swapped := append([][]byte{}, evs...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			for name, log := range map[string][][]byte{"dropped": dropped, "repeated": repeated, "swapped": swapped} {
				if _, err := run.Fold(run.State{}, log...); err == nil {
					t.Errorf("event %d %s: got no error", i+1, name)
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	planless := func() *runtest.Builder {
		b := runtest.New("demo", "r")
		b.Append(runtest.Created(), runtest.Started())
		return b
	}
	created := func() *runtest.Builder { b := runtest.New("demo", "r"); b.Append(runtest.Created()); return b }
	allowed := func() *runtest.Builder { return called(runtest.CallYes(bash, "once")) }
	begun := func() *runtest.Builder { b := allowed(); b.Append(runtest.CallBegun(bash, 1)); return b }
	again := func() *runtest.Builder { b := begun(); b.Append(runtest.CallBegun(bash, 2)); return b }
	gated := func() *runtest.Builder { b := called(); b.Append(runtest.GateAt("g", "a", "c1-1")); return b }
	answered := func() *runtest.Builder { b := gated(); s := b.State(); b.Append(runtest.Yes(s.Gate("g"))); return b }
	paused := func() *runtest.Builder { b := running(); b.Append(runtest.Paused("x")); return b }
	otherHash := &run.Gate{ID: "g", StepID: "a", CallID: "c1-1", Hash: "other"}
	for _, c := range []struct {
		name  string
		from  func() *runtest.Builder
		say   func(*runtest.Builder) events.Payload
		fault string
	}{
		{"LIFE-3 a second start", running, says(runtest.Started()), "the run is running and cannot become running"},
		{"LIFE-3 a pause before the start", created, says(runtest.Paused("x")), "the run is created and cannot become paused"},
		{"LIFE-3 a second pause", paused, says(runtest.Paused("x")), "the run is paused and cannot become paused"},
		{"LIFE-3 a resume of what runs", running, says(runtest.Resumed()), "the run is running and cannot become running"},
		{"LIFE-3 completed before the start", created, func(b *runtest.Builder) events.Payload { return runtest.Completed(b.State()) }, "the run is created and cannot become completed"},
		{"LIFE-3 completed while paused", paused, func(b *runtest.Builder) events.Payload { return runtest.Completed(b.State()) }, "the run is paused and cannot become completed"},
		{"LIFE-3 failed before the start", created, func(b *runtest.Builder) events.Payload { return runtest.Failed(b.State(), "stopped", "") }, "the run is created and cannot become failed"},
		{"PLAN-2 a second plan", running, says(runtest.Plan(runtest.Step("z"))), "the run has a plan already"},
		{"PLAN-4 a step without a plan", planless, says(runtest.Ready("a")), "the run has no plan"},
		{"PLAN-4 a step that is not in the plan", running, says(runtest.Ready("z")), "step z is not in the plan"},
		{"PLAN-4 a step that is ready twice", running, says(runtest.Ready("a")), "step a is running, not pending"},
		{"PLAN-4 a step permitted before it is ready", running, says(runtest.Allowed("b")), "step b is pending, not ready"},
		{"PLAN-4 a step permitted twice", running, says(runtest.Allowed("a")), "step a is running, not ready"},
		{"PLAN-11 a step finished before it runs", running, says(runtest.StepDone("b", "x")), "step b is pending, not running"},
		{"PLAN-11 a step failed before it runs", running, says(runtest.StepBad("b", "x")), "step b is pending, not running"},
		{"LOOP-1 a turn of a step that does not run", running, says(runtest.Turn(1, "b", "x")), "step b is pending, not running"},
		{"LOOP-1 a turn that skips a number", running, says(runtest.Turn(2, "a", "x")), "turn 2 does not follow turn 0"},
		{"LOOP-1 a turn said twice", func() *runtest.Builder { return called() }, says(runtest.Turn(1, "a", "x")), "turn 1 does not follow turn 1"},
		{"LOOP-1 a turn that repeats the id of an open call", func() *runtest.Builder { return called() }, says(runtest.Turn(2, "a", "x", runtest.Asked(1, 1, "read", `{}`))), "step a is owed no turn"},
		{"LOOP-1 two calls of one id in a turn", running, says(runtest.Turn(1, "a", "x", runtest.Asked(1, 1, "read", `{}`), runtest.Asked(1, 1, "read", `{}`))), "call c1-1 is open already"},
		{"LOOP-1 a turn deferred in a step that does not run", running, says(runtest.TurnDeferred(1, "b", 1, runtest.Start)), "step b is pending"},
		{"TOOL-1 a call that no one asked for", running, says(runtest.CallYes(bash, "once")), "call c1-1 is not open"},
		{"TOOL-1 a permission for another tool", func() *runtest.Builder { return called() }, says(runtest.CallYes(runtest.Ref("a", "c1-1", "read"), "read")), "call c1-1 is bash in step a, not read"},
		{"TOOL-1 a permission in another step", func() *runtest.Builder { return called() }, says(runtest.CallYes(runtest.Ref("b", "c1-1", "bash"), "once")), "not bash in step b"},
		{"law 4 a call begun without permission", func() *runtest.Builder { return called() }, says(runtest.CallBegun(bash, 1)), "call c1-1 is requested"},
		{"law 4 a call finished without permission", func() *runtest.Builder { return called() }, says(runtest.CallDone(bash, 0, "x")), "call c1-1 is requested"},
		{"law 4 a call failed without permission", func() *runtest.Builder { return called() }, says(runtest.CallBad(bash, 0, "x")), "call c1-1 is requested"},
		{"TOOL-1 a second permission", allowed, says(runtest.CallYes(bash, "once")), "call c1-1 is allowed"},
		{"TOOL-1 a refusal after the permission", allowed, says(runtest.CallNo(bash)), "call c1-1 is allowed"},
		{"SAFE-8 a result without the fence", begun, says(runtest.CallDone(bash, 0, "x")), "fence 0 is not the current fence 8"},
		{"SAFE-8 a result with an old fence", again, says(runtest.CallDone(bash, 8, "x")), "fence 8 is not the current fence 9"},
		{"SAFE-8 a failure with an old fence", again, says(runtest.CallBad(bash, 8, "x")), "fence 8 is not the current fence 9"},
		{"SAFE-8 a deferral with an old fence", again, says(runtest.CallDeferred(bash, 1, 8, runtest.Start)), "fence 8 is not the current fence 9"},
		{"SAFE-8 a second result", func() *runtest.Builder { b := begun(); b.Append(runtest.CallDone(bash, 8, "x")); return b }, says(runtest.CallDone(bash, 8, "x")), "call c1-1 is not open"},
		{"SAFE-8 a result after the step ended", func() *runtest.Builder { b := begun(); b.Append(runtest.StepBad("a", "x")); return b }, says(runtest.CallDone(bash, 8, "x")), "call c1-1 is not open"},
		{"GATE-4 a gate that exists", gated, says(runtest.GateAt("g", "b", "")), "gate g exists already"},
		{"GATE-4 a second gate at one place", gated, says(runtest.GateAt("g2", "a", "c1-1")), "gate g stands there already"},
		{"GATE-5 an answer to no gate", running, says(runtest.Yes(otherHash)), "gate g is unknown"},
		{"SAFE-9 an answer to another action", gated, says(runtest.Yes(otherHash)), "the answer is for another action"},
		{"GATE-6 a second answer", answered, func(b *runtest.Builder) events.Payload { s := b.State(); return runtest.No(s.Gate("g"), "late") }, "the first answer wins"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			t.Parallel()
			b := c.from()
			before := document(t, b.State())
			_, err := b.Try(c.say(b))
			var fault *run.FoldError
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.fault) {
				t.Fatalf("got %v, want a FoldError with %q", err, c.fault)
			}
			if fault.Run != "r" || fault.Sequence != b.State().Sequence+1 || fault.Kind == "" {
				t.Errorf("the error is about %s %d %s", fault.Run, fault.Sequence, fault.Kind)
			}
			if document(t, b.State()) != before {
				t.Error("the state was changed by an event that was refused")
			}
		})
	}
	t.Run("SAFE-2d LIFE-3 whatever comes after the end is refused", func(t *testing.T) {
		t.Parallel()
		for _, w := range events.Registry() {
			b := running()
			b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
			_, err := b.Try(w.New())
			if err == nil || !strings.Contains(err.Error(), "after the end of the run (failed)") {
				t.Errorf("%s: got %v", w.Kind, err)
			}
		}
	})
}

func says(p events.Payload) func(*runtest.Builder) events.Payload {
	return func(*runtest.Builder) events.Payload { return p }
}

func TestFold(t *testing.T) {
	t.Parallel()
	t.Run("EVT-1 EVT-2 TOOL-2 LOOP-17 a whole run, told by its state", func(t *testing.T) {
		t.Parallel()
		b := called(runtest.CallYes(bash, "once"), runtest.CallBegun(bash, 1))
		s := b.State()
		if s.CallsHeld != 1 || s.BudgetLeft() != 99 || s.TotalToolCalls != 0 || s.Open["c1-1"].Fence != 8 || s.Step("a").Owed != 0 {
			t.Errorf("while the call runs: held %d, left %d, done %d, fence %d, owed %d", s.CallsHeld, s.BudgetLeft(), s.TotalToolCalls, s.Open["c1-1"].Fence, s.Step("a").Owed)
		}
		b.Append(runtest.CallDeferred(bash, 1, 8, runtest.Start), runtest.CallBegun(bash, 2), runtest.CallDone(bash, 10, "fine"))
		s = b.State()
		if s.CallsHeld != 0 || s.BudgetLeft() != 99 || s.TotalToolCalls != 1 || len(s.Open) != 0 || s.Step("a").Owed != 11 {
			t.Errorf("once it ended: held %d, left %d, done %d, open %d, owed %d", s.CallsHeld, s.BudgetLeft(), s.TotalToolCalls, len(s.Open), s.Step("a").Owed)
		}
		rec := s.ToolCallHistory.At(0)
		if rec.CallName != "bash" || rec.Result != "fine" || rec.Outcome != run.OutcomeFinished || !rec.Success || rec.DurationMS != 5 || string(rec.Arguments) != "{}" || !rec.Timestamp.Equal(s.UpdatedAt) {
			t.Errorf("the record is %+v", rec)
		}
		b.Append(runtest.Turn(2, "a", "all done"), runtest.StepDone("a", "out"))
		for _, id := range []string{"d", "b", "c"} {
			n := b.State()
			b.Append(runtest.Ready(id), runtest.Allowed(id), runtest.Turn(n.Turns().Len()+1, id, "ok"), runtest.StepDone(id, "out "+id))
		}
		b.Append(runtest.PlanDone(4), runtest.Completed(b.State()))
		s = b.State()
		done, total := s.StepsCompleted()
		if s.Status != events.Completed || done != 4 || total != 4 || s.CurrentStepIndex != 4 || !s.PlanDone || s.Turns().Len() != 5 ||
			s.Tokens.Total() != 150 || s.AgentLoopSnapshot.Scratchpad != "ok" || s.Result == nil || s.EndedAt == nil || s.HarnessID != "r" || s.SchemaVersion != 1 {
			t.Errorf("at the end: %s", document(t, s))
		}
	})
	t.Run("TOOL-9 a refused call does not count, and the budget is never below zero", func(t *testing.T) {
		t.Parallel()
		b := called(runtest.CallNo(bash))
		s := b.State()
		if s.TotalToolCalls != 0 || s.CallsHeld != 0 || s.ToolCallHistory.At(0).Outcome != run.OutcomeRefused || s.Step("a").Owed != s.Sequence {
			t.Errorf("got %d done, %d held, %s", s.TotalToolCalls, s.CallsHeld, s.ToolCallHistory.At(0).Outcome)
		}
		s.Options.MaxToolCalls = 0
		s.TotalToolCalls = 5
		if got := s.BudgetLeft(); got != 0 {
			t.Errorf("got %d left, want 0", got)
		}
	})
	t.Run("LOOP-6 a turn is owed only once all calls of the step are in", func(t *testing.T) {
		t.Parallel()
		b := running()
		b.Append(runtest.Turn(1, "a", "two", runtest.Asked(1, 1, "bash", `{}`), runtest.Asked(1, 2, "read", `{}`)))
		b.Append(runtest.CallNo(bash))
		if s := b.State(); s.Step("a").Owed != 0 {
			t.Errorf("owed since %d although a call is open", s.Step("a").Owed)
		}
		b.Append(runtest.CallNo(runtest.Ref("a", "c1-2", "read")))
		if s := b.State(); s.Step("a").Owed != s.Sequence {
			t.Errorf("owed since %d, want %d", s.Step("a").Owed, s.Sequence)
		}
	})
	t.Run("TOOL-9 a step that ends lets go of the budget that its open calls held", func(t *testing.T) {
		t.Parallel()
		b := called(runtest.CallYes(bash, "once"), runtest.StepBad("a", "x"))
		if s := b.State(); s.CallsHeld != 0 || len(s.Open) != 0 || s.BudgetLeft() != 100 {
			t.Errorf("held %d, open %d, left %d", s.CallsHeld, len(s.Open), s.BudgetLeft())
		}
	})
	t.Run("PLAN-6a a failed step blocks what depends on it, and nothing else", func(t *testing.T) {
		t.Parallel()
		b := running()
		b.Append(runtest.StepBad("a", "broke"))
		s := b.State()
		for id, want := range map[string]events.StepStatus{"a": events.StepIsFailed, "b": events.StepIsBlocked, "c": events.StepIsBlocked, "d": events.StepIsPending} {
			if got := s.Step(id).Status; got != want {
				t.Errorf("step %s is %s, want %s", id, got, want)
			}
		}
	})
	t.Run("GATE-7 a gate keeps who answered and when", func(t *testing.T) {
		t.Parallel()
		b := called(runtest.GateAt("g", "a", "c1-1"))
		s := b.State()
		if len(s.Waiting()) != 1 || s.Gate("g").ResolvedAt != nil || s.Gate("g").Sequence != 7 {
			t.Errorf("while waiting: %+v", s.Gate("g"))
		}
		b.Append(runtest.No(s.Gate("g"), "too dangerous"))
		s = b.State()
		g := s.Gate("g")
		if len(s.Waiting()) != 0 || g.Status != run.GateRejected || g.By != "anna" || g.Reason != "too dangerous" || g.Resolution != 8 || !g.ResolvedAt.Equal(s.UpdatedAt) || s.GateFor("a", "c1-1") != g || s.GateFor("a", "") != nil {
			t.Errorf("answered: %+v", g)
		}
	})
	t.Run("EVT-1 two futures of a state with many gates do not see each other", func(t *testing.T) {
		t.Parallel()
		b := running()
		for i := range 12 {
			s := b.State()
			one, err := s.Apply(b.Bad(runtest.GateAt("one", "b", "x"), func(*events.Event) {}))
			if err != nil {
				t.Fatal(err)
			}
			before := document(t, one)
			if _, err := s.Apply(b.Bad(runtest.GateAt("two", "c", "y"), func(*events.Event) {})); err != nil {
				t.Fatal(err)
			}
			if got := document(t, one); got != before {
				t.Fatalf("with %d gates: got %s\nwant %s", i, got, before)
			}
			b.Append(runtest.GateAt(fmt.Sprintf("g%d", i), "b", fmt.Sprintf("call-%d", i)))
		}
	})
	t.Run("LIFE-6 PROP-2 pause and resume leave everything else as it was", func(t *testing.T) {
		t.Parallel()
		b := called()
		before := b.State()
		b.Append(runtest.Paused("lunch"), runtest.Resumed())
		after := b.State()
		after.UpdatedAt, after.Sequence, after.Hash, after.ResumedAt = before.UpdatedAt, before.Sequence, before.Hash, before.ResumedAt
		if got, want := document(t, after), document(t, before); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
	t.Run("EVT-1 the rest: adjusted, deferred, checkpoint, agents of the plan", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		plan := runtest.Plan(runtest.Step("a"))
		plan.Agents = map[string]events.Agent{"helper": runtest.Agent("helper")}
		b.Append(runtest.Created(), runtest.Adjusted(3, 5), runtest.Started())
		first := b.State()
		b.Append(plan, runtest.Ready("a"), runtest.Allowed("a"), runtest.TurnDeferred(1, "a", 1, runtest.Start), runtest.Checkpoint(b.State()))
		s := b.State()
		if _, ok := s.Agent("helper"); !ok || len(first.Agents) != 1 {
			t.Errorf("the agents are %v, before they were %v", s.Agents, first.Agents)
		}
		if st := s.Step("a"); s.Options.Autonomy != 5 || st.Attempt != 1 || !st.NotBefore.Equal(runtest.Start.Add(2*time.Second)) || s.CheckpointCount != 1 || !s.LastCheckpointAt.Equal(s.UpdatedAt) {
			t.Errorf("got %s", document(t, s))
		}
	})
}
