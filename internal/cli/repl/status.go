package repl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// status is the line above the prompt: the model, how full its window was, what this conversation cost, the branch, and
// the gates that wait. Empty before the first input, which the banner stands for.
func (r *repl) status(width int) string {
	if r.last.Sequence == 0 {
		return ""
	}
	agent := r.last.Agents[r.last.AgentName]
	parts := []string{view.Clip(cmp.Or(r.flags.Model, agent.Model, r.agent.Model), 60)}
	if used, size := window(r.last); size > 0 {
		parts = append(parts, fmt.Sprintf("%d %% of %s", 100*used/size, view.Count(size)))
	}
	if r.spent > 0 {
		parts = append(parts, r.spent.String())
	}
	waiting := 0
	for _, g := range r.last.Gates {
		if g.Status == run.GatePending && !r.last.Status.Ended() {
			waiting++
		}
	}
	if waiting > 0 {
		parts = append(parts, view.Plural(waiting, "gate")+" waiting")
	}
	if r.last.Status == events.Paused {
		parts = append(parts, "paused")
	}
	if r.placed.Git != nil {
		parts = append(parts, "inspan/"+r.flags.Session)
	}
	return fitted(parts, width)
}

// fitted joins parts, the last ones left out where the width has no room for them.
func fitted(parts []string, width int) string {
	for n := len(parts); n > 1; n-- {
		if line := strings.Join(parts[:n], " · "); ansi.StringWidth(line) <= width {
			return line
		}
	}
	return ansi.Truncate(parts[0], max(width, 1), "…")
}

// firstLines is how many lines of a result are shown before it is folded.
const firstLines = 3

// folded are the first lines of a result of several lines, and how the rest is shown. A result of one line stands in
// the line of its call.
func folded(text string, number, width int) []string {
	lines := strings.Split(strings.TrimSpace(view.Whole(strings.ReplaceAll(text, "\r\n", "\n"))), "\n")
	if len(lines) < 2 {
		return nil
	}
	var out []string
	for _, l := range lines[:min(firstLines, len(lines))] {
		out = append(out, ansi.Truncate(strings.ReplaceAll(l, "\t", "    "), max(width, 1), "…"))
	}
	if more := len(lines) - firstLines; more > 0 {
		out = append(out, fmt.Sprintf("… %s, /show %d", view.Plural(more, "more line"), number))
	}
	return out
}
