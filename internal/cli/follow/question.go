package follow

import (
	"context"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/gateprompt"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
)

// Question is one gate put to the person at the terminal.
type Question struct {
	app    *app.App
	show   *Show
	gate   *events.GateOpenedData
	prompt *gateprompt.Prompt
	// below counts the rows of the terminal that the question has taken.
	below int
}

func ask(ctx context.Context, a *app.App, s *Show, g *events.GateOpenedData) *Question {
	s.Freeze()
	a.Keys.Drop(ctx) // nothing typed before it was seen answers it
	q := &Question{app: a, show: s, gate: g, prompt: &gateprompt.Prompt{Gate: g, Paint: a.Paint(), Session: s.Session(),
		What: s.What(g.Call), Diff: gateprompt.Proposed(g)}}
	q.open()
	return q
}

// open puts the question.
func (q *Question) open() {
	q.prompt.Width, _ = q.app.Term.Size()
	q.print("")
	for _, l := range q.prompt.Opening() {
		q.print(l)
	}
	q.ask()
}

// preview shows what the call would change in the workspace, which comes a moment after the question.
func (q *Question) preview(ctx context.Context, c *client.Client, d *events.CallPreviewedData) {
	diff := d.Head
	if d.Diff != nil {
		if whole, err := c.Object(ctx, *d.Diff); err == nil {
			diff = string(whole)
		}
	}
	if lines := q.prompt.Previewed(diff, d.CallPreview); len(lines) > 0 {
		q.interrupt(lines)
	}
}

// interrupt prints lines while the question stands, and asks again.
func (q *Question) interrupt(lines []string) {
	fmt.Fprintln(q.app.Out) // the cursor is behind the prompt
	q.below++
	for _, l := range lines {
		q.print(l)
	}
	q.ask()
}

// print prints a line below the tree.
func (q *Question) print(line string) {
	width, _ := q.app.Term.Size()
	fmt.Fprintln(q.app.Out, terminal.Fit(line, width))
	q.below++
}

// ask prints what is asked for next.
func (q *Question) ask() { fmt.Fprint(q.app.Out, q.app.Paint().Bold(q.prompt.Text())) }

// typed takes a line. done is false where more is asked.
func (q *Question) typed(line string) (v gateprompt.Answer, done bool) {
	width, _ := q.app.Term.Size()
	q.below += 1 + (ansi.StringWidth(q.prompt.Text())+ansi.StringWidth(strings.TrimRight(line, "\r\n")))/max(width, 1)
	lines, v, done := q.prompt.Take(line)
	for _, l := range lines {
		q.print(l)
	}
	if !done {
		q.ask()
	}
	return v, done
}

// close ends a question that needs no answer any more. open is true where the cursor is still behind the prompt.
func (q *Question) close(open bool) {
	if open {
		fmt.Fprintln(q.app.Out)
		q.below++
	}
	_, height := q.app.Term.Size()
	if q.below >= height/2 {
		q.below = 0 // long details stay above the tree
		q.show.mu.Lock()
		q.show.canvas.Drawn = 0
		q.show.mu.Unlock()
	}
	q.show.Thaw(q.below)
}

// AskNow asks and waits for the answer, unless ctx ends: for those that have nothing else to listen to.
func AskNow(ctx context.Context, a *app.App, s *Show, g *events.GateOpenedData) gateprompt.Answer {
	q := ask(ctx, a, s, g)
	for {
		select {
		case line, ok := <-a.Keys.Next():
			if !ok {
				q.close(true)
				return gateprompt.Answer{Leave: true}
			}
			if v, done := q.typed(string(line)); done {
				q.close(false)
				return v
			}
		case <-ctx.Done():
			q.close(true)
			return gateprompt.Answer{Leave: true}
		}
	}
}
