package lifecycle

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestUnstarted(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-2 LIFE-9 a run that exists and was never started ends with its reason, in its time and once", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created())
		at := b.State().CreatedAt
		if say, err := Unstarted(b.State(), at.Add(BirthTerm-1), 0); len(say) != 0 || err != nil {
			t.Fatalf("too early: %v %v", say, err)
		}
		say, err := Unstarted(b.State(), at.Add(BirthTerm), 0)
		if err != nil || len(say) != 2 {
			t.Fatalf("%v %v", say, err)
		}
		b.AppendAt(at.Add(BirthTerm), say[0])
		if b.State().Status != events.Running {
			t.Fatal(b.State().Status)
		}
		if again, _ := Unstarted(b.State(), at.Add(2*BirthTerm), 0); len(again) != 0 {
			t.Errorf("a run that has started: %v", again)
		}
		b.AppendAt(at.Add(BirthTerm), say[1])
		if s := b.State(); s.Status != events.Failed || s.Result.FinishReason != events.FinishCancelled || s.Result.Error == "" {
			t.Errorf("%+v", s.Result)
		}
	})
}

func TestGiveUp(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-13 PERS-15 a run that got its plan from somebody who is gone goes on instead of being given up", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("a")))
		say, err := GiveUp(b.State(), b.State().CreatedAt, events.FinishError, "no plan")
		if err != nil || len(say) != 1 || say[0].Kind() != events.StepReady {
			t.Fatalf("%v %v", say, err)
		}
		b.Append(say...)
		if again, err := GiveUp(b.State(), b.State().CreatedAt, events.FinishError, "no plan"); len(again) != 0 || err != nil {
			t.Errorf("again: %v %v", again, err)
		}
	})
}
