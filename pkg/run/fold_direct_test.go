package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestFoldDirect(t *testing.T) {
	t.Parallel()
	t.Run("LIFE-14 a direct run has begun with its first event, and stands where a wrapped one stands after its fifth", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.DirectCreated())
		s := b.State()
		st := s.Step("step-1")
		if !s.Direct() || s.Status != events.Running || s.StartedAt == nil || !s.StartedAt.Equal(s.CreatedAt) || s.Plan.Origin != events.OriginSingle || len(s.Plan.Steps) != 1 ||
			st == nil || st.Status != events.StepIsRunning || st.Owed != 1 || st.ReadyAt != 1 || st.AllowedAt != 1 || st.Description != "fix the wheel" || st.AssignedAgent != "worker" {
			t.Fatalf("%+v %+v", s, st)
		}
		w := runtest.New("demo", "r")
		only := events.OnlyStep("fix the wheel", "worker")
		made := runtest.Plan(only)
		made.Origin = events.OriginSingle
		w.Append(runtest.Created(), runtest.Started(), made, runtest.Ready(only.ID), runtest.Allowed(only.ID))
		wrapped := w.State()
		if wrapped.Direct() || wrapped.Status != s.Status || wrapped.Step(only.ID).Status != st.Status || wrapped.Step(only.ID).Description != st.Description || wrapped.CurrentStepIndex != s.CurrentStepIndex || wrapped.BudgetLeft() != s.BudgetLeft() {
			t.Errorf("wrapped %+v, direct %+v", wrapped.Step(only.ID), st)
		}
	})
	t.Run("LIFE-14 it completes without a plan.completed, and only after its step", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("demo", "r")
		b.Append(runtest.DirectCreated(), runtest.Turn(1, "step-1", "done"), runtest.StepDone("step-1", "done"))
		b.Append(runtest.Completed(b.State()))
		if s := b.State(); s.Status != events.Completed || s.Broken() != "" {
			t.Errorf("%s %s", s.Status, s.Broken())
		}
	})
	for name, c := range map[string]struct {
		bend  func(*events.RunCreatedData)
		fault string
	}{
		"a person asked before the step": {func(c *events.RunCreatedData) { c.Options.Autonomy = 1 }, "autonomy 1 asks a person"},
		"a hook that held it back": {func(c *events.RunCreatedData) {
			c.Hooks = []events.HookAnswer{{Hook: "h", On: events.OnRunStart, Answer: events.HookBlock}}
		}, "a hook held the run back"},
		"a hook that interrupted it": {func(c *events.RunCreatedData) {
			c.Hooks = []events.HookAnswer{{Hook: "h", On: events.OnRunStart, Answer: events.HookInterrupt}}
		}, "a hook held the run back"},
		"a fork": {func(c *events.RunCreatedData) { c.ForkOf = runtest.ForkCreated().ForkOf }, "a fork does not take"},
	} {
		t.Run("LIFE-13 C30 the direct path does not go past "+name, func(t *testing.T) {
			t.Parallel()
			b := runtest.New("demo", "r")
			created := runtest.DirectCreated()
			c.bend(created)
			_, err := run.Fold(run.State{}, b.Bad(created, func(*events.Event) {}))
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %v, want %q", err, c.fault)
			}
			created.Direct, created.To = false, events.Created
			if _, err := run.Fold(run.State{}, b.Bad(created, func(*events.Event) {})); err != nil {
				t.Errorf("wrapped: %v", err)
			}
		})
	}
	t.Run("LIFE-14 what the harness adds around the loop is refused in a direct run", func(t *testing.T) {
		t.Parallel()
		for _, p := range []events.Payload{runtest.Started(), runtest.Plan(runtest.Step("a")), runtest.Ready("step-1"), runtest.Allowed("step-1")} {
			b := runtest.New("demo", "r")
			b.Append(runtest.DirectCreated())
			if _, err := run.Fold(b.State(), b.Bad(p, func(*events.Event) {})); err == nil {
				t.Errorf("%s was folded", p.Kind())
			}
		}
	})
	t.Run("LIFE-14 a long task makes a step with a short description, always the same", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("ü", events.MaxDescription)
		st := events.OnlyStep(long, "a")
		if len(st.Description) > events.MaxDescription || !strings.HasSuffix(st.Description, "...") || strings.ContainsRune(st.Description, '\uFFFD') || st.Description != events.OnlyStep(long, "a").Description {
			t.Errorf("%d bytes", len(st.Description))
		}
		if st := events.OnlyStep(strings.Repeat("x", events.MaxDescription), "a"); len(st.Description) != events.MaxDescription {
			t.Errorf("at the limit: %d bytes", len(st.Description))
		}
	})
}
