package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// tree draws a run: its steps, their turns and calls, and what it waits for.
type tree struct {
	paint
	width int
	// whole shows all turns; else only the last ones of a running step.
	whole bool
	tick  int
}

// lastTurns is how many turns of a running step are shown while it runs.
const lastTurns = 6

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (t tree) spin() string { return t.cyan(spinner[t.tick%len(spinner)]) }

func (t tree) lines(s run.State, now time.Time) []string {
	if s.Sequence == 0 {
		return []string{t.spin() + " waiting for the planner"}
	}
	out := []string{t.head(s, now)}
	if s.Plan == nil {
		return append(out, "  "+t.spin()+" making the plan")
	}
	for _, st := range s.Plan.Steps {
		out = append(out, t.step(s, st, now)...)
	}
	return append(out, t.foot(s, now))
}

func (t tree) head(s run.State, now time.Time) string {
	mark := t.spin()
	switch {
	case s.Status == events.Completed:
		mark = t.green("✔")
	case s.Status == events.Failed:
		mark = t.red("✘")
	case s.Status == events.Paused:
		mark = t.yellow("‖")
	}
	return t.fit(fmt.Sprintf("%s %s %s %s", mark, t.bold(s.HarnessID), t.dim(s.AgentName), view.Clip(s.Created.Task, 100)))
}

func (t tree) step(s run.State, st *run.Step, now time.Time) []string {
	name := st.ID
	if st.Critical {
		name += "!"
	}
	text := func(mark, note string) string {
		return t.fit(fmt.Sprintf("  %s %s  %s %s", mark, t.bold(name), view.Clip(st.Description, 70), t.dim(note)))
	}
	turns := fmt.Sprintf("%d turns", st.Turns)
	var out []string
	switch st.Status {
	case events.StepIsCompleted:
		out = append(out, text(t.green("✔"), turns))
		if !t.whole {
			return out
		}
	case events.StepIsFailed:
		out = append(out, text(t.red("✘"), turns), t.fit("      "+t.red(view.Clip(st.Error, 200))))
	case events.StepIsBlocked:
		return []string{text(t.dim("⊘"), "blocked by a failed step")}
	case events.StepIsPending:
		return []string{text(t.dim("·"), "")}
	case events.StepIsReady:
		return append([]string{text(t.yellow("◆"), "ready")}, t.gate(s, s.GateFor(st.ID, ""), now)...)
	case events.StepIsRunning:
		out = append(out, text(t.spin(), turns))
	}
	return append(out, t.turns(s, st, now)...)
}

// turns shows the turns of a step with their calls.
func (t tree) turns(s run.State, st *run.Step, now time.Time) []string {
	results := map[string]run.CallRecord{}
	for _, r := range s.ToolCallHistory.All() {
		if r.Step == st.ID {
			results[r.ID] = r
		}
	}
	var mine []run.Turn
	for _, turn := range s.Turns().All() {
		if turn.Step == st.ID {
			mine = append(mine, turn)
		}
	}
	var out []string
	if hidden := len(mine) - lastTurns; hidden > 0 && !t.whole {
		out = append(out, t.dim(fmt.Sprintf("      … %d turns before", hidden)))
		mine = mine[hidden:]
	}
	for _, turn := range mine {
		if turn.Text != "" {
			out = append(out, t.fit("      "+t.dim("▸ ")+view.Clip(turn.Text, 160)))
		}
		for _, c := range turn.Calls {
			out = append(out, t.call(s, c, results, now)...)
		}
	}
	switch {
	case st.Status != events.StepIsRunning:
	case st.Owed > 0 && !st.NotBefore.IsZero() && now.Before(st.NotBefore):
		out = append(out, t.fit("      "+t.yellow(fmt.Sprintf("model request failed %d times, again in %s", st.Attempt, view.Span(st.NotBefore.Sub(now))))))
	case st.Owed > 0:
		out = append(out, "      "+t.spin()+t.dim(" thinking "+view.Span(max(0, now.Sub(s.UpdatedAt)))))
	}
	return out
}

