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
