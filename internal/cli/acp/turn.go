package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// scopeCall is that of a gate before a call.
const scopeCall = "call"

// backlog is how many pieces of text may wait for those who show them.
const backlog = 64

// turn follows one run for an editor.
type turn struct {
	s  *server
	ss *session
	id string
	// pieces come until leave is called.
	pieces chan client.Piece
	leave  func()
	// state is that after the last event, tree what calls are shown by.
	state run.State
	tree  view.Tree
	// written is the text of the turn under way of each step, done the last turn of each that is written out. source is
	// the step and turn that wrote last, early what overtook the events before it.
	written map[string]*strings.Builder
	done    map[string]int
	source  string
	early   []client.Piece
	// told are the calls that the editor knows, asked the questions that it was asked.
	told  map[string]bool
	plan  string
	asked map[string]context.CancelFunc
	// resumed is true where the next pause follows from an answer after which the run was resumed.
	resumed bool
	// verdicts are its answers.
	verdicts chan verdict
	asking   sync.WaitGroup
}

// verdict is what a person chose; choice is empty where there was none.
type verdict struct {
	about, choice string
	gate          *run.Gate
}

func newTurn(s *server, ss *session, id string) *turn {
	return &turn{s: s, ss: ss, id: id, written: map[string]*strings.Builder{}, done: map[string]int{},
		told: map[string]bool{}, asked: map[string]context.CancelFunc{}, verdicts: make(chan verdict)}
}

// listen has text come as it is written, until leave is called.
func (t *turn) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	t.pieces = make(chan client.Piece, backlog) // what does not fit is asked for again
	unwatch, err := t.s.c.Stream(ctx, t.id, func(p client.Piece) {
		select {
		case t.pieces <- p:
		case <-ctx.Done():
		}
	})
	t.leave = func() { cancel(); unwatch() }
	if err != nil {
		cancel()
	}
	return err
}

// follow reports the run until it ends, or stays paused.
func (t *turn) follow(ctx context.Context) (run.State, error) {
	ctx, cancel := context.WithCancel(ctx)
	items, stop := follow.Arrivals(ctx, t.s.c, t.id)
	defer func() { cancel(); stop(); t.asking.Wait() }()
	for {
		select {
		case a, open := <-items:
			if !open {
				return t.state, context.Cause(ctx)
			}
			if a.Err != nil {
				return t.state, a.Err
			}
			t.event(ctx, a.Item)
			if t.state.Status.Ended() {
				return t.state, nil
			}
		case p := <-t.pieces:
			t.piece(p)
		case v := <-t.verdicts:
			if left, err := t.decide(ctx, v); left || err != nil {
				return t.state, err
			}
		case <-ctx.Done():
			return t.state, context.Cause(ctx)
		}
	}
}

// piece sends text as it is written.
func (t *turn) piece(p client.Piece) {
	if p.Event != "token" && p.Event != "thinking" || p.Text == "" || p.Turn <= t.done[p.Step] {
		return
	}
	if p.Turn > t.state.Turns().Len()+1 {
		t.early = append(t.early[max(0, len(t.early)-backlog):], p)
		return
	}
	if p.Event == "thinking" {
		t.ss.update(t.s, "agent_thought_chunk", map[string]any{"content": textBlock(p.Text)})
		return
	}
	b := t.written[p.Step]
	if b == nil || p.Again {
		b = &strings.Builder{}
		t.written[p.Step] = b
	}
	if !p.Missed {
		b.WriteString(p.Text)
		t.write(fmt.Sprint(p.Step, p.Turn, p.Attempt), p.Text)
	}
}

// write sends text; that of another turn is set apart.
func (t *turn) write(source, text string) {
	if t.source != "" && t.source != source {
		text = "\n\n" + text
	}
	t.source = source
	t.ss.text(t.s, text)
}

