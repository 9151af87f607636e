package cli

import (
	"context"
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
	// text prints text as it comes, where that is asked for.
	text   *teller
	stop   context.CancelFunc
	drawer sync.WaitGroup
}

// redraw is how often a live tree moves while nothing happens.
const redraw = 100 * time.Millisecond

func (a *app) show(ctx context.Context) *show {
	s := &show{app: a, tree: a.term.tty && !a.json && !a.stream, draw: drawing{paint: a.paint(), tail: map[string]string{}}, canvas: canvas{screen: a.term}}
	if a.stream {
		s.text = a.teller()
	}
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
	if s.text != nil {
		s.text.fact(item)
	}
	if !s.tree {
		s.app.line(item)
	}
}

// maxTail is how many bytes of what is not kept are remembered for one line.
const maxTail = 2 << 10

// piece takes text that is not stored yet: the newest line of it is shown beside what works, or all of it where that is
// asked for.
func (s *show) piece(p client.Piece) {
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
		delete(s.draw.tail, key)
	}
	if s.tree && p.Text != "" && p.Event != "error" {
		s.draw.tail[key] = newest(s.draw.tail[key], p.Text)
	}
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
		return
	}
	s.draw.whole, s.draw.tail = true, nil
	s.draw.width, _ = s.app.term.size()
	s.canvas.keep(s.draw.lines(&s.run, time.Now()))
}
