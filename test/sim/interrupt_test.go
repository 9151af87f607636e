package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/inspan/inspan/internal/llm"
	"github.com/inspan/inspan/pkg/events"
)

// half is what a model has said of an answer that takes long.
const half = "half of it"

// smallCuts is the small world in which somebody interrupts the first answer, and lets the run go on.
func smallCuts(first, second string) Scene {
	s := small(first, second)
	s.Cuts = true
	return s
}

// speaks says half of an answer, and the rest 20 s later. Who listens may interrupt it meanwhile.
func (m models) speaks(ctx context.Context, about llm.Meta, sink llm.Sink) error {
	h := m.l.p.w.person
	if sink == nil || about.Purpose != "turn" || !h.interrupts(about.Run) {
		return nil
	}
	sink(llm.Delta{Text: half})
	select {
	case <-time.After(20 * time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// interrupts reports whether somebody means to interrupt an answer that has begun: the first of a run, or any where the
// users are rude.
func (h *person) interrupts(runID string) bool {
	scene := h.w.play.Scene
	first := scene.Cuts && h.cuts[runID] == 0
	if !first && (!scene.Rude || h.w.peace || h.w.play.Inject != nil || h.w.rng.IntN(8) > 0) {
		return false
	}
	h.cuts[runID]++
	h.acts = append(h.acts, act{events.ControlSubject(station, runID), `{"action":"pause","interrupt":true}`, "interrupt " + runID})
	return true
}

// cutAudit is what the audit knows of the interrupts of a run.
type cutAudit struct {
	// asked is the event of the last pause that interrupts.
	asked uint64
	// said is the event of the last answer of each step; half is true where that was interrupted.
	said map[string]uint64
	half map[string]bool
}

// cut holds LIFE-3 for interrupts: an answer is interrupted only after somebody asked for it, what was said until then is kept and
// counted, it asks for no calls, and no step ends with it.
func (a *audit) cut(l *ledger, f events.Event, p events.Payload) string {
	c := &l.cuts
	switch d := p.(type) {
	case *events.RunPausedData:
		if d.Interrupt {
			c.asked = f.Sequence
		}
	case *events.TurnFinishedData:
		before := c.said[d.Step]
		c.said[d.Step], c.half[d.Step] = f.Sequence, d.Interrupted
		if !d.Interrupted {
			return ""
		}
		a.w.tale.counts["answers interrupted"]++
		switch {
		case c.asked <= before:
			return fmt.Sprintf("the answer after event %d was interrupted, and the last to ask for that is event %d", before, c.asked)
		case d.Text != half || d.FinishReason != events.FinishInterrupted || len(d.Calls) > 0:
			return fmt.Sprintf("an interrupted answer of %q, %s, with %d calls", d.Text, d.FinishReason, len(d.Calls))
		case !d.Estimated || d.InputTokens == 0 || d.OutputTokens == 0:
			return fmt.Sprintf("%d and %d tokens are counted for an interrupted answer", d.InputTokens, d.OutputTokens)
		}
	case *events.StepFinishedData:
		if c.half[d.Step] {
			return "step " + d.Step + " is finished with an answer that was interrupted"
		}
	}
	return ""
}

func TestEveryOperationInterrupt(t *testing.T) {
	t.Run("LIFE-3 SAFE-7 a crash or a duplicate at operations of a run whose first answer is interrupted: it is asked again, and each effect comes once", func(t *testing.T) {
		plays, cut := 0, 0
		someOf(t, smallCuts("pay", "put"), 19, func(out Outcome) {
			plays++
			cut += out.Counts["answers interrupted"]
		})
		if plays < 20 || cut < plays/2 {
			t.Errorf("%d plays, in which %d answers were interrupted", plays, cut)
		}
		t.Logf("%d plays, %d answers interrupted", plays, cut)
	})
}
