package run_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// halted is a paused run: one is complete, two runs, three waits at a gate, four has not begun.
func halted() *runtest.Builder {
	b := runtest.New("demo", "r")
	b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.Step("one"), runtest.Step("two"), runtest.Step("three"), runtest.Step("four", "two")),
		runtest.Ready("one"), runtest.Ready("two"), runtest.Ready("three"), runtest.Allowed("one"), runtest.Turn(1, "one", "done"), runtest.StepDone("one", "the first output"),
		runtest.Allowed("two"), runtest.GateAt("g-three", "three", ""), runtest.Paused("wait"))
	return b
}

func TestRevised(t *testing.T) {
	t.Parallel()
	t.Run("PLAN-9 GATE-8 the gate before a removed step is closed, and no answer to it fits any more", func(t *testing.T) {
		t.Parallel()
		b := halted()
		old := b.State()
		b.Append(runtest.Revised(old, runtest.Step("new", "one")))
		s := b.State()
		g := s.Gate("g-three")
		if g.Status != run.GateSuperseded || g.By != "anna" || g.ResolvedAt == nil || len(s.Waiting()) != 0 || old.Gate("g-three").Status != run.GatePending {
			t.Fatalf("%+v, %d wait", g, len(s.Waiting()))
		}
		for _, p := range []events.Payload{runtest.Yes(old.Gate("g-three")), runtest.No(old.Gate("g-three"), "late")} {
			if _, err := b.Try(p); err == nil || !strings.Contains(err.Error(), "superseded") {
				t.Errorf("%s: got %v", p.Kind(), err)
			}
		}
		if s.Step("two").Status != events.StepIsRunning || s.Step("one").Output != "the first output" || s.Step("three") != nil || s.Step("four") != nil {
			t.Errorf("%+v", s.Plan)
		}
	})
	for name, spoil := range map[string]func(d *events.PlanRevisedData){
		"removes a finished step":    func(d *events.PlanRevisedData) { d.Kept, d.Removed = d.Kept[1:], append(d.Removed, "one") },
		"removes a step that runs":   func(d *events.PlanRevisedData) { d.Kept, d.Removed = d.Kept[:1], append(d.Removed, "two") },
		"keeps a step not begun":     func(d *events.PlanRevisedData) { d.Kept, d.Removed = append(d.Kept, "three"), d.Removed[1:] },
		"gives a finished step anew": func(d *events.PlanRevisedData) { d.Steps[0].ID = "one" },
		"gives a removed step anew":  func(d *events.PlanRevisedData) { d.Steps[0].ID = "three" },
		"has a step twice":           func(d *events.PlanRevisedData) { d.Steps = append(d.Steps, d.Steps[0]) },
		"has no steps":               func(d *events.PlanRevisedData) { d.Steps = nil },
		"needs what is not there":    func(d *events.PlanRevisedData) { d.Steps[0].Dependencies = []string{"four"} },
		"adds a step of the harness": func(d *events.PlanRevisedData) { d.Steps[0].Kind = events.StepCheckout },
		"adds a delivery without git": func(d *events.PlanRevisedData) {
			d.Steps[0].ID, d.Steps[0].Kind = events.DeliverStep, events.StepDeliver
		},
	} {
		t.Run("PLAN-9 SAFE-2 the fold refuses a revision that "+name, func(t *testing.T) {
			t.Parallel()
			b := halted()
			d := runtest.Revised(b.State(), runtest.Step("new", "one"))
			spoil(d)
			if _, err := b.Try(d); err == nil {
				t.Errorf("it folds to %+v", b.State().Plan)
			}
		})
	}
	t.Run("PLAN-9 SAFE-2 the fold refuses a revision of a run that is not paused, has no plan, or is on the direct path", func(t *testing.T) {
		t.Parallel()
		b := halted()
		d := runtest.Revised(b.State(), runtest.Step("new", "one"))
		b.Append(runtest.Resumed())
		early, direct := runtest.New("demo", "r"), runtest.New("demo", "r")
		early.Append(runtest.Created(), runtest.Started(), runtest.Paused("wait"))
		direct.Append(runtest.DirectCreated(), runtest.Paused("wait"))
		for want, b := range map[string]*runtest.Builder{"the run is running": b, "no plan yet": early, "direct path": direct} {
			if _, err := b.Try(d); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
	t.Run("PLAN-9 an id that was removed once is refused in every later revision", func(t *testing.T) {
		t.Parallel()
		b := halted()
		b.Append(runtest.Revised(b.State(), runtest.Step("new", "one")), runtest.Resumed(), runtest.Paused("again"))
		b.Append(runtest.Revised(b.State(), runtest.Step("newer", "two")))
		for _, id := range []string{"three", "new", "newer"} {
			if _, err := b.Try(runtest.Revised(b.State(), runtest.Step(id))); err == nil || !strings.Contains(err.Error(), "already") {
				t.Errorf("%s: got %v", id, err)
			}
		}
	})
}
