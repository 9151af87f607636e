package lifecycle

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestCancelCut(t *testing.T) {
	t.Parallel()
	t.Run("WORK-3 WORK-4 SAFE-3 a run that is cancelled by a planner which dies after run.started is cancelled by the next one, and not begun", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		c := runtest.Created()
		c.Work = &events.WorkRef{Work: "w", Epoch: 1}
		b.Append(c)
		say, err := Unassigned(b.State(), b.State().CreatedAt)
		if err != nil || len(say) != 2 {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say[0])
		if say, err = Unassigned(b.State(), b.State().CreatedAt); err != nil || len(say) != 1 || say[0].Kind() != events.RunFailed {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		if s := b.State(); s.Result.FinishReason != events.FinishCancelled || Unborn(s) {
			t.Errorf("%+v", s.Result)
		}
	})
	t.Run("GUARD-2 SAFE-3 a run that was started only to be ended is ended by whoever looks, also by its task, which comes again", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created())
		at := b.State().CreatedAt.Add(BirthTerm)
		say, err := Unstarted(b.State(), at, 0)
		if err != nil || len(say) != 2 {
			t.Fatalf("%v %v", say, err)
		}
		b.AppendAt(at, say[0]) // and its planner dies
		s := b.State()
		for name, look := range map[string]func() ([]events.Payload, error){
			"its task":               func() ([]events.Payload, error) { return Begin(s, at, s.Created, planOfTest(), nil) },
			"its task, by a model":   func() ([]events.Payload, error) { return Begin(s, at, s.Created, nil, nil) },
			"the task of its fork":   func() ([]events.Payload, error) { return Fork(s, at, s.Created, nil, nil) },
			"who asks for its plan":  func() ([]events.Payload, error) { return RequestPlan(s, at, nil) },
			"who finds it unplanned": func() ([]events.Payload, error) { return Progress(s, at) },
		} {
			say, err := look()
			if err != nil || len(say) != 1 {
				t.Errorf("%s: got %v, %v, want its end", name, say, err)
				continue
			}
			if d, ok := say[0].(*events.RunFailedData); !ok || d.FinishReason != events.FinishCancelled || d.Error != s.Cancelled || d.Error == "" {
				t.Errorf("%s: got %+v, want the run cancelled for the reason that it was started with", name, say[0])
			}
		}
		b.AppendAt(at, &events.RunFailedData{Result: end(s, at, events.FinishCancelled, s.Cancelled, "")})
		if say, _ := Begin(b.State(), at, s.Created, planOfTest(), nil); len(say) != 0 {
			t.Errorf("got %v of a run that has ended", say)
		}
	})
	t.Run("WORK-4 a run that has its plan is no more cancelled", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		c := runtest.Created()
		c.Work, c.Address = &events.WorkRef{Work: "w", Epoch: 1}, &events.AddressRef{Address: "a/b/c", Epoch: 1}
		b.Append(c, runtest.Started(), runtest.Plan(runtest.Step("a")))
		one, _ := Unassigned(b.State(), b.State().CreatedAt)
		two, _ := Replaced(b.State(), b.State().CreatedAt)
		if len(one)+len(two) > 0 {
			t.Errorf("%v %v", one, two)
		}
	})
}

// planOfTest is a plan of one step.
func planOfTest() *events.PlanMadeData { return runtest.Plan(runtest.Step("a")) }
