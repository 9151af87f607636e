package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func gitPlan() *events.PlanMadeData {
	a := runtest.Step("a", events.CheckoutStep)
	checkout, deliver := runtest.Step(events.CheckoutStep), runtest.Step(events.DeliverStep, events.CheckoutStep, "a")
	checkout.Kind, deliver.Kind = events.StepCheckout, events.StepDeliver
	return runtest.Plan(checkout, a, deliver)
}

func gitRun() *runtest.Builder {
	b := runtest.New("main", "r1")
	c := runtest.Created()
	c.Git = &events.GitWork{NewBranch: "agent/x", Collaboration: events.Sequential}
	b.Append(c, runtest.Started(), gitPlan())
	return b
}

func TestHarnessSteps(t *testing.T) {
	t.Parallel()
	t.Run("SAFE-2 GIT-13 a step of the harness stands only in a run that works in git, under its own id, and of a kind that is known", func(t *testing.T) {
		t.Parallel()
		for want, spoil := range map[string]func(*events.RunCreatedData, *events.PlanMadeData){
			"cannot be of the kind": func(c *events.RunCreatedData, _ *events.PlanMadeData) { c.Git = nil },
			"does not know":         func(_ *events.RunCreatedData, p *events.PlanMadeData) { p.Steps[0].Kind = "other" },
			"kind deliver":          func(_ *events.RunCreatedData, p *events.PlanMadeData) { p.Steps[1].Kind = events.StepDeliver },
			"kind commit":           func(_ *events.RunCreatedData, p *events.PlanMadeData) { p.Steps[1].Kind = events.StepCommit },
		} {
			b := runtest.New("main", "r1")
			c, p := runtest.Created(), gitPlan()
			c.Git = &events.GitWork{}
			spoil(c, p)
			b.Append(c, runtest.Started())
			if _, err := b.Try(p); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	t.Run("PLAN-6 C25 what a run delivers waits for the end of the other steps and not for their success, but for its checkout", func(t *testing.T) {
		t.Parallel()
		b := gitRun()
		if _, err := b.Try(runtest.Ready(events.DeliverStep)); err == nil {
			t.Error("it is ready before anything is done")
		}
		b.Append(runtest.Ready(events.CheckoutStep), runtest.Allowed(events.CheckoutStep), runtest.StepDone(events.CheckoutStep, "there"),
			runtest.Ready("a"), runtest.Allowed("a"))
		if _, err := b.Try(runtest.Ready(events.DeliverStep)); err == nil {
			t.Error("it is ready while a step runs")
		}
		b.Append(runtest.StepBad("a", "it broke"), runtest.Ready(events.DeliverStep))

		b = gitRun()
		b.Append(runtest.Ready(events.CheckoutStep), runtest.Allowed(events.CheckoutStep), runtest.StepBad(events.CheckoutStep, "no such repository"))
		s := b.State()
		if s.Step("a").Status != events.StepIsBlocked || s.Step(events.DeliverStep).Status != events.StepIsBlocked {
			t.Errorf("%s and %s", s.Step("a").Status, s.Step(events.DeliverStep).Status)
		}
	})
	t.Run("PLUS-1 a fork checks out anew and delivers once more, and what is said to it is said to the agent", func(t *testing.T) {
		t.Parallel()
		b := gitRun()
		ref := runtest.Ref(events.CheckoutStep, "c1-1", events.GitPrepare)
		b.Append(runtest.Ready(events.CheckoutStep), runtest.Allowed(events.CheckoutStep), runtest.Turn(1, events.CheckoutStep, "", runtest.Asked(1, 1, events.GitPrepare, `{}`)),
			runtest.CallYes(ref, "read"), runtest.CallDone(ref, 0, "{}"), runtest.StepDone(events.CheckoutStep, "there"),
			runtest.Ready("a"), runtest.Allowed("a"), runtest.Turn(2, "a", "done"), runtest.StepDone("a", "out"), runtest.Ready(events.DeliverStep), runtest.Allowed(events.DeliverStep))
		if s := b.State(); s.TotalToolCalls != 0 || s.ModelTurns() != 1 {
			t.Errorf("%d calls and %d turns are counted", s.TotalToolCalls, s.ModelTurns())
		}
		start, err := run.Fork(b.State(), "do it otherwise", true)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{events.CheckoutStep, "a", events.DeliverStep} {
			if st := start.Step(id); st.Status != events.StepIsPending || st.Kind != "" && st.Turns != 0 {
				t.Errorf("%s is %s after %d turns", id, st.Status, st.Turns)
			}
		}
		if said := start.MessagesAfter("a", 2); len(said) != 1 || said[0] != "do it otherwise" {
			t.Errorf("%q", said)
		}
	})
}
