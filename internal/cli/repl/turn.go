package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/inspan/inspan/internal/cli/follow"
	"github.com/inspan/inspan/internal/cli/gateprompt"
	"github.com/inspan/inspan/internal/cli/lineedit"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// turnRun shows one input's run as a conversation and asks about its gates, until it ends.
type turnRun struct {
	r    *repl
	c    *client.Client
	id   string
	tree view.Tree
	// state is that after the last event shown.
	state  run.State
	draw   runtree.Drawing
	canvas terminal.Canvas
	// text is the turn that is being written, from pieces that are not kept; early are pieces that overtook the events
	// before them, headed the turn whose number was shown.
	text   *turnText
	early  []client.Piece
	headed int
	// finishedTurn is the turn whose last piece has come.
	finishedTurn int
	// asking is the question under way, later what came while it was asked.
	asking *gateQuestion
	later  []client.Item
	open   []*events.GateOpenedData
	// stopping is true once Ctrl+C was pressed; partial is what the model had written then of its answer.
	stopping bool
	partial  *attachment
}

// turnText is one turn's text as it is written.
type turnText struct {
	// thought is reasoning, said the answer; thinks is true where the last piece was reasoning.
	thought terminal.Wrapper
	said    terminal.Markdown
	thinks  bool
	shown   strings.Builder
}

// end ends the line that is being written.
func (t *turnText) end() {
	t.thought.End()
	t.said.End()
}

// gateQuestion is one that a person is asked while the run goes on.
type gateQuestion struct {
	gate   *events.GateOpenedData
	cancel context.CancelFunc
	answer chan verdictOf
}

type verdictOf struct {
	v   gateprompt.Answer
	err error
}

// errLeave means that the person wants to leave the program.
var errLeave = errors.New("the person leaves")

// follow dispatches the task and shows its run until it ends or is left. It listens first, so that nothing is missed.
func (t *turnRun) follow(ctx context.Context, task events.Task) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	live := make(chan client.Piece, 64)
	unwatch, err := t.watch(ctx, live)
	if err != nil {
		return err
	}
	defer func() { cancel(); unwatch() }()
	if err := t.start(ctx, task); err != nil {
		return err
	}
	items, stop := follow.Arrivals(ctx, t.c, t.id)
	defer func() { stop(); t.canvas.Keep(nil) }()
	return t.loop(ctx, items, live)
}

