package work_test

import (
	"strings"
	"testing"

	"github.com/inspan/inspan/internal/work"
	"github.com/inspan/inspan/pkg/events"
)

const nux = "web/worker/nux"

// heldDesk is an item that a named agent holds and whose run of an epoch has it.
func heldDesk(t *testing.T) *desk {
	d := newDesk(t)
	d.must(events.WorkControl{Action: work.Assign, Dispatch: &events.WorkDispatch{Agent: "fixer", Address: nux}, Start: true})
	d.takes("r2", 2, true)
	return d
}

func (d *desk) takes(run string, epoch int, want bool) {
	d.t.Helper()
	next, has := work.AcceptBy(d.s, d.s.Epoch, run, events.AddressRef{Address: nux, Epoch: epoch}, d.now)
	if has != want {
		d.t.Fatalf("run %s of epoch %d has the item: %v", run, epoch, has)
	}
	d.s = next
}

func TestNamedHolder(t *testing.T) {
	t.Parallel()
	t.Run("WORK-4 CONT-12 INV-3 a named agent keeps its item: each later run takes it, and no earlier one", func(t *testing.T) {
		t.Parallel()
		d := heldDesk(t)
		d.takes("r2", 2, true)
		d.takes("r1", 1, false)
		d.takes("other", 2, false)
		d.s = work.HandOff(d.s, 1, "r1", "handed_off", d.now)
		d.s = work.HandOff(d.s, 1, "r2", "handed_off", d.now)
		d.s = work.HandOff(d.s, 1, "r2", "handed_off", d.now)
		if _, ok := work.Wake(d.s); ok || d.s.Binding == nil || d.s.Binding.Run != "" {
			t.Errorf("%+v", d.s.Binding)
		}
		d.takes("r2", 2, false)
		d.takes("r3", 3, true)
		d.takes("r4", 4, true) // the end of the third one is not recorded yet
		d.takes("r3", 3, false)
		d.s = work.HandOff(d.s, 1, "r3", "failed", d.now)
		d.s = work.Complete(d.s, 1, "r4", "done", d.now)
		d.went("created bound started handed-off started started closed")
		if d.s.Last.Agent != nux || d.s.Last.Run != "r4" {
			t.Errorf("%+v", d.s.Last)
		}
	})
	t.Run("WORK-3 WORK-8 a named agent's item is cleared by name, and not while a run has it", func(t *testing.T) {
		t.Parallel()
		d := heldDesk(t)
		d.refused(work.Taken, assign("fixer", true))
		d.refused(work.Running, events.WorkControl{Action: work.Unassign, Agent: nux})
		d.s = work.HandOff(d.s, 1, "r2", "failed", d.now)
		d.refused(work.Taken, events.WorkControl{Action: work.Unassign, Agent: "fixer"})
		d.must(events.WorkControl{Action: work.Unassign, Agent: nux})
		d.takes("r3", 3, false)
		if next, has := work.Accept(d.s, 1, "r3", d.now); has || len(next.Changes()) != len(d.s.Changes()) {
			t.Error("a run of no agent has it")
		}
	})
	t.Run("WORK-4 a run of no agent, or of another one, gets no item of a named agent", func(t *testing.T) {
		t.Parallel()
		d := heldDesk(t)
		if _, has := work.Accept(d.s, 1, "", d.now); has {
			t.Error("a run without an agent has it")
		}
		if _, has := work.AcceptBy(d.s, 1, "x", events.AddressRef{Address: "web/worker/ada", Epoch: 9}, d.now); has {
			t.Error("another agent has it")
		}
	})
	t.Run("WORK-4 the fold refuses an earlier run, a handoff that is none and a holder that is no agent", func(t *testing.T) {
		t.Parallel()
		for _, p := range []events.Payload{
			&events.WorkStartedData{Epoch: 1, Run: "r2", AgentEpoch: 2},
			&events.WorkStartedData{Epoch: 1, Run: "r1", AgentEpoch: 1},
			&events.WorkStartedData{Epoch: 2, Run: "r3", AgentEpoch: 3},
			&events.WorkHandedOffData{Epoch: 1, Run: "r1"},
		} {
			d := heldDesk(t)
			if s, err := work.Aggregate().Apply(d.s, events.Event{Subject: "w1", Sequence: 9, Time: at}, p, "h"); err == nil {
				t.Errorf("%+v leads to %+v", p, s.Binding)
			}
		}
		for want, dispatch := range map[string]events.WorkDispatch{
			"hold no work item":        {Address: "list/all"},
			"want PROJECT/ROLE/NAME":   {Address: "nux"},
			"has a session of its own": {Address: nux, Session: "s"},
			"web/worker/../x":          {Address: "web/worker/../x"},
			"\"WEB/worker/nux\"":       {Address: "WEB/worker/nux"},
			"web/worker/nux/":          {Address: "web/worker/nux/"},
			"agent \"\" is not an id":  {},
		} {
			c := events.WorkControl{Action: work.Assign, Dispatch: &dispatch}
			if err := work.Check(c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", dispatch, err, want)
			}
		}
	})
}
