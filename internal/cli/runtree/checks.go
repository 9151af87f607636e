package runtree

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// checks shows the acceptance checks of the last time that the agent called a step done.
func (d Drawing) checks(t *view.Tree, st *view.StepNode, now time.Time) []string {
	if len(st.Claim.Checks) == 0 {
		return nil
	}
	title := "checks"
	if st.Claim.Number > 1 {
		title += fmt.Sprintf(", claim %d of %d", st.Claim.Number, st.Claim.Most)
	}
	out := []string{d.Row("    "+d.Cyan("▸")+" "+title, "")}
	running := st.Status == events.StepIsRunning && !t.Status.Ended()
	for _, c := range st.Claim.Checks {
		name, right := view.Clip(c.Name, 80), view.Span(c.Took)
		switch c.State {
		case view.CheckPassed:
			out = append(out, d.Row("      "+d.done()+" "+name, right))
		case view.CheckFailed:
			out = append(out, d.Row("      "+d.bad()+" "+name+d.Dim("  "+view.Clip(c.Reason, 200)), right))
			for _, line := range c.Output {
				out = append(out, d.Row(d.Dim("        "+view.Clip(line, 200)), ""))
			}
			running = false // the others are not made
		case view.CheckOpen:
			mark, since := d.pending(), ""
			if running { // the first that is open
				mark, since, running = d.Spin(), view.Since(st.Claim.At, now), false
			}
			out = append(out, d.Row("      "+mark+" "+name, since))
		}
	}
	return out
}
