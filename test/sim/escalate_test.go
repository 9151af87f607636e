package sim

import (
	"fmt"
	"testing"

	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// smallEscalation is the small world whose second step is an approval: who is asked first never answers, the other does.
func smallEscalation(first string) Scene {
	s := small(first, first)
	r := &s.Runs[0]
	r.Steps[1].Critical, r.Steps[1].Turns = false, nil
	r.Steps[1].Flow = &events.StepFlow{Kind: events.ControlApproval, Approval: &events.StepApproval{Approvers: []string{"anna"},
		TimeoutMS: 60_000, OnTimeout: events.ExpiryEscalates, EscalateTo: []string{"lead"}}}
	r.Steps = append(r.Steps, SceneStep{ID: "c", Needs: []string{"b"}})
	return s
}

// escalates answers the gates of an approval that is escalated, in the place of others: not before that.
func (h *person) escalates(runID string, g *run.Gate) bool {
	st := h.w.play.Scene.step(h.w.play.Scene.run(runID), g.StepID)
	if st == nil || st.Flow == nil || st.Flow.Approval == nil || st.Flow.Approval.OnTimeout != events.ExpiryEscalates {
		return false
	}
	if g.ExpiresAt.IsZero() {
		h.say(runID, g, reply{decision: "approve", by: "lead"})
		return true
	}
	h.left[runID+"/"+g.ID] = true
	return true
}

// escalated holds GATE-7: an approval that is escalated asks once with a time limit and, when that is up, once without.
func (a *audit) escalated(l *ledger, d *events.GateOpenedData) string {
	st := l.plan[d.Step]
	if st.Flow == nil || st.Flow.Approval == nil || st.Flow.Approval.OnTimeout != events.ExpiryEscalates {
		return ""
	}
	before := 0
	for _, g := range l.gates {
		if g.opened.Step != d.Step {
			continue
		}
		if before++; g.answer != events.GateExpired {
			return "others are asked before the time of the first is up"
		}
	}
	if before > 1 || (before == 1) != d.ExpiresAt.IsZero() {
		return fmt.Sprintf("question %d has its end at %s", before+1, d.ExpiresAt)
	}
	if before == 1 {
		a.w.tale.counts["approvals escalated"]++
	}
	return ""
}

func TestEveryOperationEscalation(t *testing.T) {
	t.Run("GATE-7 SAFE-7 a crash or a duplicate at operations of a run whose approval no one gives in time: others are asked, once, and their yes lets it go on", func(t *testing.T) {
		plays, expired := 0, 0
		someOf(t, smallEscalation("put"), 47, func(out Outcome) {
			plays++
			expired += out.Counts["approvals escalated"]
		})
		if plays < 10 || expired != plays {
			t.Errorf("%d plays, in which %d approvals were escalated", plays, expired)
		}
		t.Logf("%d plays, in which %d approvals were escalated", plays, expired)
	})
}
