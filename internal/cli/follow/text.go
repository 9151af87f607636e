package follow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// textPrinter prints text as it comes, between the lines of events: piece by piece on a terminal, else line by line.
type textPrinter struct {
	app *app.App
	// immediate prints what is not a whole line yet.
	immediate bool
	// at is whose text was printed last, and open true where its line has not ended.
	at   string
	open bool
	// pending is text that is not a whole line yet, by its source; written is all text of a turn that is under way.
	pending map[string]client.Piece
	written map[string]string
	// finished are the turns and calls whose event was shown: text that comes after it is old.
	finished map[string]bool
}

func newTextPrinter(a *app.App) *textPrinter {
	return &textPrinter{app: a, immediate: a.Term.TTY, pending: map[string]client.Piece{}, written: map[string]string{},
		finished: map[string]bool{}}
}

// sourceOf names whose text a piece is.
func sourceOf(p client.Piece) string {
	if p.Call != "" {
		return "call " + p.Call
	}
	return turnKey(p.Turn)
}

func turnKey(turn int) string { return fmt.Sprint("turn ", turn) }

// piece prints one piece.
func (t *textPrinter) piece(p client.Piece) {
	from := sourceOf(p)
	if t.finished[from] {
		return
	}
	if t.app.JSON {
		t.json(p)
		return
	}
	if p.Again {
		t.flush()
		t.note("asked again, what came before does not count")
		delete(t.pending, from)
		delete(t.written, from)
	}
	if p.Missed {
		t.flush()
		t.note("some text was missed, the log will have it")
	}
	if p.Event == "token" {
		t.written[from] += p.Text
	}
	t.text(from, p)
}

// text prints text of one source and kind. What is not a whole line waits for the rest of it, unless a person looks on.
func (t *textPrinter) text(from string, p client.Piece) {
	if r := t.pending[from]; r.Event != p.Event {
		t.flushPending(from)
	}
	text := t.pending[from].Text + view.Whole(p.Text)
	delete(t.pending, from)
	if !t.immediate {
		end := strings.LastIndexByte(text, '\n') + 1
		if len(text)-end > runtree.MaxTail {
			end = len(text)
		}
		p.Text = text[end:]
		t.pending[from], text = p, text[:end]
	}
	t.print(from, p, text)
	if p.Done {
		t.flushPending(from)
		t.flush()
	}
}

// flushPending prints what of a source has waited.
func (t *textPrinter) flushPending(from string) {
	r := t.pending[from]
	delete(t.pending, from)
	t.print(from, r, r.Text)
}

// print prints text under a heading of its own.
func (t *textPrinter) print(from string, p client.Piece, text string) {
	if text == "" {
		return
	}
	if kind := from + p.Event + p.Output; t.at != kind {
		t.flush()
		t.at = kind
		fmt.Fprintln(t.app.Out, t.app.Paint().Dim(heading(from, p)))
	}
	t.open = !strings.HasSuffix(text, "\n")
	if p.Event != "token" {
		lines := strings.Split(text, "\n") // colour ends with its line
		for i := range lines {
			lines[i] = t.app.Paint().Dim(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	fmt.Fprint(t.app.Out, text)
}

func heading(from string, p client.Piece) string {
	who := "step " + p.Step
	if p.Tool != "" {
		who = p.Tool
	}
	what := map[string]string{"thinking": ", thinking", "tool_output": ", " + p.Output}[p.Event]
	return "── " + view.Clip(who+", "+from+what, 100)
}

// flush ends the line that is open.
func (t *textPrinter) flush() {
	if t.open {
		fmt.Fprintln(t.app.Out)
	}
	t.open, t.at = false, ""
}

func (t *textPrinter) note(text string) {
	fmt.Fprintln(t.app.Out, t.app.Paint().Yellow("── "+text))
}

// event says what of a turn was not said live, before its line: the log has the truth.
func (t *textPrinter) event(item client.Item) {
	from, d := "", (*events.TurnFinishedData)(nil)
	switch p := item.Payload.(type) {
	case *events.TurnFinishedData:
		from, d = turnKey(p.Turn), p
	case *events.CallFinishedData:
		from = "call " + p.Call
	case *events.CallFailedData:
		from = "call " + p.Call
	}
	if from != "" && !t.app.JSON {
		t.flushPending(from)
	}
	if said := t.written[from]; d != nil && !t.app.JSON && d.TextRef == nil && said != d.Text {
		rest, more := strings.CutPrefix(d.Text, said)
		if !more {
			t.flush()
			t.note("the text as it is stored")
			rest = d.Text
		}
		t.text(from, client.Piece{Event: "token", Step: d.Step, Turn: d.Turn, Text: rest, Done: true})
	}
	if from != "" {
		t.finished[from] = true
		delete(t.written, from)
	}
	if !t.app.JSON {
		t.flush()
	}
}

// json prints a piece as a line of JSON.
func (t *textPrinter) json(p client.Piece) {
	if b, err := json.Marshal(map[string]client.Piece{"live": p}); err == nil {
		b = events.Plain(b)
		fmt.Fprintf(t.app.Out, "%s\n", b)
	}
}
