// Package runtree draws a run as a tree of lines: its steps, their turns and calls, gates and cost. It is pure: state
// and time in, lines out.
package runtree

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Drawing turns a run into lines: its steps, their turns and calls, and what it waits for.
type Drawing struct {
	terminal.Paint
	Width int
	// Whole shows all turns of all steps; else those of steps that are not completed, and of them the last few.
	Whole bool
	last  int
	// Diff is how many lines are shown of what a finished call changed in files, and Rest the command that shows the
	// others; empty names inspan diff.
	Diff int
	Rest string
	// Zone, where it is set, has calls shown with the time of day they began.
	Zone *time.Location
	// Tick turns the spinner; Tail is the newest line of what is not kept, by call id or "step "+id.
	Tick int
	Tail map[string]string
}

// Spinner are the frames of the mark of what is under way.
var Spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// Spin is the mark of what is under way.
func (d Drawing) Spin() string { return d.Cyan(Spinner[d.Tick%len(Spinner)]) }

// Marks of a step or call.
func (d Drawing) done() string { return d.Green("✓") }

func (d Drawing) bad() string { return d.Red("✗") }

func (d Drawing) waits() string { return d.Yellow("◆") }

func (d Drawing) no() string { return d.Yellow("⊘") }

func (d Drawing) again() string { return d.Yellow("↻") }

func (d Drawing) pending() string { return d.Dim("○") }

// Row is one line with a text at each edge.
func (d Drawing) Row(left, right string) string { return terminal.Spread(left, d.Dim(right), d.Width) }

// Lines draws a run.
func (d Drawing) Lines(t *view.Tree, now time.Time) []string {
	if t.Run == "" {
		return []string{d.Row(d.Spin()+" dispatched, waiting for the planner", "")}
	}
	out := d.head(t, now)
	if t.Steps == nil && !t.Status.Ended() {
		out = append(out, d.Row("  "+d.Spin()+" making the plan", view.Since(t.Created, now)))
	}
	for _, st := range t.Steps {
		out = append(out, d.step(t, st, now)...)
	}
	return append(out, d.foot(t, now)...)
}

// Fitted draws a run in at most so many lines: with fewer and fewer turns, at last without the middle.
func (d Drawing) Fitted(t *view.Tree, now time.Time, most int) []string {
	var lines []string
	for d.last = 6; d.last > 0; d.last-- {
		if lines = d.Lines(t, now); len(lines) <= most {
			return lines
		}
		if d.Diff > 0 {
			d.Diff, d.last = d.Diff/2, 7 // the turns are worth more
		}
	}
	if most < 4 {
		return lines[len(lines)-max(most, 1):]
	}
	// The top says which run it is, the bottom is where it happens.
	cut := len(lines) - most + 1
	short := append([]string{}, lines[:2]...)
	short = append(short, d.Row(d.Dim("  … "+view.Plural(cut, "more line")), ""))
	return append(short, lines[2+cut:]...)
}

func (d Drawing) head(t *view.Tree, now time.Time) []string {
	mark, end := d.Spin(), now
	switch t.Status {
	case events.Completed:
		mark = d.done()
	case events.Failed:
		if mark = d.bad(); t.Stopped() || t.HandedOff() {
			mark = d.no()
		}
	case events.Paused:
		mark = d.Yellow("‖")
	case events.Created, events.Running:
		if len(t.Waiting()) > 0 {
			mark = d.waits()
		}
	}
	if !t.Ended.IsZero() {
		end = t.Ended
	}
	return []string{
		d.Row(fmt.Sprintf("%s %s  %s", mark, d.Bold(t.Run), d.Dim(view.Clip(t.Agent, 40)+" · "+view.Clip(t.Model, 60)+
			pathNote(t))), view.Since(t.Created, end)),
		d.Row("  "+view.Clip(t.Task, 400), ""),
	}
}

