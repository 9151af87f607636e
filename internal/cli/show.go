package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/inspan/inspan/internal/core/view"
	"github.com/inspan/inspan/pkg/client"
	"github.com/inspan/inspan/pkg/events"
	"github.com/inspan/inspan/pkg/run"
)

// show shows a run as it goes on: a live tree on a terminal, JSON lines with --json, else a line for each fact.
type show struct {
	app *app
	// tree is true where the live tree is drawn.
	tree bool
	mu   sync.Mutex
	// The rest is guarded by mu. frozen stops the redrawing while a person types.
	run    view.Tree
	last   run.State
	draw   drawing
	canvas canvas
	frozen bool
	// inLine is true where streamed words have left the line open.
	inLine bool
	stop   context.CancelFunc
	drawer sync.WaitGroup
}

// redraw is how often a live tree moves while nothing happens.
const redraw = 100 * time.Millisecond

func (a *app) show(ctx context.Context) *show {
	s := &show{app: a, tree: a.term.tty && !a.json && !a.stream, draw: drawing{paint: a.paint(), tail: map[string]string{}}, canvas: canvas{screen: a.term}}
	ctx, s.stop = context.WithCancel(ctx)
	if s.tree {
		s.drawer.Go(func() { s.animate(ctx) })
	}
	return s
}

func (s *show) animate(ctx context.Context) {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.mu.Lock()
			s.draw.tick++
			s.redraw()
			s.mu.Unlock()
		}
	}
}

// redraw draws the tree as it is now; mu is held.
func (s *show) redraw() {
	if s.frozen || !s.tree {
		return
	}
	width, height := s.app.term.size()
	s.draw.width = width
	s.canvas.draw(s.draw.fitted(&s.run, time.Now(), max(height-1, 1)))
}

// fact shows one more fact.
func (s *show) fact(item client.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run.Apply(item.Fact, item.Payload)
	s.last = item.State
	switch d := item.Payload.(type) {
	case *events.TurnFinishedData:
		delete(s.draw.tail, "step "+d.Step)
	case *events.CallFinishedData:
		delete(s.draw.tail, d.Call)
	}
	if !s.tree {
		s.endLine()
		s.app.line(item)
	}
}

// stream prints what is not kept: the model's words, or all of it with --json. mu is held.
func (s *show) stream(data []byte, d liveData) {
	if s.app.json {
		var line bytes.Buffer
		if json.Compact(&line, data) == nil {
			fmt.Fprintln(s.app.out, line.String())
		}
		return
	}
	if d.Event != "token" || d.Content == "" {
		return
	}
	text := view.Whole(d.Content)
	fmt.Fprint(s.app.out, text)
	s.inLine = !strings.HasSuffix(text, "\n")
}

// endLine ends the line of streamed words; mu is held.
func (s *show) endLine() {
	if s.inLine {
		fmt.Fprintln(s.app.out)
		s.inLine = false
	}
}

// liveData is what executors and toolrunners publish while they work.
type liveData struct {
	Event   string `json:"event"`
	Step    string `json:"step_id"`
	Call    string `json:"tool_id"`
	Content string `json:"content"`
	Done    bool   `json:"done"`
}

// maxTail is how many bytes of what is not kept are remembered for one line.
const maxTail = 2 << 10

// heard takes what is not kept: the newest line of it is shown beside what works.
func (s *show) heard(data []byte) {
	var d liveData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	if !s.tree {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stream(data, d)
		return
	}
	key := d.Call
	if d.Event == "token" || d.Event == "thinking" {
		key = "step " + d.Step
	}
	if key == "" || d.Content == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw.tail[key] = newest(s.draw.tail[key], d.Content)
}

// newest is the last line of a text that grows.
func newest(before, more string) string {
	text := before + view.Whole(more)
	if line := strings.TrimRight(text, "\n"); strings.Contains(line, "\n") {
		text = line[strings.LastIndexByte(line, '\n')+1:]
	}
	if len(text) > maxTail {
		text = strings.ToValidUTF8(text[len(text)-maxTail:], "")
	}
	return text
}

// freeze keeps the tree as it is and what is printed below it, until thaw; below is how many lines that were.
func (s *show) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redraw()
	s.frozen = true
}

func (s *show) thaw(below int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	s.canvas.drawn += below
	s.redraw()
}

// close draws the final, whole tree, which stays.
func (s *show) close() {
	s.stop()
	s.drawer.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tree {
		s.endLine()
		return
	}
	s.draw.whole, s.draw.tail = true, nil
	s.draw.width, _ = s.app.term.size()
	s.canvas.keep(s.draw.lines(&s.run, time.Now()))
}
