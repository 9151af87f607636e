// Package gateprompt asks a person about a gate: the same question, keys and answers wherever inspan asks.
//
// Promises: it prints and reads nothing. It returns lines that fit for a terminal and takes lines; what a model wrote
// is shown without what a terminal acts on. An approval for later calls allows what the question showed, and nothing
// more.
package gateprompt

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/events"
)

// Answer is the answer of a person to a gate.
type Answer struct {
	Yes    bool
	Reason string
	// Always is the scope in which later calls are approved, too; empty for this call alone.
	Always events.GrantScope
	// Edit are the arguments that are approved instead; nil for those proposed.
	Edit json.RawMessage
	// Leave is true where the gate is left for another person.
	Leave bool
}

// Prompt is one gate put to a person.
type Prompt struct {
	Gate *events.GateOpenedData
	// What is to be done, in words; empty leaves it to the gate.
	What string
	// Session that the run works in, empty for none.
	Session string
	// Diff is what the call would change, as far as it is known; empty where it is not.
	Diff  string
	Paint terminal.Paint
	// Width is that of the terminal.
	Width int
	stage stage
}

// stage is what is asked for next.
type stage int

const (
	asking stage = iota
	reason
	editing
)

// narrow is the width below which the question has letters alone, tiny that below which there is nothing else.
const (
	narrow = 76
	tiny   = 30
)

// key is one answer: its letter, and the rest of its word.
type key struct{ letter, word, rest string }

// keys are the answers that the gate can be given.
func (p *Prompt) keys() []key {
	all := []key{{"y", "yes", "es"}, {"n", "no", "o"}}
	if p.Gate.Always != nil {
		all = append(all, key{"a", "always", "lways"})
	}
	if len(p.input()) > 0 {
		all = append(all, key{"e", "edit", "dit"})
	}
	if p.Diff != "" {
		all = append(all, key{"d", "diff", "iff"})
	} else {
		all = append(all, key{"d", "details", "etails"})
	}
	return append(all, key{"?", "why", "why"}, key{"l", "leave", "eave it"})
}

// Text is the question itself, to be answered behind it.
func (p *Prompt) Text() string {
	switch p.stage {
	case reason:
		return "    Why not? "
	case editing:
		if p.command() != "" {
			return "    Command instead (empty: back): "
		}
		return "    Arguments instead, as JSON (empty: back): "
	case asking:
	}
	var parts []string
	for _, k := range p.keys() {
		if p.Width < narrow {
			parts = append(parts, k.letter)
		} else if k.letter == "?" {
			parts = append(parts, "[?]")
		} else {
			parts = append(parts, "["+k.letter+"]"+k.rest)
		}
	}
	switch {
	case p.Width < tiny:
		return strings.Join(parts, "/") + ": "
	case p.Width < narrow:
		return "  Approve? " + strings.Join(parts, "/") + ": "
	}
	return "    Approve? " + strings.Join(parts, " ") + ": "
}

// Opening puts the question: what is to be done, why a person is asked, what an approval for later calls allows, and
// the beginning of what the call changes.
func (p *Prompt) Opening() []string {
	g, c := p.Gate, p.Paint
	var out []string
	for i, l := range p.lines(view.Clip(cmp.Or(p.What, g.Description), 300), 4) {
		mark := "    "
		if i == 0 {
			mark = c.Yellow(c.Bold("  ? "))
		}
		out = append(out, mark+c.Bold(l))
	}
	out = append(out, p.wrapped(view.Clip(cmp.Or(g.Reason, g.Rule), 300)+" · gate "+g.Gate)...)
	if g.Always != nil {
		out = append(out, p.wrapped("[a]lways allows "+p.allows())...)
	}
	if p.Diff != "" {
		out = append(out, indented(terminal.Diff(p.Diff, c, folded))...)
	}
	return out
}

// Previewed takes the diff of the workspace that a toolrunner made, and returns its beginning, or why there is none. It
// returns nothing where the question has shown a diff of the arguments: the key d shows the better one from now on.
func (p *Prompt) Previewed(diff string, of events.CallPreview) []string {
	if of.Reason != "" || diff == "" {
		return p.wrapped("no preview: " + view.Clip(cmp.Or(of.Reason, "it is empty"), 300))
	}
	shown := p.Diff != ""
	if p.Diff = diff; shown {
		return nil
	}
	out := indented(terminal.Diff(diff, p.Paint, folded))
	if of.Truncated {
		out = append(out, p.wrapped("the diff goes on: only its beginning was stored")...)
	}
	return out
}

// lines are a text in lines that fit the terminal behind an indent.
func (p *Prompt) lines(text string, indent int) []string {
	return strings.Split(ansi.Wrap(text, max(p.Width-indent, 10), ""), "\n")
}

// wrapped are dim lines behind an indent.
func (p *Prompt) wrapped(text string) []string {
	out := p.lines(text, 4)
	for i := range out {
		out[i] = "    " + p.Paint.Dim(out[i])
	}
	return out
}

func indented(lines []string) []string {
	for i := range lines {
		lines[i] = "    " + lines[i]
	}
	return lines
}