func (t tree) call(s run.State, c events.RequestedCall, results map[string]run.CallRecord, now time.Time) []string {
	what := t.cyan(c.Tool) + " " + view.Clip(argument(c), 60)
	line := func(mark, note string) string {
		return t.fit(fmt.Sprintf("        %s %s %s", mark, what, t.dim(note)))
	}
	if r, ok := results[c.ID]; ok {
		note := view.Span(time.Duration(r.DurationMS)*time.Millisecond) + "  " + view.Clip(lastLine(r.Result), 70)
		switch {
		case r.Outcome == run.OutcomeRefused:
			return []string{line(t.yellow("⊘"), "refused: "+view.Clip(r.Result, 90))}
		case r.Outcome == run.OutcomeFailed, !r.Success:
			return []string{line(t.red("✘"), note)}
		}
		return []string{line(t.green("✔"), note)}
	}
	open := s.Open[c.ID]
	switch {
	case open == nil:
		return []string{line(t.dim("·"), "no result")}
	case open.Phase == run.CallRequested:
		return append([]string{line(t.yellow("◆"), "waits for permission")}, t.gate(s, s.GateFor(open.Step, c.ID), now)...)
	case open.Phase == run.CallStarted:
		return []string{line(t.spin(), view.Span(max(0, now.Sub(open.StartedAt))))}
	case open.Phase == run.CallDeferred:
		return []string{line(t.yellow("↻"), fmt.Sprintf("failed %d times, again in %s", open.Attempt, view.Span(max(0, open.NotBefore.Sub(now)))))}
	}
	return []string{line(t.spin(), "allowed")}
}

// gate shows a gate that waits, with the command that answers it.
func (t tree) gate(s run.State, g *run.Gate, now time.Time) []string {
	if g == nil || g.Status != run.GatePending || s.Status.Ended() {
		return nil
	}
	return []string{
		t.fit("      " + t.yellow(t.bold("▶ waits for a person")) + t.yellow(" for "+view.Span(max(0, now.Sub(g.CreatedAt))))),
		t.fit("        " + t.dim("inspan approve "+g.ID+"   or   inspan reject "+g.ID+" --reason \"...\"")),
	}
}

func (t tree) foot(s run.State, now time.Time) string {
	end := now
	if s.EndedAt != nil {
		end = *s.EndedAt
	}
	done, total := s.StepsCompleted()
	parts := []string{string(s.Status), fmt.Sprintf("%d/%d steps", done, total), fmt.Sprintf("%d turns", s.Turns().Len()), fmt.Sprintf("%d calls", s.TotalToolCalls),
		fmt.Sprintf("%d+%d tokens", s.Tokens.Input, s.Tokens.Output), fmt.Sprintf("%d facts", s.Sequence), view.Span(max(0, end.Sub(s.CreatedAt)))}
	foot := "  " + t.dim(strings.Join(parts, " · "))
	if s.PauseReason != "" {
		foot += "\n  " + t.yellow("paused: "+view.Clip(s.PauseReason, 120))
	}
	if s.Result != nil && s.Result.Error != "" {
		foot += "\n  " + t.red(view.Clip(s.Result.Error, 300))
	}
	return foot
}

// argument is the part of a call's input that says most: the only or first text in it.
func argument(c events.RequestedCall) string {
	if c.InputRef != nil {
		return fmt.Sprintf("(%d bytes)", c.InputRef.Size)
	}
	var in map[string]any
	if unmarshal(c.Input, &in) != nil {
		return string(c.Input)
	}
	for _, key := range []string{"command", "path", "pattern"} {
		if v, ok := in[key].(string); ok {
			return v
		}
	}
	if len(in) == 0 {
		return ""
	}
	return string(c.Input)
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// fit cuts a line at the width of the terminal; escape sequences take no room.
func (t tree) fit(s string) string {
	if t.width <= 0 {
		return s
	}
	var b strings.Builder
	room := t.width - 1
	for i := 0; i < len(s); {
		if s[i] == '\x1b' {
			end := strings.IndexByte(s[i:], 'm')
			if end < 0 {
				break
			}
			b.WriteString(s[i : i+end+1])
			i += end + 1
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if room--; room < 0 {
			b.WriteString("…")
			if bool(t.paint) {
				b.WriteString("\x1b[0m")
			}
			break
		}
		b.WriteRune(r)
		i += size
	}
	return b.String()
}

// screen redraws lines in place on a terminal.
type screen struct {
	out    io.Writer
	height int
	drawn  int
}

// draw replaces what was drawn before. What does not fit into the terminal is cut at the top, so that the newest
// shows.
func (sc *screen) draw(lines []string) {
	lines = strings.Split(strings.Join(lines, "\n"), "\n")
	if most := max(3, sc.height-1); len(lines) > most {
		lines = append([]string{lines[0]}, lines[len(lines)-most+1:]...)
	}
	var b strings.Builder
	b.WriteString("\x1b[?25l")
	if sc.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", sc.drawn)
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K" + l + "\n")
	}
	b.WriteString("\x1b[0J\x1b[?25h")
	sc.drawn = len(lines)
	_, _ = io.WriteString(sc.out, b.String()) // a terminal that is gone shows nothing
}

// finish replaces the drawing by its final, whole form.
func (sc *screen) finish(lines []string) {
	var b strings.Builder
	if sc.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[0J", sc.drawn)
	}
	b.WriteString(strings.Join(slices.Clone(lines), "\n") + "\n")
	sc.drawn = 0
	_, _ = io.WriteString(sc.out, b.String()) // a terminal that is gone shows nothing
}
