package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// late bounds how long a turn that is stored waits for what its model wrote last.
const late = 250 * time.Millisecond

// rest writes what is still under way of a turn that is done, so that its reasoning is not cut off: only the text is stored
// in a form for people.
func (t *replRun) rest(ctx context.Context, item client.Item, live <-chan client.Piece) {
	d, ok := item.Payload.(*events.TurnFinishedData)
	if !ok || !t.r.app.term.tty || t.asking != nil || d.OutputTokens == 0 && d.Text == "" {
		return
	}
	limit := time.NewTimer(late)
	defer limit.Stop()
	for t.told < d.Turn {
		select {
		case p := <-live:
			t.heard(p)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// heard writes a piece of what the model says. With several steps at a time the pieces would mix, so then each turn is shown
// when it is done.
func (t *replRun) heard(d client.Piece) {
	if d.Call != "" {
		t.draw.tail[d.Call] = newest(t.draw.tail[d.Call], d.Text)
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
		t.print(t.draw.dim("  asked again, what came before does not count"))
	}
	if d.Text != "" {
		t.write(d)
	}
	if d.Done && d.Error == "" {
		t.told = d.Turn
	}
}

// write writes a text, reasoning dim.
func (t *replRun) write(d client.Piece) {
	if t.text == nil {
		t.begin(d.Turn)
	}
	thinking := d.Event == "thinking"
	if style := t.text.flow.style != nil; style != thinking {
		t.text.flow.end()
		t.text.flow.style = nil
		if thinking {
			t.text.flow.style = t.draw.dim
		}
	}
	text := view.Whole(d.Text)
	if !thinking {
		t.text.shown.WriteString(text)
	}
	t.text.flow.add(text)
}

// behind reports whether facts are still to come before what the model says: those of the run's beginning, or of open calls.
func (t *replRun) behind() bool { return len(t.tree.Steps) == 0 || len(t.state.Open) > 0 }

// head shows the number of a turn, once.
func (t *replRun) head(turn int) {
	if t.headed == turn {
		return
	}
	t.headed = turn
	t.canvas.clear()
	fmt.Fprintln(t.r.app.out, t.draw.dim(fmt.Sprintf("  step %d/%d", turn, t.state.Options.MaxSteps)))
}

// begin opens the text of a turn.
func (t *replRun) begin(turn int) {
	t.head(turn)
	t.canvas.clear()
	t.sized()
	t.text = &replText{flow: flow{indent: "  ", write: func(s string) { _, _ = io.WriteString(t.r.app.out, s) }}}
	if t.r.app.term.tty {
		t.text.flow.width = min(t.draw.width-2, 100)
	}
}

// endText ends the line that is being written; the turn may still go on, unless it is over.
func (t *replRun) endText(over bool) {
	if t.text == nil {
		return
	}
	t.text.flow.end()
	if over {
		t.text = nil
	}
}

// said shows a turn that is done: of its text, what has not been shown as it came.
func (t *replRun) said(d *events.TurnFinishedData) {
	t.early = nil
	whole := strings.TrimSpace(view.Whole(d.Text))
	shown := ""
	if t.text != nil {
		shown = strings.TrimSpace(t.text.shown.String())
	}
	t.endText(true)
	t.head(t.tree.Turns)
	if whole != "" && shown != whole {
		t.begin(t.tree.Turns)
		t.text.flow.add(whole)
		t.endText(true)
	}
}