// event reports an event.
func (t *turn) event(ctx context.Context, item client.Item) {
	t.state = item.State
	t.tree.Apply(item.Event, item.Payload)
	switch d := item.Payload.(type) {
	case *events.TurnFinishedData:
		t.finished(d)
	case *events.CallAllowedData:
		t.call(d.ToolRef, "in_progress", "")
	case *events.CallStartedData:
		t.call(d.ToolRef, "in_progress", "")
	case *events.CallFinishedData:
		t.ended(d.ToolRef, d.Success, cmp.Or(d.Output, d.Error))
	case *events.CallFailedData:
		t.ended(d.ToolRef, false, d.Error)
	case *events.CallRefusedData:
		t.ended(d.ToolRef, false, d.Reason)
	}
	t.steps()
	for _, g := range t.state.Waiting() {
		t.permit(ctx, g)
	}
	for about, unask := range t.asked {
		if g := t.state.Gate(about); g != nil && g.Status != run.GatePending || g == nil && !t.state.Halted() {
			unask() // somebody else has decided
			delete(t.asked, about)
			if g != nil && g.CallID == "" {
				t.ss.update(t.s, "tool_call_update", map[string]any{"toolCallId": t.name(g.ID), "status": "completed"})
			}
		}
	}
	if t.state.Halted() {
		t.halted(ctx)
	}
	early := t.early
	t.early = nil
	for _, p := range early {
		t.piece(p)
	}
}

// finished sends what is missing of the text of a turn, and the calls that it asks for.
func (t *turn) finished(d *events.TurnFinishedData) {
	written := ""
	if b := t.written[d.Step]; b != nil {
		written = b.String()
	}
	delete(t.written, d.Step)
	t.done[d.Step] = d.Turn
	rest, begun := strings.CutPrefix(d.Text, written)
	switch {
	case !begun && d.TextRef == nil:
		t.write(fmt.Sprint(d.Step, d.Turn, "whole"), d.Text)
	case begun && rest != "":
		source := t.source
		if written == "" {
			source = fmt.Sprint(d.Step, d.Turn, "whole")
		}
		t.write(source, rest)
	}
	for _, c := range d.Calls {
		t.announce(c.ID, c.Tool, c.Input)
	}
}

// name is the name of a call or a gate, which is unique in the session.
func (t *turn) name(id string) string { return t.id + "/" + id }

// announce reports a call, once.
func (t *turn) announce(id, tool string, input json.RawMessage) {
	if t.told[id] {
		return
	}
	t.told[id] = true
	fields := map[string]any{"toolCallId": t.name(id), "title": titleOf(tool, input), "kind": kindOf(tool),
		"status": "pending"}
	if len(input) > 0 {
		fields["rawInput"] = input
	}
	t.ss.update(t.s, "tool_call", fields)
}

func (t *turn) call(c events.ToolRef, status, output string) {
	t.announce(c.Call, c.Tool, nil)
	fields := map[string]any{"toolCallId": t.name(c.Call), "status": status}
	if output != "" {
		fields["content"] = contentOf(output)
	}
	t.ss.update(t.s, "tool_call_update", fields)
}

func (t *turn) ended(c events.ToolRef, fine bool, output string) {
	status := "completed"
	if !fine {
		status = "failed"
	}
	t.call(c, status, output)
}

// steps reports how the steps of a plan stand, where it has more than one.
func (t *turn) steps() {
	if t.state.Plan == nil || len(t.state.Plan.Steps) < 2 {
		return
	}
	var entries []any
	shape := ""
	for _, st := range t.state.Plan.Steps {
		status := "pending"
		switch st.Status {
		case events.StepIsRunning:
			status = "in_progress"
		case events.StepIsCompleted, events.StepIsFailed, events.StepIsBlocked, events.StepIsSkipped:
			status = "completed"
		case events.StepIsPending, events.StepIsReady:
		}
		entries = append(entries, map[string]any{"content": view.Clip(st.Description, maxTitle), "priority": "medium",
			"status": status})
		shape += st.ID + " " + status + "\n"
	}
	if shape != t.plan {
		t.plan = shape
		t.ss.update(t.s, "plan", map[string]any{"entries": entries})
	}
}