// scope is that of an approval for later calls: the session where there is one.
func (p *Prompt) scope() events.GrantScope {
	if p.Session != "" {
		return events.GrantSession
	}
	return events.GrantRun
}

// allows says what an approval for later calls allows.
func (p *Prompt) allows() string {
	a := p.Gate.Always
	where := "in this run"
	if p.Session != "" {
		where = "in session " + p.Session
	}
	return fmt.Sprintf("%s %s  %s, for %d h at most", view.Clip(a.Tool, 60), view.Clip(a.Pattern, events.MaxPattern),
		where,
		int(events.DefaultGrant.Hours()))
}

// Take takes a line that was typed. It returns what is to be printed, and the answer once there is one.
func (p *Prompt) Take(line string) (print []string, a Answer, done bool) {
	line = strings.TrimSpace(line)
	switch p.stage {
	case reason:
		return nil, Answer{Reason: cmp.Or(line, "rejected at the prompt")}, true
	case editing:
		return p.edited(line)
	case asking:
	}
	word, rest, _ := strings.Cut(line, " ")
	for _, k := range p.keys() {
		if w := strings.ToLower(word); w != k.letter && w != k.word && (k.letter != "d" || w != "details") {
			continue
		}
		switch k.letter {
		case "y":
			return nil, Answer{Yes: true}, true
		case "a":
			return nil, Answer{Yes: true, Always: p.scope()}, true
		case "l":
			return nil, Answer{Leave: true}, true
		case "n":
			if rest = strings.TrimSpace(rest); rest != "" {
				return nil, Answer{Reason: rest}, true
			}
			p.stage = reason
		case "e":
			p.stage = editing
			return indented(strings.Split(terminal.Sanitize(cmp.Or(p.command(), string(events.Plain(p.input())))), "\n")),
				a, false
		case "d":
			if p.Diff != "" && word != "details" {
				return indented(terminal.Diff(p.Diff, p.Paint, 0)), a, false
			}
			return indented(Proposal(p.Gate)), a, false
		case "?":
			return p.why(), a, false
		}
		return nil, a, false
	}
	if line == "" {
		return nil, a, false
	}
	return []string{"    " + p.Paint.Dim("y approves, n rejects, ? says why you are asked")}, a, false
}

// why says why a person is asked: the rule, what hooks said, and the place in the run.
func (p *Prompt) why() []string {
	g := p.Gate
	place := "step " + g.Step
	if g.Call != "" {
		place += ", call " + g.Call
	}
	rows := [][2]string{{"reason", g.Reason}, {"rule", g.Rule}, {"place", fmt.Sprintf("%s, %d of %d steps are done", place,
		g.StepsCompleted, g.StepsTotal)}}
	for _, h := range g.Hooks {
		rows = append(rows, [2]string{"hook " + h.Hook, strings.TrimSpace(h.Answer + " " + cmp.Or(h.Message, h.Fault))})
	}
	if g.Approvers > 1 {
		rows = append(rows, [2]string{"needs", view.Plural(g.Approvers, "approver")})
	}
	if !g.ExpiresAt.IsZero() {
		rows = append(rows, [2]string{"expires", g.ExpiresAt.Format(time.RFC3339)})
	}
	if g.Always != nil {
		rows = append(rows, [2]string{"always", p.allows()})
	} else if g.Call != "" {
		rows = append(rows, [2]string{"always", "not for this one: only what one rule asks about and can be read in full"})
	}
	rows = append(rows, [2]string{"hash", g.ProposalHash}, [2]string{"subject", g.AnswerSubject})
	var out []string
	for _, r := range rows {
		if r[1] == "" {
			continue
		}
		name := fmt.Sprintf("%-8s", view.Clip(r[0], 40))
		for i, l := range p.lines(view.Clip(r[1], 600), 4+len(name)+1) {
			if i > 0 {
				name = strings.Repeat(" ", len(name))
			}
			out = append(out, "    "+p.Paint.Dim(name)+" "+l)
		}
	}
	return out
}

// input are the arguments that the gate shows; nil where there are none to edit.
func (p *Prompt) input() json.RawMessage {
	if p.Gate.Call == "" {
		return nil
	}
	var proposal struct {
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(p.Gate.Proposal, &proposal) != nil {
		return nil
	}
	return proposal.Input
}

// command is the shell text among the arguments, empty where there is none.
func (p *Prompt) command() string {
	var args struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(p.input(), &args) != nil {
		return ""
	}
	return args.Command
}

// edited takes the arguments that a person wants instead.
func (p *Prompt) edited(line string) (print []string, a Answer, done bool) {
	if line == "" {
		p.stage = asking
		return nil, a, false
	}
	raw := json.RawMessage(line)
	if p.command() != "" {
		args := map[string]json.RawMessage{}
		text, err := json.Marshal(line)
		if err != nil || json.Unmarshal(p.input(), &args) != nil {
			return nil, a, false
		}
		args["command"] = text
		if raw, err = json.Marshal(args); err != nil {
			return nil, a, false
		}
	}
	input, err := events.EditedInput(raw)
	if err != nil {
		return []string{"    " + p.Paint.Red(err.Error())}, a, false
	}
	return nil, Answer{Yes: true, Edit: input}, true
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
