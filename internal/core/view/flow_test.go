package view

import (
	"strings"
	"testing"
	"time"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

func TestFlowWaits(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	running := func(id string, f events.StepFlow) *run.Step {
		return &run.Step{ID: id, Status: events.StepIsRunning, StepCourse: run.StepCourse{Flow: &f, BeganAt: noon}}
	}
	attempt := &run.Step{ID: "a-2", Status: events.StepIsPending, StepCourse: run.StepCourse{
		Part: &events.StepPart{Of: "a", Number: 2, NotBefore: noon.Add(time.Minute)}}}
	whole := running("a", events.StepFlow{Retry: &events.StepRetry{Attempts: 3}})
	whole.Parts = 2
	sleeps := running("s", events.StepFlow{Kind: events.ControlWait, Signal: "go", Wake: &events.StepWake{EveryMS: 60_000, Until: "last"}})
	sleeps.Parts = 2
	look := &run.Step{ID: "s-2", Status: events.StepIsPending, StepCourse: run.StepCourse{
		Part: &events.StepPart{Of: "s", Number: 2, NotBefore: noon.Add(time.Minute)}}}
	for _, c := range []struct {
		what, want string
		steps      []*run.Step
		after      time.Duration
	}{
		{"PLUS-5 an attempt that waits for its time", "step a: attempt 2 waits for its time, again in 50 s", []*run.Step{whole, attempt}, 10 * time.Second},
		{"PLUS-5 a step that lets time pass", "step w lets time pass for 50 s more", []*run.Step{running("w", events.StepFlow{Kind: events.ControlWait, WaitMS: 60_000})}, 10 * time.Second},
		{"PLUS-5 PLAN-12a a step that waits for a signal", "step s waits for the signal go for 10 s; inspan signal r go",
			[]*run.Step{running("s", events.StepFlow{Kind: events.ControlWait, Signal: "go"})}, 10 * time.Second},
		{"PLUS-5 PLAN-12a a step that waits for a signal for a time", "step s waits for the signal go for 10 s, at most 50 s more; inspan signal r go",
			[]*run.Step{running("s", events.StepFlow{Kind: events.ControlWait, Signal: "go", WaitMS: 60_000})}, 10 * time.Second},
		{"PLUS-5 PLAN-12b a step whose agent is woken", "step s waits for the signal go for 10 s; inspan signal r go | step s waits for the next wake-up of its agent for 50 s more",
			[]*run.Step{sleeps, look}, 10 * time.Second},
		{"PLUS-5 a wait whose time is up", "step w: its time is up, and it waits for the planner", []*run.Step{running("w", events.StepFlow{Kind: events.ControlWait, WaitMS: 60_000})}, 2 * time.Minute},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := run.State{Status: events.Running, Plan: &run.Plan{Steps: c.steps}}
			s.HarnessID, s.Sequence = "r", 1
			if got := Why(s, noon.Add(c.after)); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
