package lifecycle

import (
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestTeardownsNamed(t *testing.T) {
	t.Parallel()
	t.Run("FORM-1 SUB-8 a run that waits for its children before it ends names its teardowns once", func(t *testing.T) {
		t.Parallel()
		tidy := runtest.Step("tidy", "a")
		tidy.Flow = &events.StepFlow{Always: true}
		b := runtest.New("main", "r1")
		b.Append(runtest.Created(), runtest.Started(), runtest.Plan(runtest.ChildStep("a"), tidy), runtest.Ready("a"), runtest.Allowed("a"))
		b.Append(runtest.Spawned(b.State(), "a", events.Reserve{ToolCalls: 1}))
		const want = "stopped: enough; not carried out: the teardown tidy of a"
		say, err := Stop(b.State(), noon, Wish{By: "anna", Reason: "enough"})
		if err != nil || len(say) != 1 {
			t.Fatal(say, err)
		}
		if d, ok := say[0].(*events.RunStoppingData); !ok || d.Error != want {
			t.Fatalf("%+v", say[0])
		}
		b.Append(say...)
		b.Append(runtest.ChildEnd(b.State(), "a", events.ChildIsFailed, false, events.Use{Runs: 1}))
		say, err = Stopped(b.State(), noon)
		if err != nil || len(say) != 1 {
			t.Fatal(say, err)
		}
		if d, ok := say[0].(*events.RunFailedData); !ok || d.Error != want {
			t.Errorf("%+v", say[0])
		}
	})
}