// permit asks the person of the editor about a gate, once.
func (t *turn) permit(ctx context.Context, g *run.Gate) {
	call := g.CallID
	if g.Scope != scopeCall || call == "" {
		call = g.ID
	}
	options := []any{option("approve", "Approve", "allow_once"), option("reject", "Reject", "reject_once")}
	if g.Always != nil {
		what := view.Clip(g.Always.Tool+" "+g.Always.Pattern, maxTitle)
		options = append(options, option("always", "Approve in this session: "+what, "allow_always"))
	}
	t.question(ctx, g.ID, call, g.Description, options, g)
}

// halted asks what becomes of a run that is paused, once for each time.
func (t *turn) halted(ctx context.Context) {
	if t.resumed {
		t.resumed = false
		return
	}
	about := fmt.Sprintf("pause-%d", t.state.ResumedAt)
	t.question(ctx, about, about, "The run is paused: "+cmp.Or(t.state.PauseReason, "no reason given"),
		[]any{option("approve", "Go on", "allow_once"), option("reject", "Stop it", "reject_once")}, nil)
}

func option(id, name, kind string) map[string]any {
	return map[string]any{"optionId": id, "name": name, "kind": kind}
}

// question asks the editor; the answer comes as a verdict.
func (t *turn) question(ctx context.Context, about, call, text string, options []any, g *run.Gate) {
	if _, asked := t.asked[about]; asked {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	t.asked[about] = cancel
	fields := map[string]any{"toolCallId": t.name(call), "title": view.Clip(text, maxTitle), "status": "pending",
		"content": contentOf(text)}
	if !t.told[call] {
		t.told[call] = true
		fields["kind"] = "other"
		t.ss.update(t.s, "tool_call", fields)
		delete(fields, "sessionUpdate")
	}
	t.asking.Go(func() {
		defer cancel()
		var in struct {
			Outcome struct {
				Outcome string `json:"outcome"`
				Option  string `json:"optionId"`
			} `json:"outcome"`
		}
		v := verdict{about: about, gate: g}
		err := t.s.ask(ctx, "session/request_permission", map[string]any{"sessionId": t.ss.id, "toolCall": fields,
			"options": options}, &in)
		if err == nil && in.Outcome.Outcome == "selected" {
			v.choice = in.Outcome.Option
		}
		select {
		case t.verdicts <- v:
		case <-ctx.Done():
		}
	})
}

// decide gives an answer to the station. left is true where the run stays as it is.
func (t *turn) decide(ctx context.Context, v verdict) (left bool, err error) {
	wait, cancel := t.s.wait(ctx)
	defer cancel()
	me := t.s.app.Me()
	known := slices.Contains([]string{"approve", "reject", "always"}, v.choice)
	t.ss.mu.Lock()
	cancelled := t.ss.cancelled
	t.ss.mu.Unlock()
	switch {
	case !known && (cancelled || v.gate != nil):
		if !cancelled { // no answer is no decision: the gate waits, for whoever decides
			t.write("gate", fmt.Sprintf("The run waits: inspan approve %s, or reject", t.name(v.about)))
		}
		return false, nil
	case !known:
		return true, nil
	case v.gate == nil && v.choice == "reject":
		t.s.stop(ctx, t.id)
		return false, nil
	case v.gate == nil:
		_, err = t.s.c.Control(wait, t.id, events.Control{Action: "resume", By: me, Reason: "answered in the editor"})
	case v.choice == "reject":
		d := client.Decision{Run: t.id, Gate: v.about, By: me, Hash: v.gate.Hash, Reason: "rejected in the editor"}
		if _, err = t.s.c.Gates().Reject(wait, d); err == nil && v.gate.Scope == scopeCall { // it goes on without the call
			_, err = t.s.c.Control(wait, t.id, events.Control{Action: "resume", By: me, Reason: d.Reason})
			t.resumed = err == nil
		}
	default:
		d := client.Decision{Run: t.id, Gate: v.about, By: me, Hash: v.gate.Hash}
		if v.choice == "always" {
			d.Always = events.GrantSession
		}
		_, err = t.s.c.Gates().Approve(wait, d)
	}
	if r, ok := errors.AsType[*client.RefusedError](err); ok { // somebody else was faster, or must answer
		if r.Code != "gate_closed" && r.Code != "run_ended" && r.Code != "bad_move" {
			t.write("gate", r.Error())
		}
		err = nil
	}
	return false, err
}
