package runtree

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// child shows the run that a step was last given to; nothing where it was given to none.
func (d Drawing) child(st *view.StepNode, now time.Time) []string {
	c := st.Child
	if c.ID == "" {
		return nil
	}
	mark, end, note := d.Spin(), now, ""
	switch c.Outcome {
	case events.ChildIsCompleted:
		mark = d.done()
	case events.ChildIsFailed:
		mark = d.bad()
	}
	if !c.Ended.IsZero() {
		end, note = c.Ended, fmt.Sprintf("%s  ", view.Plural(c.Use.ToolCalls, "tool call"))
	}
	title := fmt.Sprintf("    %s child %s  %s", mark, c.ID, d.Dim(view.Clip(c.Agent, 40)+", workspace "+c.Workspace))
	if c.Attempt > 1 {
		title += d.Dim(fmt.Sprintf(", attempt %d", c.Attempt))
	}
	return []string{d.Row(title, note+view.Since(c.Began, end))}
}
