package follow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// Answer is the answer of a person to a gate.
type Answer struct {
	Yes    bool
	Reason string
	// Leave is true where the gate is left for another person.
	Leave bool
}

// Question is one gate put to the person at the terminal.
type Question struct {
	app  *app.App
	show *Show
	gate *events.GateOpenedData
	// below counts the rows of the terminal that the question has taken.
	below int
	// reasons is true while the reason of a no is asked for.
	reasons bool
}

func ask(ctx context.Context, a *app.App, s *Show, g *events.GateOpenedData) *Question {
	s.Freeze()
	a.Keys.Drop(ctx) // nothing typed before it was seen answers it
	q := &Question{app: a, show: s, gate: g}
	p := a.Paint()
	q.print("")
	q.print(p.Yellow(p.Bold("  ? ")) + p.Bold(view.Clip(g.Description, 300)))
	q.print("    " + p.Dim(view.Clip(g.Reason, 300)+" · gate "+g.Gate))
	q.prompt()
	return q
}

// print prints a line below the tree.
func (q *Question) print(line string) {
	width, _ := q.app.Term.Size()
	fmt.Fprintln(q.app.Out, terminal.Fit(line, width))
	q.below++
}

const (
	PromptYesNo  = "    Approve? [y]es  [n]o  [d]etails  [l]eave it waiting: "
	PromptReason = "    Why not? "
)

// The words that PromptYesNo offers.
const (
	GateYes     = "yes"
	GateNo      = "no"
	GateDetails = "details"
	GateLeave   = "leave"
)

// GateWord is the word that a line means, whole or by its first letter; empty for none.
func GateWord(line string) string {
	line = strings.ToLower(strings.TrimSpace(line))
	for _, word := range []string{GateYes, GateNo, GateDetails, GateLeave} {
		if line == word || line == word[:1] {
			return word
		}
	}
	return ""
}

func (q *Question) prompt() {
	text := PromptYesNo
	if q.reasons {
		text = PromptReason
	}
	fmt.Fprint(q.app.Out, q.app.Paint().Bold(text))
}

// typed takes a line. done is false where more is asked.
func (q *Question) typed(line string) (v Answer, done bool) {
	width, _ := q.app.Term.Size()
	asked := PromptYesNo
	if q.reasons {
		asked = PromptReason
	}
	q.below += 1 + (ansi.StringWidth(asked)+ansi.StringWidth(strings.TrimRight(line, "\r\n")))/max(width, 1)
	line = strings.TrimSpace(line)
	if q.reasons {
		return Answer{Reason: cmp.Or(line, "rejected at the terminal")}, true
	}
	switch GateWord(line) {
	case GateYes:
		return Answer{Yes: true}, true
	case GateNo:
		q.reasons = true
	case GateLeave:
		return Answer{Leave: true}, true
	case GateDetails:
		q.details()
	}
	q.prompt()
	return Answer{}, false
}

// details prints the exact action that is asked for.
func (q *Question) details() {
	for _, line := range Proposal(q.gate) {
		q.print("    " + line)
	}
}

// Proposal is the exact action that a gate is about, for people, with its hash below.
func Proposal(g *events.GateOpenedData) []string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, g.Proposal, "", "  ") != nil {
		pretty.Reset()
		pretty.Write(g.Proposal)
	}
	return append(strings.Split(terminal.Sanitize(string(events.Plain(pretty.Bytes()))), "\n"),
		"proposal_hash "+g.ProposalHash)
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
func AskNow(ctx context.Context, a *app.App, s *Show, g *events.GateOpenedData) Answer {
	q := ask(ctx, a, s, g)
	for {
		select {
		case line, ok := <-a.Keys.Next():
			if !ok {
				q.close(true)
				return Answer{Leave: true}
			}
			if v, done := q.typed(string(line)); done {
				q.close(false)
				return v
			}
		case <-ctx.Done():
			q.close(true)
			return Answer{Leave: true}
		}
	}
}
