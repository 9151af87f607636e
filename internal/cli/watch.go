package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// ofFlags are the flags that say which runs are meant.
func ofFlags(cmd *cobra.Command, of *client.Of) {
	cmd.Flags().StringVar(&of.Session, "session", "", "runs of this session")
	cmd.Flags().StringVar(&of.WorkflowRun, "workflow-run", "", "runs of this run of a workflow")
}

func (a *app) watchCmd() *cobra.Command {
	var of client.Of
	var yes bool
	cmd := &cobra.Command{
		Use: "watch [RUN]", Short: "Watch a run with the text of its models and tools as it comes",
		Long: `Shows a run that goes on: its facts, and between them what models write and tools print while they do. Who comes late
gets the text under way from its beginning. RUN is the id of a run, or its station run id; without it the newest run that
has not ended is meant, of --session or --workflow-run where they are given.

On a terminal text comes as it is written, thinking dim; anywhere else line by line. With --json, facts are printed as
they are stored and text as {"live":{...}} between them. Ctrl+C ends the watching, not the run.`,
		Example: "  inspan watch run-k3v9x2m1qa\n  inspan watch --session demo\n  inspan watch --workflow-run nightly-7 --json | jq -r '.live.text // empty'",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			of.Run = strings.Join(args, "")
			found, err := c.Find(ctx, of)
			if err != nil {
				return err
			}
			i, ok := watched(found)
			if !ok {
				return fmt.Errorf("no run of those asked for: %w; inspan runs lists those of the station", client.ErrNotFound)
			}
			a.stream = true
			_, err = a.follow(ctx, c, i.HarnessID, yes, false)
			return err
		}),
	}
	ofFlags(cmd, &of)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "approve every gate")
	return cmd
}

// watched is the newest run that goes on, or the newest of all.
func watched(found []run.Info) (run.Info, bool) {
	for _, i := range found {
		if !i.Status.Ended() {
			return i, true
		}
	}
	if len(found) == 0 {
		return run.Info{}, false
	}
	return found[0], true
}

// teller prints text as it comes, between the lines of facts: piece by piece on a terminal, else line by line.
type teller struct {
	app *app
	// live prints what is not a whole line yet.
	live bool
	// at is whose text was printed last, and open true where its line has not ended.
	at   string
	open bool
	// rest is text that is not a whole line yet, by whose it is; said is all that was said of a turn that goes on.
	rest map[string]client.Piece
	said map[string]string
	// over are the turns and calls whose fact was shown: text that comes after it is old.
	over map[string]bool
}

func (a *app) teller() *teller {
	return &teller{app: a, live: a.term.tty, rest: map[string]client.Piece{}, said: map[string]string{}, over: map[string]bool{}}
}

// whose names whose text a piece is.
func whose(p client.Piece) string {
	if p.Call != "" {
		return "call " + p.Call
	}
	return turnKey(p.Turn)
}

func turnKey(turn int) string { return fmt.Sprint("turn ", turn) }

// piece prints one piece.
func (t *teller) piece(p client.Piece) {
	from := whose(p)
	if t.over[from] {
		return
	}
	if t.app.json {
		t.json(p)
		return
	}
	if p.Again {
		t.flush()
		t.note("asked again, what came before does not count")
		delete(t.rest, from)
		delete(t.said, from)
	}
	if p.Missed {
		t.flush()
		t.note("some text was missed, the log will have it")
	}
	if p.Event == "token" {
		t.said[from] += p.Text
	}
	t.text(from, p)
}

// text prints text of one source and kind. What is not a whole line waits for the rest of it, unless a person looks on.
func (t *teller) text(from string, p client.Piece) {
	if r := t.rest[from]; r.Event != p.Event {
		t.drain(from)
	}
	text := t.rest[from].Text + view.Whole(p.Text)
	delete(t.rest, from)
	if !t.live {
		end := strings.LastIndexByte(text, '\n') + 1
		if len(text)-end > maxTail {
			end = len(text)
		}
		p.Text = text[end:]
		t.rest[from], text = p, text[:end]
	}
	t.print(from, p, text)
	if p.Done {
		t.drain(from)
		t.flush()
	}
}

// drain prints what of a source has waited.
func (t *teller) drain(from string) {
	r := t.rest[from]
	delete(t.rest, from)
	t.print(from, r, r.Text)
}

// print prints text under a heading of its own.
func (t *teller) print(from string, p client.Piece, text string) {
	if text == "" {
		return
	}
	if kind := from + p.Event + p.Output; t.at != kind {
		t.flush()
		t.at = kind
		fmt.Fprintln(t.app.out, t.app.paint().dim(heading(from, p)))
	}
	t.open = !strings.HasSuffix(text, "\n")
	if p.Event != "token" {
		lines := strings.Split(text, "\n") // colour ends with its line
		for i := range lines {
			lines[i] = t.app.paint().dim(lines[i])
		}
		text = strings.Join(lines, "\n")
	}
	fmt.Fprint(t.app.out, text)
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
func (t *teller) flush() {
	if t.open {
		fmt.Fprintln(t.app.out)
	}
	t.open, t.at = false, ""
}

func (t *teller) note(text string) {
	fmt.Fprintln(t.app.out, t.app.paint().yellow("── "+text))
}

// fact says what of a turn was not said live, before its line: the log has the truth.
func (t *teller) fact(item client.Item) {
	from, d := "", (*events.TurnFinishedData)(nil)
	switch p := item.Payload.(type) {
	case *events.TurnFinishedData:
		from, d = turnKey(p.Turn), p
	case *events.CallFinishedData:
		from = "call " + p.Call
	case *events.CallFailedData:
		from = "call " + p.Call
	}
	if from != "" && !t.app.json {
		t.drain(from)
	}
	if said := t.said[from]; d != nil && !t.app.json && d.TextRef == nil && said != d.Text {
		rest, more := strings.CutPrefix(d.Text, said)
		if !more {
			t.flush()
			t.note("the text as it is stored")
			rest = d.Text
		}
		t.text(from, client.Piece{Event: "token", Step: d.Step, Turn: d.Turn, Text: rest, Done: true})
	}
	if from != "" {
		t.over[from] = true
		delete(t.said, from)
	}
	if !t.app.json {
		t.flush()
	}
}

// json prints a piece as a line of JSON.
func (t *teller) json(p client.Piece) {
	if b, err := json.Marshal(map[string]client.Piece{"live": p}); err == nil {
		b = events.Plain(b)
		fmt.Fprintf(t.app.out, "%s\n", b)
	}
}
