package plan

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestPROP12(t *testing.T) {
	t.Parallel()
	t.Run("PROP-12 Feature: agent-harnesses, Property 12: what Check lets through can be worked off to the end", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 8).Draw(t, "steps")
			steps := make([]events.PlanStep, n)
			for i := range steps {
				var deps []string
				for range rapid.IntRange(0, 3).Draw(t, "deps") {
					deps = append(deps, fmt.Sprintf("s%d", rapid.IntRange(0, n).Draw(t, "dep")))
				}
				steps[i] = step(fmt.Sprintf("s%d", i), deps...)
			}
			p := &run.Plan{}
			for _, s := range steps {
				p.Steps = append(p.Steps, &run.Step{ID: s.ID, Dependencies: s.Dependencies, Status: events.StepIsPending})
			}
			done := 0
			for ready := Ready(p, time.Time{}); len(ready) > 0; ready = Ready(p, time.Time{}) {
				for _, st := range ready {
					st.Status = events.StepIsCompleted
					done++
				}
			}
			if sound := Check(steps, known) == nil; sound != (done == n) {
				t.Fatalf("Check says sound=%v, but %d of %d steps can be done: %+v", sound, done, n, steps)
			}
		})
	})
}

func TestPROP13(t *testing.T) {
	t.Parallel()
	t.Run("PROP-13a PLAN-5 Feature: agent-harnesses, Property 13: ready is exactly pending with all dependencies completed", func(t *testing.T) {
		t.Parallel()
		statuses := []events.StepStatus{events.StepIsPending, events.StepIsReady, events.StepIsRunning, events.StepIsCompleted, events.StepIsFailed, events.StepIsBlocked}
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 10).Draw(t, "steps")
			p := &run.Plan{}
			for i := range n {
				st := &run.Step{ID: fmt.Sprintf("s%d", i), Status: rapid.SampledFrom(statuses).Draw(t, "status")}
				for j := range i {
					if rapid.Bool().Draw(t, "dep") {
						st.Dependencies = append(st.Dependencies, fmt.Sprintf("s%d", j))
					}
				}
				p.Steps = append(p.Steps, st)
			}
			got := map[string]bool{}
			for _, st := range Ready(p, time.Time{}) {
				got[st.ID] = true
			}
			for _, st := range p.Steps {
				want := st.Status == events.StepIsPending
				for _, d := range st.Dependencies {
					for _, other := range p.Steps {
						if other.ID == d && other.Status != events.StepIsCompleted {
							want = false
						}
					}
				}
				if got[st.ID] != want {
					t.Fatalf("%s: ready %v, want %v", st.ID, got[st.ID], want)
				}
			}
		})
	})
}
