package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// verdict is what a person said about a gate.
type verdict struct {
	yes    bool
	reason string
	// leave is true where it is left for somebody else.
	leave bool
}

// question is one gate put to the person at the terminal.
type question struct {
	app  *app
	show *show
	gate *events.GateOpenedData
	// below counts the rows of the terminal that the question has taken.
	below int
	// reasons is true while the reason of a no is asked for.
	reasons bool
}

// canAsk reports whether there is a person to ask.
func (a *app) canAsk() bool { return a.term.tty && !a.json && isTerminal(a.in) }

func (a *app) question(ctx context.Context, s *show, g *events.GateOpenedData) *question {
	s.freeze()
	a.keys.drop(ctx) // nothing typed before it was seen answers it
	q := &question{app: a, show: s, gate: g}
	p := a.paint()
	q.say("")
	q.say(p.yellow(p.bold("  ? ")) + p.bold(view.Clip(g.Description, 300)))
	q.say("    " + p.dim(view.Clip(g.Reason, 300)+" · gate "+g.Gate))
	q.prompt()
	return q
}

// say prints a line below the tree.
func (q *question) say(line string) {
	width, _ := q.app.term.size()
	fmt.Fprintln(q.app.out, fit(line, width))
	q.below++
}

const (
	promptYesNo  = "    Approve? [y]es  [n]o  [d]etails  [l]eave it waiting: "
	promptReason = "    Why not? "
)

// The words that promptYesNo offers.
const (
	gateYes     = "yes"
	gateNo      = "no"
	gateDetails = "details"
	gateLeave   = "leave"
)

// gateWord is the word that a line means, whole or by its first letter; empty for none.
func gateWord(line string) string {
	line = strings.ToLower(strings.TrimSpace(line))
	for _, word := range []string{gateYes, gateNo, gateDetails, gateLeave} {
		if line == word || line == word[:1] {
			return word
		}
	}
	return ""
}

func (q *question) prompt() {
	text := promptYesNo
	if q.reasons {
		text = promptReason
	}
	fmt.Fprint(q.app.out, q.app.paint().bold(text))
}

// typed takes a line. done is false where more is asked.
func (q *question) typed(line string) (v verdict, done bool) {
	width, _ := q.app.term.size()
	asked := promptYesNo
	if q.reasons {
		asked = promptReason
	}
	q.below += 1 + (ansi.StringWidth(asked)+ansi.StringWidth(strings.TrimRight(line, "\r\n")))/max(width, 1)
	line = strings.TrimSpace(line)
	if q.reasons {
		return verdict{reason: cmp.Or(line, "rejected at the terminal")}, true
	}
	switch gateWord(line) {
	case gateYes:
		return verdict{yes: true}, true
	case gateNo:
		q.reasons = true
	case gateLeave:
		return verdict{leave: true}, true
	case gateDetails:
		q.details()
	}
	q.prompt()
	return verdict{}, false
}

// details prints the exact action that is asked for.
func (q *question) details() {
	for _, line := range proposal(q.gate) {
		q.say("    " + line)
	}
}

// proposal is the exact action that a gate is about, for people, with its hash below.
func proposal(g *events.GateOpenedData) []string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, g.Proposal, "", "  ") != nil {
		pretty.Reset()
		pretty.Write(g.Proposal)
	}
	return append(strings.Split(harmless(string(events.Plain(pretty.Bytes()))), "\n"), "proposal_hash "+g.ProposalHash)
}

// gone ends a question that nobody needs to answer any more. open is true where the cursor is still behind the prompt.
func (q *question) gone(open bool) {
	if open {
		fmt.Fprintln(q.app.out)
		q.below++
	}
	_, height := q.app.term.size()
	if q.below >= height/2 {
		q.below = 0 // long details stay above the tree
		q.show.mu.Lock()
		q.show.canvas.drawn = 0
		q.show.mu.Unlock()
	}
	q.show.thaw(q.below)
}

// askNow asks and waits for the answer, unless ctx ends: for those that have nothing else to listen to.
func (a *app) askNow(ctx context.Context, s *show, g *events.GateOpenedData) verdict {
	q := a.question(ctx, s, g)
	for {
		select {
		case line, ok := <-a.keys.next():
			if !ok {
				q.gone(true)
				return verdict{leave: true}
			}
			if v, done := q.typed(string(line)); done {
				q.gone(false)
				return v
			}
		case <-ctx.Done():
			q.gone(true)
			return verdict{leave: true}
		}
	}
}
