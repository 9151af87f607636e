package repl

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// lateWait bounds how long a turn that is stored waits for what its model wrote last.
const lateWait = 250 * time.Millisecond

// writeRest writes what is still under way of a turn that is done, so that its reasoning is not cut off: only the text
// is stored in a form for people.
func (t *turnRun) writeRest(ctx context.Context, item client.Item, live <-chan client.Piece) {
	d, ok := item.Payload.(*events.TurnFinishedData)
	if !ok || !t.r.app.Term.TTY || t.asking != nil || d.OutputTokens == 0 && d.Text == "" {
		return
	}
	limit := time.NewTimer(lateWait)
	defer limit.Stop()
	for t.finishedTurn < d.Turn {
		select {
		case p := <-live:
			t.receive(p)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// receive writes a piece of what the model says. With several steps at a time the pieces would mix, so then each turn
// is shown when it is done.
func (t *turnRun) receive(d client.Piece) {
	if d.Call != "" {
		t.draw.Tail[d.Call] = runtree.Newest(t.draw.Tail[d.Call], d.Text)
		return
	}
	if t.behind() {
		t.early = append(t.early, d)
		return
	}
	if d.Turn <= t.tree.Turns || t.asking != nil || len(t.tree.Steps) > 1 {
		return // it has been shown
	}
	if d.Again {
		t.endText(true)
		t.print(t.draw.Dim("  asked again, what came before does not count"))
	}
	if d.Text != "" {
		t.write(d)
	}
	if d.Done && d.Error == "" {
		t.finishedTurn = d.Turn
	}
}

// write writes a text, reasoning dim.
func (t *turnRun) write(d client.Piece) {
	if t.text == nil {
		t.begin(d.Turn)
	}
	text := view.Whole(d.Text)
	if thinking := d.Event == "thinking"; t.text.thinks != thinking {
		t.text.end()
		t.text.thinks = thinking
	}
	if t.text.thinks {
		t.text.thought.Add(text)
		return
	}
	t.text.shown.WriteString(text)
	t.text.said.Add(text)
}

// behind reports whether events are still to come before what the model says: those of the run's beginning, or of open
// calls.
func (t *turnRun) behind() bool { return len(t.tree.Steps) == 0 || len(t.state.Open) > 0 }

// heading shows the number of a turn, once.
func (t *turnRun) heading(turn int) {
	if t.headed == turn {
		return
	}
	t.headed = turn
	t.canvas.Clear()
	fmt.Fprintln(t.r.app.Out, t.draw.Dim(fmt.Sprintf("  step %d/%d", turn, t.state.Options.MaxSteps)))
}

// begin opens the text of a turn.
func (t *turnRun) begin(turn int) {
	t.heading(turn)
	t.canvas.Clear()
	t.sized()
	flow := terminal.Wrapper{Indent: "  ", Write: func(s string) { _, _ = io.WriteString(t.r.app.Out, s) }}
	if t.r.app.Term.TTY {
		flow.Width = min(t.draw.Width-2, 100)
	}
	t.text = &turnText{thought: flow, said: terminal.Markdown{Flow: flow, Paint: t.draw.Paint}}
	t.text.thought.Style = t.draw.Dim
}

// endText ends the line that is being written; the turn may still go on, unless it is over.
func (t *turnRun) endText(over bool) {
	if t.text == nil {
		return
	}
	t.text.end()
	if over {
		t.text = nil
	}
}

// finishText shows a turn that is done: of its text, what has not been shown as it came.
func (t *turnRun) finishText(d *events.TurnFinishedData) {
	t.early = nil
	whole := strings.TrimSpace(view.Whole(d.Text))
	shown := ""
	if t.text != nil {
		shown = strings.TrimSpace(t.text.shown.String())
	}
	t.endText(true)
	t.heading(t.tree.Turns)
	if whole != "" && shown != whole {
		t.begin(t.tree.Turns)
		t.text.said.Add(whole)
		t.endText(true)
	}
}
