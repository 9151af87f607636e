package team

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run/runtest"
)

func TestShownMail(t *testing.T) {
	t.Parallel()
	t.Run("MSG-4 mail is acknowledged once a turn has ended that was given it, or the history of the session has it", func(t *testing.T) {
		t.Parallel()
		b := runtest.New("s1", "r")
		b.Append(runtest.WokenCreated(), runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"),
			runtest.Mail("only", "m1"))
		want := func(what string, ids ...string) {
			t.Helper()
			if got := shownMail(b.State()); fmt.Sprint(got) != fmt.Sprint(ids) {
				t.Errorf("%s: %v, want %v", what, got, ids)
			}
		}
		want("before the first turn")
		stopped := runtest.New("s1", "r2")
		stopped.Append(runtest.WokenCreated(), runtest.Started(), runtest.Plan(runtest.Step("only")), runtest.Ready("only"), runtest.Allowed("only"),
			runtest.Mail("only", "m1"))
		stopped.Append(runtest.Failed(stopped.State(), events.FinishStopped, "stopped"))
		if got := shownMail(stopped.State()); len(got) != 0 {
			t.Errorf("no turn was given %v", got)
		}
		ref := runtest.Ref("only", "c1-1", "bash")
		b.Append(runtest.Turn(1, "only", "x", runtest.Asked(1, 1, "bash", `{}`)))
		want("after it", "m1")
		b.Append(runtest.CallYes(ref, "once"), runtest.CallBegun(ref, 1))
		b.Append(runtest.CallDone(ref, b.State().Open["c1-1"].Fence, "ok"), runtest.Mail("only", "m2"))
		want("before the second turn", "m1")
		b.Append(runtest.Failed(b.State(), events.FinishStopped, "stopped"))
		want("the run has ended", "m1", "m2")
	})
}
