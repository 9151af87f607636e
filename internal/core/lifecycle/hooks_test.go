package lifecycle

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/core/plan"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func said(on, answer string) []events.HookAnswer {
	return []events.HookAnswer{{Hook: "station:h", On: on, Answer: answer, Message: "because"}}
}

// kept is a state that was written and read again, as a snapshot is.
func kept(t *testing.T, s run.State) run.State {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again run.State
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

func TestHooks(t *testing.T) {
	t.Parallel()
	t.Run("GUARD-2 a person who pauses a run that a hook blocked at its start does not let it go on", func(t *testing.T) {
		t.Parallel()
		for answer, want := range map[string]events.Status{events.HookBlock: events.Failed, "": events.Failed, events.HookInterrupt: events.Paused} {
			whole, err := Begin(run.State{}, noon, runtest.Created(), nil, said(events.OnRunStart, answer))
			if err != nil {
				t.Fatal(err)
			}
			b := runtest.New("main", "r1")
			b.Append(whole[:2]...) // whoever asked the hook died behind run.started
			say, err := Pause(kept(t, b.State()), noon, Wish{By: "mia", Input: 7})
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			if s := b.State(); s.Status != want {
				t.Errorf("%q: the run is %s, want %s", answer, s.Status, want)
			}
		}
	})
	t.Run("GUARD-1 GUARD-2 law 2: what a hook said before the start is followed, wherever the answer was cut, and no one is asked again", func(t *testing.T) {
		t.Parallel()
		for answer, want := range map[string]events.Status{events.HookContinue: events.Running, events.HookBlock: events.Failed, events.HookInterrupt: events.Paused, "": events.Failed} {
			created, made := runtest.Created(), plan.Single("t", "task", "main")
			whole, err := Begin(run.State{}, noon, created, made, said(events.OnRunStart, answer))
			if err != nil {
				t.Fatal(err)
			}
			var end []events.Kind
			for cut := range len(whole) + 1 {
				b := runtest.New("main", "r1")
				b.Append(whole[:cut]...)
				answers := []events.HookAnswer(nil)
				if s := b.State(); s.Sequence == 0 || s.Status == events.Created {
					answers = said(events.OnRunStart, answer)
				}
				rest, err := Begin(kept(t, b.State()), noon, created, made, answers)
				if err != nil {
					t.Fatal(err)
				}
				b.Append(rest...)
				s := b.State()
				if s.Status != want {
					t.Errorf("%q cut at %d: the run is %s, want %s", answer, cut, s.Status, want)
				}
				var kinds []events.Kind
				for _, f := range b.Events() {
					ev, err := events.Decode(f)
					if err != nil {
						t.Fatal(err)
					}
					k, _ := ev.Kind()
					kinds = append(kinds, k)
				}
				if end == nil {
					end = kinds
				}
				if !reflect.DeepEqual(kinds, end) {
					t.Errorf("%q cut at %d: %v, want %v", answer, cut, kinds, end)
				}
				if again, _ := Begin(b.State(), noon, created, made, nil); len(again) != 0 {
					t.Errorf("%q: law 1: a second look said %v", answer, again)
				}
			}
		}
	})
	t.Run("GUARD-1 GUARD-2 nothing is said about the end of a run before the hooks were asked, and their answers are followed", func(t *testing.T) {
		t.Parallel()
		ending := func() (run.State, []events.Payload) {
			b := runtest.New("main", "r1")
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(1, "a", "done"), runtest.StepDone("a", "out"))
			say, err := Progress(b.State(), noon)
			if err != nil {
				t.Fatal(err)
			}
			return b.State(), say
		}
		s, say := ending()
		if then, owed := AtStop(s, say, false, nil); then != nil || owed == nil || owed.Status != events.Completed {
			t.Errorf("%v %+v", then, owed)
		}
		for answer, want := range map[string]events.Kind{events.HookContinue: events.RunCompleted, events.HookBlock: events.RunFailed, events.HookInterrupt: events.RunPaused} {
			s, say := ending()
			then, owed := AtStop(s, say, true, said(events.OnRunStop, answer))
			if owed != nil || len(then) != 2 || then[1].Kind() != want {
				t.Errorf("%s: %v %+v", answer, then, owed)
			}
		}
		s, say = ending()
		s.StopPassed = true
		if then, owed := AtStop(s, say, false, nil); owed != nil || len(then) != 2 {
			t.Errorf("after a person let it end: %v %+v", then, owed)
		}
	})
	t.Run("GUARD-2 a run that fails is told to the hooks and fails whatever they say", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")))
		say, err := Stop(b.State(), noon, Wish{By: "anna", Input: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{events.HookContinue, events.HookInterrupt, events.HookBlock} {
			then, _ := AtStop(b.State(), say, true, said(events.OnRunStop, answer))
			if f, ok := then[0].(*events.RunFailedData); !ok || f.FinishReason != events.FinishStopped || len(f.Hooks) != 1 {
				t.Errorf("%s: %+v", answer, then)
			}
		}
	})
	t.Run("GUARD-2 law 1: an interrupt pauses a run once, with its reason, and not before the step told of it", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(1, "a", "calls", runtest.Asked(1, 1, "read", `{}`)))
		ref := runtest.Ref("a", "c1-1", "read")
		done := runtest.CallDone(ref, 0, "out")
		done.Hooks = said(events.OnPostTool, events.HookInterrupt)
		b.Append(runtest.CallYes(ref, "read"), done)
		if say, _ := Interrupted(b.State()); len(say) != 0 {
			t.Errorf("before it was told: %v", say)
		}
		later := runtest.TurnDeferred(2, "a", 0, noon)
		later.Class = events.ClassInterrupted
		b.Append(later)
		say, _ := Interrupted(kept(t, b.State()))
		if len(say) != 1 || !strings.Contains(say[0].(*events.RunPausedData).Reason, "because") {
			t.Fatalf("%+v", say)
		}
		b.Append(say...)
		if again, _ := Interrupted(b.State()); len(again) != 0 || b.State().Held != nil {
			t.Errorf("%v %+v", again, b.State().Held)
		}
	})
}
