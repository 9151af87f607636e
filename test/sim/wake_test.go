package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// unsent is a signal that no person sends.
const unsent = "never"

// smallWake is the small world with two steps that wait for a signal, with an agent that is woken meanwhile: one ends by
// what its agent says, the other by the signal, which is sent once the agent has looked.
func smallWake(first, second string) Scene {
	s := small(first, second)
	r := &s.Runs[0]
	wait := func(id, signal, until string) SceneStep {
		return SceneStep{ID: id, Needs: []string{"a"}, Flow: &events.StepFlow{Kind: events.ControlWait, Signal: signal,
			Wake: &events.StepWake{EveryMS: 500, Until: until}}}
	}
	r.Steps = append(r.Steps, wait("c", unsent, "last == 'done' and round >= 3"), wait("d", "go", "round >= 100"),
		SceneStep{ID: "e", Needs: []string{"c", "d"}})
	return s
}

// wakeAudit is when the looks of each step may begin, and the time before the last of them.
type wakeAudit struct {
	from  map[string]time.Time
	delay map[string]int64
}

// wakes holds that an agent is woken by a step that waits, each time after at least twice the time before the last one,
// counted from when that was recorded.
func (l *ledger) wakes(d *events.StepExpandedData, at time.Time) string {
	st := l.plan[d.Step]
	if st.Flow == nil || st.Flow.Wake == nil {
		return ""
	}
	if l.wake.from == nil {
		l.wake = wakeAudit{map[string]time.Time{}, map[string]int64{}}
	}
	delay := time.Duration(d.DelayMS) * time.Millisecond
	switch before := l.wake.delay[d.Step]; {
	case l.steps[d.Step] != events.StepAllowed && l.steps[d.Step] != events.StepExpanded:
		return "step " + d.Step + " does not wait"
	case d.From > 1 && d.DelayMS < 2*before || d.DelayMS < st.Flow.Wake.EveryMS:
		return fmt.Sprintf("look %d of %s after %d ms, the last after %d", d.From, d.Step, d.DelayMS, before)
	case d.NotBefore.After(at.Add(delay)) || d.NotBefore.Before(at.Add(delay-time.Minute)):
		return fmt.Sprintf("look %d of %s at %s, which was recorded at %s", d.From, d.Step, d.NotBefore, at)
	}
	l.wake.delay[d.Step], l.wake.from[events.PartID(d.Step, d.From)] = d.DelayMS, d.NotBefore
	l.steps[d.Step] = events.StepExpanded
	return ""
}

// asleep holds that no agent looks before its time.
func (l *ledger) asleep(step string, at time.Time) string {
	if from := l.wake.from[step]; at.Before(from) {
		return fmt.Sprintf("look %s at %s, its time is %s", step, at, from)
	}
	return ""
}

func TestEveryOperationWake(t *testing.T) {
	t.Run("PLAN-12b PLAN-15 SAFE-7 a crash or a duplicate at operations of a run whose agents are woken while they wait: each look is had once, at its time", func(t *testing.T) {
		plays, looks, skips := 0, 0, 0
		someOf(t, smallWake("pay", "put"), 35, func(out Outcome) {
			plays++
			looks += out.Counts["steps expanded"]
			skips += out.Counts["steps skipped"]
		})
		if plays < 10 || looks < 5*plays || skips == 0 {
			t.Errorf("%d plays, in which agents were woken %d times and %d looks were not needed", plays, looks, skips)
		}
		t.Logf("%d plays, in which agents were woken %d times and %d looks were not needed", plays, looks, skips)
	})
}