func (d Drawing) step(t *view.Tree, st *view.StepNode, now time.Time) []string {
	title := d.Bold(st.ID)
	if st.Critical {
		title += d.Yellow("!")
	}
	if st.Description != t.Task {
		title += "  " + view.Clip(st.Description, 200)
	}
	end := now
	if !st.Ended.IsZero() {
		end = st.Ended
	}
	right := view.Since(st.Began, end)
	switch {
	case st.Parts > 0:
		right = view.Plural(st.Parts, "part") + "  " + right
	case len(st.Turns) > 0 || st.Ended.IsZero() && st.Child.ID == "": // a child has turns of its own, a gate none
		right = view.Plural(len(st.Turns), "turn") + "  " + right
	}
	if st.Part != nil {
		title = strings.Repeat("  ", t.Depth(st)-1) + "└ " + title
	}
	var out []string
	switch st.Status {
	case events.StepIsPending:
		return []string{d.Row("  "+d.pending()+" "+d.Dim(st.ID+"  "+view.Clip(st.Description, 200)), d.needs(st))}
	case events.StepIsBlocked:
		return []string{d.Row("  "+d.Dim("⊘ "+st.ID), "blocked by a failed step")}
	case events.StepIsSkipped:
		return []string{d.Row("  "+d.Dim("↷ "+st.ID), "skipped: "+view.Clip(st.Error, 120))}
	case events.StepIsReady:
		if st.Gate == nil || st.Gate.Status != run.GatePending || t.Status.Ended() {
			return []string{d.Row("  "+d.pending()+" "+title, "ready "+view.Since(st.Ready, now))}
		}
		return append([]string{d.Row("  "+d.waits()+" "+title, "")}, d.gate(t, st.Gate, "    ", now)...)
	case events.StepIsCompleted:
		out = append(out, d.Row("  "+d.done()+" "+title, right))
		if !d.Whole {
			return out
		}
	case events.StepIsFailed:
		out = append(out, d.Row("  "+d.bad()+" "+title, right))
	case events.StepIsRunning:
		mark := d.Spin()
		if t.Status != events.Running {
			mark = d.Yellow("‖")
		}
		out = append(out, d.Row("  "+mark+" "+title, right))
	}
	out = append(out, d.gateAnswer(st.Gate, "    ")...)
	out = append(out, d.child(st, now)...)
	out = append(out, d.turns(t, st, now)...)
	out = append(out, d.checks(t, st, now)...)
	if st.Error != "" {
		out = append(out, d.Row("    "+d.Red(view.Clip(st.Error, 400)), ""))
	}
	return out
}

func (d Drawing) needs(st *view.StepNode) string {
	if st.Part != nil && !st.Part.NotBefore.IsZero() {
		return "not before " + st.Part.NotBefore.Local().Format("15:04:05")
	}
	if len(st.Needs) == 0 {
		return ""
	}
	return "after " + strings.Join(st.Needs, ", ")
}

// turns shows the turns of a step, and what the model is doing now.
func (d Drawing) turns(t *view.Tree, st *view.StepNode, now time.Time) []string {
	turns := st.Turns
	var out []string
	if hidden := len(turns) - d.last; hidden > 0 && !d.Whole {
		out = append(out, d.Row(d.Dim("    … "+view.Plural(hidden, "earlier turn")), ""))
		turns = turns[hidden:]
	}
	for _, turn := range turns {
		if turn.Text != "" {
			out = append(out, d.Row("    "+d.Cyan("▸")+" "+view.Clip(turn.Text, 400), ""))
		}
		for _, c := range turn.Calls {
			out = append(out, d.Call(t, c, "      ", now)...)
		}
	}
	switch {
	case st.Status != events.StepIsRunning || t.Status.Ended():
	case st.Flow != nil && st.Flow.Signal != "":
		out = append(out, d.Row("    "+d.Dim("waits for the signal "+st.Flow.Signal), ""))
	case st.Asked.IsZero():
	case now.Before(st.NotBefore):
		out = append(out, d.Row(fmt.Sprintf("    %s model asked again in %s: %s", d.again(), view.Since(now, st.NotBefore),
			st.Retry), ""))
	default:
		says := d.news("step "+st.ID, d.Width-20)
		switch {
		case says == "" && t.Status == events.Paused:
			return out // the model is not asked
		case says == "":
			says = d.Dim("thinking")
		}
		out = append(out, d.Row("    "+d.Spin()+" "+says, view.Since(st.Asked, now)))
	}
	return out
}

// innerShown is how many calls of a program of others are shown at least where not all are.
const innerShown = 6

// Call shows one behind an indent, with what the program that carries it out asked for.
func (d Drawing) Call(t *view.Tree, c *view.CallNode, indent string, now time.Time) []string {
	out, inner := d.call(t, c, indent, now), c.Inner
	for !d.Whole && len(inner) > innerShown && !inner[0].State.Open() {
		inner = inner[1:]
	}
	if hidden := len(c.Inner) - len(inner); hidden > 0 {
		out = append(out, d.Row(d.Dim(indent+"  … "+view.Plural(hidden, "earlier call")), ""))
	}
	for _, in := range inner {
		out = append(out, d.call(t, in, indent+"  ", now)...)
	}
	return out
}