func (t *turnRun) loop(ctx context.Context, items <-chan follow.Arrival, live <-chan client.Piece) error {
	tick := time.NewTicker(follow.RedrawEvery)
	defer tick.Stop()
	for {
		var answer <-chan verdictOf
		notices := t.r.app.Notices
		if t.asking != nil {
			answer, notices = t.asking.answer, nil // the question shows them
		}
		select {
		case a, ok := <-items:
			if !ok {
				return errLeave // the watch ends before the run only when the program does
			}
			if a.Err != nil {
				return a.Err
			}
			t.writeRest(ctx, a.Item, live)
			if end, err := t.event(ctx, a.Item); end || err != nil {
				return err
			}
		case d := <-live:
			t.receive(d)
		case v := <-answer:
			if end, err := t.answered(ctx, v); end || err != nil {
				return err
			}
		case <-t.r.breaks:
			if t.stopping {
				return errLeave
			}
			if err := t.stop(ctx); err != nil {
				return err
			}
		case line := <-notices:
			t.print("  " + t.draw.Dim(line))
		case <-tick.C:
			t.draw.Tick++
			t.redraw()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop asks the station to stop the run: the session stays.
func (t *turnRun) stop(ctx context.Context) error {
	t.stopping, t.partial = true, t.unfinished()
	t.print(t.draw.Yellow("  stopping ..."))
	wait, cancel := context.WithTimeout(ctx, t.r.app.Wait)
	defer cancel()
	if t.partial != nil && t.interrupt(wait) && t.state.Created.Session != "" {
		t.partial = nil // the history of the session has it
	}
	_, err := t.c.Control(wait, t.id, events.Control{Action: "stop", By: t.r.app.Me(), Reason: "stopped at the prompt"})
	if _, refused := errors.AsType[*client.RefusedError](err); refused {
		return nil // it has ended meanwhile, which the log shows
	}
	return err
}

// interruptWait is how long the station may take to store what the model has said: a run must be stopped in any case.
const interruptWait = 3 * time.Second

// interrupt has what the model said so far put into the log, and reports whether it is there. The run is paused then.
func (t *turnRun) interrupt(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, interruptWait)
	defer cancel()
	s, err := t.c.Control(ctx, t.id,
		events.Control{Action: "pause", Interrupt: true, By: t.r.app.Me(), Reason: "interrupted at the prompt"})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; err == nil && !s.Status.Ended(); s, err = t.c.State(ctx, t.id) {
		if n := s.Turns().Len(); n > 0 && s.Turns().At(n-1).Interrupted {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// maxInterrupted is how many bytes of a stopped answer go with the next input: its end.
const maxInterrupted = 4 << 10

// unfinished is what the model has written of the turn under way; nil for nothing.
func (t *turnRun) unfinished() *attachment {
	if t.text == nil {
		return nil
	}
	text := strings.TrimSpace(t.text.shown.String())
	if text == "" {
		return nil
	}
	if len(text) > maxInterrupted {
		text = "... " + strings.ToValidUTF8(text[len(text)-maxInterrupted:], "")
	}
	return &attachment{"interrupted", `note="your answer to the input before, which the person stopped here"`, text}
}

// event shows one. While a question stands, only that its gate was answered is looked at; the rest comes after it.
func (t *turnRun) event(ctx context.Context, item client.Item) (end bool, err error) {
	if t.asking != nil {
		t.later = append(t.later, item)
		if g := closes(item.Payload); g == t.asking.gate.Gate || item.State.Status.Ended() {
			t.asking.cancel()
		}
		return false, nil
	}
	t.state = item.State
	t.tree.Apply(item.Event, item.Payload)
	switch d := item.Payload.(type) {
	case *events.TurnFinishedData:
		t.finishText(d)
	case *events.TurnDeferredData:
		t.endText(true)
		t.print("  " + t.draw.Yellow("↻ ") + t.draw.Dim(view.Text(d)))
	case *events.CallFinishedData:
		t.call(d.Call)
		t.result(d)
	case *events.CallFailedData:
		t.call(d.Call)
	case *events.CallRefusedData:
		t.call(d.Call)
	case *events.StepFailedData:
		t.print("  " + t.draw.Red("✗ "+view.Clip(d.Error, 400)))
	case *events.StepReadyData:
		if len(t.tree.Steps) > 1 {
			t.print(t.draw.Bold("  step " + d.Step))
		}
	case *events.GateOpenedData:
		t.open = append(t.open, d)
		if !t.r.flags.Yes {
			t.r.person.Saw(item)
		}
	case *events.GateVotedData:
		t.print("    " + t.draw.Dim(view.Text(d)))
	default:
		if g := closes(item.Payload); g != "" {
			t.open = slices.DeleteFunc(t.open, func(o *events.GateOpenedData) bool { return o.Gate == g })
		}
	}
	if early := t.early; len(early) > 0 && !t.behind() {
		t.early = nil
		for _, piece := range early {
			t.receive(piece)
		}
	}
	t.redraw()
	if t.state.Status.Ended() {
		t.r.person.Saw(item)
		t.endText(true)
		return true, nil
	}
	if t.state.Halted() && !t.stopping {
		t.r.person.Saw(item)
		return t.paused(ctx)
	}
	return false, t.ask(ctx)
}

// closes names the gate that an event answers.
func closes(p events.Payload) string {
	switch d := p.(type) {
	case *events.GateApprovedData:
		return d.Gate
	case *events.GateRejectedData:
		return d.Gate
	case *events.GateExpiredData:
		return d.Gate
	}
	return ""
}

// call prints the line of a call that has ended. Those inside of it were printed when they ended.
func (t *turnRun) call(id string) {
	if c := t.tree.Call(id); c != nil {
		own := *c
		own.Inner = nil
		t.print(t.rows(&own, time.Now())...)
	}
}

// result prints the beginning of what a call gave, for a person at a terminal.
func (t *turnRun) result(d *events.CallFinishedData) {
	if c := t.tree.Call(d.Call); !t.r.app.Term.TTY || c != nil && c.Diff != "" {
		return // a diff stands below its call
	}
	for _, line := range folded(d.Output, t.state.ToolCallHistory.Len(), t.draw.Width-5) {
		t.print("    " + t.draw.Dim(line))
	}
}

// rows are the lines of a call.
func (t *turnRun) rows(c *view.CallNode, now time.Time) []string {
	t.sized()
	return t.draw.Call(&t.tree, c, "  ", now)
}

func (t *turnRun) sized() {
	t.draw.Width, _ = t.r.app.Term.Size()
}

// print puts lines above what is still moving.
func (t *turnRun) print(lines ...string) {
	t.endText(false)
	t.canvas.Clear()
	for _, l := range lines {
		fmt.Fprintln(t.r.app.Out, l)
	}
}

// redraw shows what is going on now: on a terminal, and while nothing is written or asked.
func (t *turnRun) redraw() {
	if !t.r.app.Term.TTY || t.asking != nil || t.text != nil {
		return
	}
	t.sized()
	var lines []string
	now := time.Now()
	for _, st := range t.tree.Steps {
		if st.Status != events.StepIsRunning {
			continue
		}
		calls := 0
		for _, turn := range st.Turns {
			for _, c := range turn.Calls {
				for _, one := range append([]*view.CallNode{c}, c.Inner...) {
					if one.State.Open() {
						lines, calls = append(lines, t.rows(one, now)[0]), calls+1
					}
				}
			}
		}
		if calls == 0 && !st.Asked.IsZero() && t.c.Connected() {
			lines = append(lines, t.draw.Row("  "+t.draw.Spin()+" "+t.draw.Dim("thinking"), view.Since(st.Asked, now)))
		}
	}
	if len(lines) == 0 && t.tree.Steps == nil && !t.tree.Status.Ended() {
		lines = append(lines, t.draw.Row("  "+t.draw.Spin()+" "+t.draw.Dim("starting"), ""))
	}
	if !t.c.Connected() {
		lines = append(lines, t.draw.Row("  "+t.draw.Spin()+" "+t.draw.Yellow(t.r.awayText()), ""))
	}
	t.canvas.Draw(lines)
}

// ask puts the next gate to the person.
func (t *turnRun) ask(ctx context.Context) error {
	if t.asking != nil || len(t.open) == 0 {
		return nil
	}
	g := t.open[0]
	if s, err := t.c.State(ctx, t.id); err == nil && s.Gate(g.Gate) != nil && s.Gate(g.Gate).Status != run.GatePending {
		return nil // its answer comes next
	}
	t.sized()
	prompt := &gateprompt.Prompt{Gate: g, Session: t.r.flags.Session, Paint: t.draw.Paint, Width: t.draw.Width,
		What: follow.WhatOf(&t.tree, g.Call), Diff: gateprompt.Proposed(g)}
	t.print(append([]string{""}, prompt.Opening()...)...)
	t.canvas.Keep(nil)
	question, cancel := context.WithCancel(ctx)
	t.asking = &gateQuestion{gate: g, cancel: cancel, answer: make(chan verdictOf, 1)}
	go func(q *gateQuestion) {
		v, err := t.r.gate(question, prompt)
		q.answer <- verdictOf{v, err}
	}(t.asking)
	return nil
}

// answered takes what the person said, and then shows what came meanwhile.
func (t *turnRun) answered(ctx context.Context, a verdictOf) (end bool, err error) {
	q := t.asking
	q.cancel()
	t.asking = nil
	t.r.person.Acted(time.Now())
	switch {
	case errors.Is(a.err, context.Canceled) && ctx.Err() == nil: // another person has answered, or the run has ended
		t.print(t.draw.Dim("    answered elsewhere"))
	case errors.Is(a.err, lineedit.ErrBreak):
		err = t.stop(ctx)
	case a.err != nil:
		return false, a.err
	case a.v.Leave:
		return false, errLeave
	default:
		f := follow.Follower{App: t.r.app, Client: t.c, RunID: t.id}
		err = f.Answer(ctx, q.gate, a.v)
		// another person may have to answer it, whose answer still comes
		if r, ok := errors.AsType[*client.RefusedError](err); ok && t.r.input.Interactive() {
			t.print("    "+t.draw.Yellow(view.Clip(r.Error(), 400)),
				t.draw.Dim("    the run waits at the gate; Ctrl+C stops it"))
			err = nil
		}
	}
	if err != nil {
		return false, err
	}
	t.open = slices.DeleteFunc(t.open, func(o *events.GateOpenedData) bool { return o.Gate == q.gate.Gate })
	later := t.later
	t.later = nil
	for _, item := range later {
		if end, err = t.event(ctx, item); end || err != nil {
			return end, err
		}
	}
	return false, err
}

// paused asks what to do about a run that stands still.
func (t *turnRun) paused(ctx context.Context) (end bool, err error) {
	t.endText(true)
	t.print("  " + t.draw.Yellow("‖ paused: "+cmp.Or(view.Clip(t.state.PauseReason, 300), "no reason given")))
	t.canvas.Keep(nil)
	t.r.input.Discard(ctx)
	for {
		line, err := t.r.input.Answer(ctx, t.draw.Bold("    [g]o on, [s]top it, [l]eave it paused: "))
		if errors.Is(err, lineedit.ErrBreak) {
			line, err = "s", nil
		}
		if errors.Is(err, io.EOF) {
			line, err = "l", nil
		}
		if err != nil {
			return true, err
		}
		action := ""
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "g", "go", "y", "yes":
			action = "resume"
		case "s", "stop", "n", "no":
			action = "stop"
		case "l", "leave":
			fmt.Fprintf(t.r.app.Out, "    go on later with: inspan resume %s\n", t.id)
			return true, nil
		default:
			continue
		}
		wait, cancel := context.WithTimeout(ctx, t.r.app.Wait)
		defer cancel()
		_, err = t.c.Control(wait, t.id, events.Control{Action: action, By: t.r.app.Me(), Reason: "answered at the prompt"})
		if _, refused := errors.AsType[*client.RefusedError](err); refused {
			err = nil // another client was faster, as the log shows
		}
		return false, err
	}
}
