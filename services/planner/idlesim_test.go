package planner

import (
	"testing"
	"time"

	"github.com/inspan/inspan/internal/core/patrol"
	"github.com/inspan/inspan/internal/mailbox"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
	"github.com/inspan/inspan/pkg/run/runtest"
)

// leaves has a run make a call after which so many paths of its directory are in no commit.
func (x *exchange) leaves(id string, paths int) {
	x.t.Helper()
	x.works(id, false)
	ref := runtest.Ref("step-1", "c1-1", "bash")
	fence := uint64(0)
	for _, say := range []struct {
		by events.Service
		p  func() events.Payload
	}{
		{events.Executor, func() events.Payload {
			return runtest.Turn(1, "step-1", "do", runtest.Asked(1, 1, "bash", `{}`))
		}},
		{events.Gatekeeper, func() events.Payload { return runtest.CallYes(ref, "once") }},
		{events.Toolrunner, func() events.Payload { return runtest.CallBegun(ref, 1) }},
		{events.Toolrunner, func() events.Payload {
			d := runtest.CallDone(ref, fence, "done")
			d.Uncommitted = &events.Uncommitted{Paths: paths, Branch: "main"}
			return d
		}},
	} {
		w, err := x.ledger(say.by).Write(x.t.Context(), id, func(run.State, time.Time) ([]events.Payload, error) {
			return []events.Payload{say.p()}, nil
		})
		if err != nil {
			x.t.Fatal(err)
		}
		if c := w.State.Open["c1-1"]; c != nil {
			fence = c.Fence
		}
	}
}

func TestDirtyCut(t *testing.T) {
	t.Parallel()
	const agent = "a/b/c0"
	t.Run("SAFE-3 a planner that dies at any one operation after the end of a run finds once what the idle agent left, and nothing where that is clean", func(t *testing.T) {
		t.Parallel()
		plays := 0
		for _, paths := range []int{3, 0} {
			for _, late := range []bool{false, true} {
				for op := 0; ; op++ {
					x := newExchange(t, uint64(op))
					x.addresses = []string{agent}
					x.control(agent, events.MailControl{Action: mailbox.Register, Spec: &events.AddressSpec{Agent: "worker"}})
					x.settle()
					x.sent["m0"] = true
					x.control(agent, events.MailControl{Action: mailbox.Send, Mail: &events.MailDraft{ID: "m0", Body: "x"}})
					x.settle()
					id := x.look()[0]
					x.leaves(id, paths)
					x.cut, x.late = op, late
					for len(x.look()) > 0 { // its last turn, and its end
						x.works(id, true)
						x.settle()
					}
					x.now = x.now.Add(patrol.DirtyAfter - time.Minute)
					x.settle()
					if s := x.box(agent); s.Life.Alert != nil {
						t.Fatalf("operation %d: too early: %+v", op, s.Life.Alert)
					}
					x.now = x.now.Add(time.Minute)
					x.settle()
					x.settle()
					a, n := x.box(agent).Life.Alert, x.kinds(agent)
					if paths > 0 && (a == nil || a.Signal != patrol.Dirty || n[events.AlertRaised] != 1 || n[events.AlertCleared] != 0) {
						t.Fatalf("operation %d, after it: %v: %+v, %v, timers %v", op, late, a, n, x.timers)
					}
					if paths == 0 && (n[events.AlertRaised] != 0 || len(x.timers) > 0) {
						t.Fatalf("operation %d, after it: %v: %v, timers %v", op, late, n, x.timers)
					}
					if plays++; x.deaths == 0 {
						break
					}
				}
			}
		}
		if plays < 20 {
			t.Errorf("only %d plays", plays)
		}
		t.Logf("%d plays", plays)
	})
}
