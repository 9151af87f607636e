package lifecycle

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestPROP1(t *testing.T) {
	t.Parallel()
	t.Run("PROP-1 Feature: agent-harnesses, Property 1: valid moves reach the status, invalid ones change nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			b.Append(runtest.Created())
			want, input := events.Created, uint64(0)
			for _, wish := range rapid.SliceOfN(rapid.SampledFrom([]string{"start", "pause", "resume", "stop"}), 1, 12).Draw(t, "wishes") {
				input++
				before, count := b.State(), len(b.Events())
				var say []events.Payload
				var err error
				next := want
				switch wish {
				case "start":
					if want == events.Created {
						say, next = []events.Payload{runtest.Started()}, events.Running
					} else {
						say, err = Resume(before, Wish{Input: input})
						if want == events.Paused {
							next = events.Running
						}
					}
				case "pause":
					say, err = Pause(before, noon, Wish{Input: input})
					if want == events.Running {
						next = events.Paused
					}
				case "resume":
					say, err = Resume(before, Wish{Input: input})
					if want == events.Paused {
						next = events.Running
					}
				case "stop":
					say, err = Stop(before, noon, Wish{Input: input})
					if !want.Ended() {
						next = events.Failed
					}
				}
				if err != nil && next != want || err == nil && next == want {
					t.Fatalf("%s while %s: error %v", wish, want, err)
				}
				b.Append(say...)
				if err != nil && len(b.Events()) != count {
					t.Fatalf("%s while %s was refused and yet said something", wish, want)
				}
				want = next
				if got := b.State().Status; got != want {
					t.Fatalf("after %s: %s, want %s", wish, got, want)
				}
			}
		})
	})
}

func TestPROP2(t *testing.T) {
	t.Parallel()
	t.Run("PROP-2 Feature: agent-harnesses, Property 2: pause then resume gives an equal state except for timestamps", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := walk(t)
			for b.State().Status != events.Running { // there is nothing to pause
				b = walk(t)
			}
			before := b.State()
			say, err := Pause(before, noon, Wish{Input: 1000})
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			say, err = Resume(b.State(), Wish{Input: 1001})
			if err != nil {
				t.Fatal(err)
			}
			b.Append(say...)
			if got, want := plain(t, b.State()), plain(t, before); got != want {
				t.Fatalf("state after pause and resume\n got %s\nwant %s", got, want)
			}
		})
	})
}

// walk is a random history.
func walk(t *rapid.T) *runtest.Builder {
	b := runtest.New("main", "r1")
	for range rapid.IntRange(3, 40).Draw(t, "facts") {
		moves := runtest.Moves(b.State())
		if len(moves) == 0 {
			break
		}
		b.Append(moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")])
	}
	return b
}

// plain is a state without what a pause and a resume themselves are: time, place in the log, inputs taken.
func plain(t *rapid.T, s run.State) string {
	s.UpdatedAt, s.Sequence, s.Hash, s.ResumedAt, s.Inputs, s.PauseReason = s.CreatedAt, 0, "", 0, nil, ""
	s.Clock = run.Clock{}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPROP14(t *testing.T) {
	t.Parallel()
	t.Run("OBS-26c PROP-14 PLAN-7ab Feature: agent-harnesses, Property 14: a run is completed, with one plan_completed, exactly when all its steps are", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			b := runtest.New("main", "r1")
			steps := drawnPlan(t)
			b.Append(runtest.Created(), runtest.Started(), runtest.Plan(steps...))
			failed := false
			for range 4*len(steps) + 4 {
				progress(t, b)
				s := b.State()
				done, total := s.StepsCompleted()
				if completed := s.Status == events.Completed; completed != (done == total) {
					t.Fatalf("%d of %d steps are completed and the run is %s", done, total, s.Status)
				}
				if s.Status.Ended() {
					break
				}
				failed = work(t, b) || failed
			}
			s := b.State()
			if !s.Status.Ended() || failed != (s.Status == events.Failed) {
				t.Fatalf("with a failed step %v, in the end the run is %s: %+v", failed, s.Status, steps)
			}
			plans := 0
			for _, f := range b.Events() {
				_, p, err := events.Read(f)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := p.(*events.PlanCompletedData); ok {
					plans++
				}
			}
			if want := map[bool]int{true: 0, false: 1}[failed]; plans != want {
				t.Fatalf("got plan_completed %d times, want %d", plans, want)
			}
		})
	})
}

// drawnPlan is a plan of some steps, each after some of those before it.
func drawnPlan(t *rapid.T) []events.PlanStep {
	var steps []events.PlanStep
	for i := range rapid.IntRange(1, 7).Draw(t, "steps") {
		var after []string
		for _, earlier := range steps {
			if rapid.IntRange(0, 2).Draw(t, "after") == 0 {
				after = append(after, earlier.ID)
			}
		}
		steps = append(steps, runtest.Step(string(rune('a'+i)), after...))
	}
	return steps
}

// progress says what a planner says, at times in two parts as after a crash, until it has nothing more to say.
func progress(t *rapid.T, b *runtest.Builder) {
	for {
		say, err := Progress(b.State(), noon)
		if err != nil {
			t.Fatal(err)
		}
		if len(say) == 0 {
			return
		}
		b.Append(say[:rapid.IntRange(1, len(say)).Draw(t, "said")]...)
	}
}

// work ends one of the steps that are ready, with a pause before it at times, and reports whether it failed.
func work(t *rapid.T, b *runtest.Builder) (failed bool) {
	if rapid.IntRange(0, 3).Draw(t, "pause") == 0 {
		b.Append(runtest.Paused("wait"), runtest.Resumed())
	}
	var ready []string
	s := b.State()
	for _, st := range s.Plan.Steps {
		if st.Status == events.StepIsReady {
			ready = append(ready, st.ID)
		}
	}
	if len(ready) == 0 {
		t.Fatal("the run goes on with no step to work on")
	}
	id := rapid.SampledFrom(ready).Draw(t, "step")
	b.Append(runtest.Allowed(id))
	if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
		b.Append(runtest.StepBad(id, "it broke"))
		return true
	}
	b.Append(runtest.Turn(s.Turns().Len()+1, id, "done"), runtest.StepDone(id, "output of "+id))
	return false
}
