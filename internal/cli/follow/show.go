package follow

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/cli/app"
	"github.com/inspan/inspan/internal/cli/runtree"
	"github.com/inspan/inspan/internal/cli/terminal"
	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// Notice prints a line beside a run that is shown, and beside its tree where one is drawn. With --json it is not among
// the data.
func Notice(a *app.App, s *Show, text string) {
	out := a.Out
	if a.JSON {
		out = a.Err
	}
	if s == nil || !s.tree {
		fmt.Fprintln(out, text)
		return
	}
	s.Freeze()
	fmt.Fprintln(out, text)
	s.Thaw(1)
}

// Show shows a run as it goes on: a live tree on a terminal, JSON lines with --json, else a line for each event.
type Show struct {
	app *app.App
	// tree is true where the live tree is drawn.
	tree bool
	mu   sync.Mutex
	// The rest is guarded by mu. frozen stops the redrawing while a person types.
	run    view.Tree
	last   run.State
	draw   runtree.Drawing
	canvas terminal.Canvas
	frozen bool
	// text prints text as it comes, where that is asked for.
	text   *textPrinter
	stop   context.CancelFunc
	drawer sync.WaitGroup
}

// RedrawEvery is how often a live tree moves while nothing happens.
const RedrawEvery = 100 * time.Millisecond

// NewShow begins to show a run; Close ends it.
func NewShow(ctx context.Context, a *app.App) *Show {
	s := &Show{app: a, tree: a.Term.TTY && !a.JSON && !a.Stream,
		draw: runtree.Drawing{Paint: a.Paint(), Diff: runtree.DiffLines,
			Tail: map[string]string{}}, canvas: terminal.Canvas{Screen: a.Term}}
	if a.Stream {
		s.text = newTextPrinter(a)
	}
	ctx, s.stop = context.WithCancel(ctx)
	if s.tree {
		s.drawer.Go(func() { s.animate(ctx) })
	}
	return s
}

func (s *Show) animate(ctx context.Context) {
	t := time.NewTicker(RedrawEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.mu.Lock()
			s.draw.Tick++
			s.redraw()
			s.mu.Unlock()
		}
	}
}

// redraw draws the tree as it is now; mu is held.
func (s *Show) redraw() {
	if s.frozen || !s.tree {
		return
	}
	width, height := s.app.Term.Size()
	s.draw.Width = width
	s.canvas.Draw(s.draw.Fitted(&s.run, time.Now(), max(height-1, 1)))
}

// Event shows one more event.
func (s *Show) Event(item client.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run.Apply(item.Event, item.Payload)
	s.last = item.State
	switch d := item.Payload.(type) {
	case *events.TurnFinishedData:
		delete(s.draw.Tail, "step "+d.Step)
	case *events.CallFinishedData:
		delete(s.draw.Tail, d.Call)
	}
	if s.text != nil {
		s.text.event(item)
	}
	if !s.tree {
		PrintItem(s.app, item)
	}
}

// piece takes text that is not stored yet: the newest line of it is shown beside what works, or all of it where that is
// asked for.
func (s *Show) piece(p client.Piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text != nil && !s.frozen {
		s.text.piece(p)
	}
	key := p.Call
	if key == "" {
		key = "step " + p.Step
	}
	if p.Again {
		delete(s.draw.Tail, key)
	}
	if s.tree && p.Text != "" && p.Event != "error" {
		s.draw.Tail[key] = runtree.Newest(s.draw.Tail[key], p.Text)
	}
}

// Freeze keeps the tree as it is and what is printed below it, until Thaw.
func (s *Show) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redraw()
	s.frozen = true
}

// Thaw draws the tree again, over the lines that were printed below it; below counts them.
func (s *Show) Thaw(below int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	s.canvas.Drawn += below
	s.redraw()
}

// Close draws the final, whole tree, which stays.
func (s *Show) Close() {
	s.stop()
	s.drawer.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tree {
		return
	}
	s.draw.Whole, s.draw.Tail = true, nil
	s.draw.Width, _ = s.app.Term.Size()
	s.canvas.Keep(s.draw.Lines(&s.run, time.Now()))
}

// Session is that of the run, empty for none.
func (s *Show) Session() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Created == nil {
		return ""
	}
	return s.last.Created.Session
}

// What is the call at a gate in words, empty for a step.
func (s *Show) What(call string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return WhatOf(&s.run, call)
}

// WhatOf is a call in words, empty where there is none of that id.
func WhatOf(t *view.Tree, call string) string {
	if c := t.Call(call); c != nil {
		return view.Clip(c.Tool, 40) + " " + c.Input
	}
	return ""
}