func (d Drawing) call(t *view.Tree, c *view.CallNode, indent string, now time.Time) []string {
	left := func(mark, note string) string {
		line := fmt.Sprintf("%s%s %s", indent, mark, d.Cyan(view.Clip(c.Tool, 40)))
		if c.Input != "" {
			line += " " + view.Clip(c.Input, d.inputWidth())
		}
		if note != "" {
			line += d.Dim("  " + note)
		}
		return line
	}
	right := view.Span(c.Took)
	if d.Zone != nil && !c.Began.IsZero() {
		right = c.Began.In(d.Zone).Format("15:04:05") + "  " + right
	}
	if c.Attempt > 1 {
		right = fmt.Sprintf("attempt %d  %s", c.Attempt, right)
	}
	var out []string
	switch c.State {
	case view.CallDone:
		out = []string{d.Row(left(d.done(), c.Outcome), right)}
	case view.CallNotOK, view.CallFailed:
		out = []string{d.Row(left(d.bad(), c.Outcome), right)}
	case view.CallRefused:
		out = []string{d.Row(left(d.no(), c.Outcome), "")}
	case view.CallRetries:
		return []string{d.Row(left(d.again(), c.Outcome), fmt.Sprintf("attempt %d again in %s", c.Attempt+1,
			view.Since(now, c.NotBefore)))}
	case view.CallRuns, view.CallAllowed:
		if t.Status.Ended() {
			return []string{d.Row(left(d.pending(), "no result"), "")}
		}
		return []string{d.Row(left(d.Spin(), d.news(c.ID, d.inputWidth())), view.Since(c.Began, now))}
	case view.CallAsked:
		if t.Status.Ended() {
			return []string{d.Row(left(d.pending(), "no result"), "")}
		}
		if c.Gate != nil && c.Gate.Status == run.GatePending {
			return append([]string{d.Row(left(d.waits(), ""), "")}, d.gate(t, c.Gate, indent+"  ", now)...)
		}
		return []string{d.Row(left(d.Spin(), "waits for permission"), view.Since(c.Asked, now))}
	}
	return append(append(d.gateAnswer(c.Gate, indent), out...), d.changed(t, c, indent+"  ")...)
}

// news is the end of the newest line of what is not kept, at most n characters of it.
func (d Drawing) news(key string, n int) string {
	line := []rune(view.Clip(d.Tail[key], MaxTail))
	if n = max(n, 10); len(line) > n {
		return "…" + string(line[len(line)-n+1:])
	}
	return string(line)
}

// inputWidth is how much of a call's input is shown: its outcome wants some too.
func (d Drawing) inputWidth() int { return max(24, d.Width/2-8) }

// gate shows a gate that waits, with the commands that answer it.
func (d Drawing) gate(t *view.Tree, g *view.GateNode, indent string, now time.Time) []string {
	name := t.Run + "/" + g.ID
	return []string{
		d.Row(indent+d.Yellow(d.Bold("waits for a person: ")+view.Clip(g.Reason, 200)+GateTerms(g.Votes, g.Approvers,
			g.Expires, now)), view.Since(g.Opened, now)),
		d.Row(indent+d.Dim("inspan approve "+name), ""),
		d.Row(indent+d.Dim("inspan reject  "+name+` --reason "..."`), ""),
	}
}

// gateAnswer shows how a gate was answered.
func (d Drawing) gateAnswer(g *view.GateNode, indent string) []string {
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
	return []string{d.Row(indent+mark+" "+d.Dim("gate "+text), "waited "+view.Since(g.Opened, g.Answered))}
}

func (d Drawing) foot(t *view.Tree, now time.Time) []string {
	word := string(t.Status)
	if len(t.Waiting()) > 0 && t.Status == events.Running {
		word = statusWaiting
	}
	if t.Stopped() {
		word = statusStopped
	} else if t.HandedOff() {
		word = statusHanded
	}
	calls := view.Plural(t.Calls, "call")
	if t.Budget > 0 && !t.Status.Ended() {
		calls = fmt.Sprintf("%d of %d calls", t.Calls, t.Budget)
	}
	word = d.State(word)
	if text := view.Verified(t.Result); text != "" {
		word += d.Dim(" · " + text)
	}
	done, total := t.StepsDone(), len(t.Steps)
	if total == 0 && t.Result != nil { // its events are elsewhere
		done, total = t.Result.StepsCompleted, t.Result.StepsTotal
	}
	parts := []string{fmt.Sprintf("%d of %s", done, view.Plural(total, "step")),
		view.Plural(t.Turns, "turn"), calls,
		view.Count(t.Tokens.Input) + " tokens in, " + view.Count(t.Tokens.Output) + " out"}
	if text := CostText(t.Cost); text != "" {
		parts = append(parts, text)
	}
	out := []string{d.Row("  "+word+d.Dim(" · "+strings.Join(parts, " · ")), "")}
	if t.Below.Runs > 0 {
		out = append(out, d.Row("  "+d.Dim("and "+view.Plural(t.Below.Runs, "child run")+" that ended: "+UseText(t.Below)), ""))
	}
	if t.Status == events.Paused {
		why := cmp.Or(view.Clip(t.PauseReason, 300), "no reason given")
		out = append(out, d.Row("  "+d.Yellow("paused: "+why), view.Since(t.Paused, now)),
			d.Row("  "+d.Dim("inspan resume "+t.Run), ""))
	}
	if t.Result != nil && t.Result.Error != "" {
		paint := d.Red
		if t.Stopped() || t.HandedOff() {
			paint = d.Dim
		}
		out = append(out, d.Row("  "+paint(view.Clip(t.Result.Error, 600)), ""))
	}
	return out
}

// pathNote is what the head of a run says of its path: that it is direct, else nothing.
func pathNote(t *view.Tree) string {
	if t.Direct {
		return " · direct"
	}
	return ""
}
