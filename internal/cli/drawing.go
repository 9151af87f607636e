package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// drawing turns a run into lines: its steps, their turns and calls, and what it waits for.
type drawing struct {
	paint
	width int
	// whole shows all turns of all steps; else those of steps that are not completed, and of them the last few.
	whole bool
	last  int
	// zone, where it is set, has calls shown with the time of day they began.
	zone *time.Location
	// tick turns the spinner; tail is the newest line of what is not kept, by call id or "step "+id.
	tick int
	tail map[string]string
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (d drawing) spin() string { return d.cyan(spinner[d.tick%len(spinner)]) }

// Marks of a step or call.
func (d drawing) done() string    { return d.green("✓") }
func (d drawing) bad() string     { return d.red("✗") }
func (d drawing) waits() string   { return d.yellow("◆") }
func (d drawing) no() string      { return d.yellow("⊘") }
func (d drawing) again() string   { return d.yellow("↻") }
func (d drawing) pending() string { return d.dim("○") }

func (d drawing) row(left, right string) string { return spread(left, d.dim(right), d.width) }

// lines draws a run.
func (d drawing) lines(t *view.Tree, now time.Time) []string {
	if t.Run == "" {
		return []string{d.row(d.spin()+" dispatched, waiting for the planner", "")}
	}
	out := d.head(t, now)
	if t.Steps == nil && !t.Status.Ended() {
		out = append(out, d.row("  "+d.spin()+" making the plan", view.Since(t.Created, now)))
	}
	for _, st := range t.Steps {
		out = append(out, d.step(t, st, now)...)
	}
	return append(out, d.foot(t, now)...)
}

// fitted draws a run in at most so many lines: with fewer and fewer turns, at last without the middle.
func (d drawing) fitted(t *view.Tree, now time.Time, most int) []string {
	var lines []string
	for d.last = 6; d.last > 0; d.last-- {
		if lines = d.lines(t, now); len(lines) <= most {
			return lines
		}
	}
	if most < 4 {
		return lines[len(lines)-max(most, 1):]
	}
	// The top says which run it is, the bottom is where it happens.
	cut := len(lines) - most + 1
	short := append([]string{}, lines[:2]...)
	short = append(short, d.row(d.dim("  … "+view.Plural(cut, "more line")), ""))
	return append(short, lines[2+cut:]...)
}

func (d drawing) head(t *view.Tree, now time.Time) []string {
	mark, end := d.spin(), now
	switch t.Status {
	case events.Completed:
		mark = d.done()
	case events.Failed:
		mark = d.bad()
	case events.Paused:
		mark = d.yellow("‖")
	case events.Created, events.Running:
		if len(t.Waiting()) > 0 {
			mark = d.waits()
		}
	}
	if !t.Ended.IsZero() {
		end = t.Ended
	}
	return []string{
		d.row(fmt.Sprintf("%s %s  %s", mark, d.bold(t.Run), d.dim(view.Clip(t.Agent, 40)+" · "+view.Clip(t.Model, 60)+way(t))), view.Since(t.Created, end)),
		d.row("  "+view.Clip(t.Task, 400), ""),
	}
}

func (d drawing) step(t *view.Tree, st *view.StepNode, now time.Time) []string {
	title := d.bold(st.ID)
	if st.Critical {
		title += d.yellow("!")
	}
	if st.Description != t.Task {
		title += "  " + view.Clip(st.Description, 200)
	}
	end := now
	if !st.Ended.IsZero() {
		end = st.Ended
	}
	right := fmt.Sprintf("%s  %s", view.Plural(len(st.Turns), "turn"), view.Since(st.Began, end))
	var out []string
	switch st.Status {
	case events.StepIsPending:
		return []string{d.row("  "+d.pending()+" "+d.dim(st.ID+"  "+view.Clip(st.Description, 200)), d.needs(st))}
	case events.StepIsBlocked:
		return []string{d.row("  "+d.dim("⊘ "+st.ID), "blocked by a failed step")}
	case events.StepIsReady:
		if st.Gate == nil || st.Gate.Status != run.GatePending || t.Status.Ended() {
			return []string{d.row("  "+d.pending()+" "+title, "ready "+view.Since(st.Ready, now))}
		}
		return append([]string{d.row("  "+d.waits()+" "+title, "")}, d.gate(t, st.Gate, "    ", now)...)
	case events.StepIsCompleted:
		out = append(out, d.row("  "+d.done()+" "+title, right))
		if !d.whole {
			return out
		}
	case events.StepIsFailed:
		out = append(out, d.row("  "+d.bad()+" "+title, right))
	case events.StepIsRunning:
		mark := d.spin()
		if t.Status != events.Running {
			mark = d.yellow("‖")
		}
		out = append(out, d.row("  "+mark+" "+title, right))
	}
	out = append(out, d.gateAnswer(st.Gate, "    ")...)
	out = append(out, d.turns(t, st, now)...)
	if st.Error != "" {
		out = append(out, d.row("    "+d.red(view.Clip(st.Error, 400)), ""))
	}
	return out
}

func (d drawing) needs(st *view.StepNode) string {
	if len(st.Needs) == 0 {
		return ""
	}
	return "after " + strings.Join(st.Needs, ", ")
}

// turns shows the turns of a step, and what the model is doing now.
func (d drawing) turns(t *view.Tree, st *view.StepNode, now time.Time) []string {
	turns := st.Turns
	var out []string
	if hidden := len(turns) - d.last; hidden > 0 && !d.whole {
		out = append(out, d.row(d.dim("    … "+view.Plural(hidden, "earlier turn")), ""))
		turns = turns[hidden:]
	}
	for _, turn := range turns {
		if turn.Text != "" {
			out = append(out, d.row("    "+d.cyan("▸")+" "+view.Clip(turn.Text, 400), ""))
		}
		for _, c := range turn.Calls {
			out = append(out, d.call(t, c, "      ", now)...)
		}
	}
	switch {
	case st.Status != events.StepIsRunning || t.Status.Ended() || st.Asked.IsZero():
	case now.Before(st.NotBefore):
		out = append(out, d.row(fmt.Sprintf("    %s model asked again in %s: %s", d.again(), view.Since(now, st.NotBefore), st.Retry), ""))
	default:
		says := d.news("step "+st.ID, d.width-20)
		if says == "" {
			says = d.dim("thinking")
		}
		out = append(out, d.row("    "+d.spin()+" "+says, view.Since(st.Asked, now)))
	}
	return out
}

// call shows one behind an indent.
func (d drawing) call(t *view.Tree, c *view.CallNode, indent string, now time.Time) []string {
	left := func(mark, note string) string {
		line := fmt.Sprintf("%s%s %s", indent, mark, d.cyan(view.Clip(c.Tool, 40)))
		if c.Input != "" {
			line += " " + view.Clip(c.Input, d.room())
		}
		if note != "" {
			line += d.dim("  " + note)
		}
		return line
	}
	right := view.Span(c.Took)
	if d.zone != nil && !c.Began.IsZero() {
		right = c.Began.In(d.zone).Format("15:04:05") + "  " + right
	}
	if c.Attempt > 1 {
		right = fmt.Sprintf("attempt %d  %s", c.Attempt, right)
	}
	var out []string
	switch c.State {
	case view.CallDone:
		out = []string{d.row(left(d.done(), c.Outcome), right)}
	case view.CallNotOK, view.CallFailed:
		out = []string{d.row(left(d.bad(), c.Outcome), right)}
	case view.CallRefused:
		out = []string{d.row(left(d.no(), c.Outcome), "")}
	case view.CallRetries:
		return []string{d.row(left(d.again(), c.Outcome), fmt.Sprintf("attempt %d again in %s", c.Attempt+1, view.Since(now, c.NotBefore)))}
	case view.CallRuns, view.CallAllowed:
		if t.Status.Ended() {
			return []string{d.row(left(d.pending(), "no result"), "")}
		}
		return []string{d.row(left(d.spin(), d.news(c.ID, d.room())), view.Since(c.Began, now))}
	case view.CallAsked:
		if t.Status.Ended() {
			return []string{d.row(left(d.pending(), "no result"), "")}
		}
		if c.Gate != nil && c.Gate.Status == run.GatePending {
			return append([]string{d.row(left(d.waits(), ""), "")}, d.gate(t, c.Gate, indent+"  ", now)...)
		}
		return []string{d.row(left(d.spin(), "waits for permission"), view.Since(c.Asked, now))}
	}
	return append(d.gateAnswer(c.Gate, indent), out...)
}

// news is the end of the newest line of what is not kept, at most n characters of it.
func (d drawing) news(key string, n int) string {
	line := []rune(view.Clip(d.tail[key], maxTail))
	if n = max(n, 10); len(line) > n {
		return "…" + string(line[len(line)-n+1:])
	}
	return string(line)
}

// room is how much of a call's input is shown: its outcome wants some too.
func (d drawing) room() int { return max(24, d.width/2-8) }

// gate shows a gate that waits, with the commands that answer it.
func (d drawing) gate(t *view.Tree, g *view.GateNode, indent string, now time.Time) []string {
	name := t.Run + "/" + g.ID
	return []string{
		d.row(indent+d.yellow(d.bold("waits for a person: ")+view.Clip(g.Reason, 200)+terms(g.Votes, g.Approvers, g.Expires, now)), view.Since(g.Opened, now)),
		d.row(indent+d.dim("inspan approve "+name), ""),
		d.row(indent+d.dim("inspan reject  "+name+` --reason "..."`), ""),
	}
}

// gateAnswer shows how a gate was answered.
func (d drawing) gateAnswer(g *view.GateNode, indent string) []string {
	if g == nil || g.Status == run.GatePending {
		return nil
	}
	mark, text := d.done(), "approved by "+view.Clip(g.By, 80)
	if g.Status == run.GateRejected {
		mark, text = d.bad(), "rejected by "+view.Clip(g.By, 80)
	}
	if g.Status == run.GateExpired {
		mark, text = d.bad(), "expired"
	}
	if g.Why != "" {
		text += ": " + view.Clip(g.Why, 200)
	}
	return []string{d.row(indent+mark+" "+d.dim("gate "+text), "waited "+view.Since(g.Opened, g.Answered))}
}

func (d drawing) foot(t *view.Tree, now time.Time) []string {
	word := string(t.Status)
	if len(t.Waiting()) > 0 && t.Status == events.Running {
		word = statusWaiting
	}
	calls := view.Plural(t.Calls, "call")
	if t.Budget > 0 && !t.Status.Ended() {
		calls = fmt.Sprintf("%d of %d calls", t.Calls, t.Budget)
	}
	parts := []string{fmt.Sprintf("%d of %s", t.StepsDone(), view.Plural(len(t.Steps), "step")), view.Plural(t.Turns, "turn"), calls,
		view.Count(t.Tokens.Input) + " tokens in, " + view.Count(t.Tokens.Output) + " out"}
	if text := costText(t.Cost); text != "" {
		parts = append(parts, text)
	}
	out := []string{d.row("  "+d.state(word)+d.dim(" · "+strings.Join(parts, " · ")), "")}
	if t.Status == events.Paused {
		why := cmp.Or(view.Clip(t.PauseReason, 300), "no reason given")
		out = append(out, d.row("  "+d.yellow("paused: "+why), view.Since(t.Paused, now)), d.row("  "+d.dim("inspan resume "+t.Run), ""))
	}
	if t.Result != nil && t.Result.Error != "" {
		out = append(out, d.row("  "+d.red(view.Clip(t.Result.Error, 600)), ""))
	}
	return out
}
