package cli

import (
	"bufio"
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

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

// show shows a run as it goes on: a live tree on a terminal, JSON lines with --json, else a line for each fact.
type show struct {
	app    *app
	tree   tree
	screen screen
	live   bool
	mu     sync.Mutex
	// state is the last one shown, guarded by mu; asking stops the redrawing while a person types.
	state  run.State
	asking bool
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// redraw is how often a live tree moves while nothing happens.
const redraw = 120 * time.Millisecond

func (a *app) show(ctx context.Context) *show {
	s := &show{app: a}
	width, height, tty := terminal(a.out)
	s.live = tty && !a.json
	if !s.live {
		return s
	}
	s.tree, s.screen = tree{paint: a.paint(), width: width}, screen{out: a.out, height: height}
	ctx, s.stop = context.WithCancel(ctx)
	s.done.Go(func() {
		t := time.NewTicker(redraw)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				s.paint()
			}
		}
	})
	return s
}

func (s *show) paint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking {
		return
	}
	s.tree.tick++
	s.screen.draw(s.tree.lines(s.state, time.Now()))
}

// fact shows one more fact.
func (s *show) fact(item client.Item) {
	if !s.live {
		s.app.line(item)
		return
	}
	s.mu.Lock()
	s.state = item.State
	s.mu.Unlock()
}

// close draws the final tree.
func (s *show) close() {
	if !s.live {
		return
	}
	s.stop()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree.whole = true
	s.screen.finish(s.tree.lines(s.state, time.Now()))
}

// ask asks a person at the terminal about a gate. ok is false where there is nobody to ask.
func (s *show) ask(ctx context.Context, g *events.GateOpenedData) (yes bool, reason string, ok bool) {
	if _, _, tty := terminal(s.app.out); !tty || s.app.json || !isTerminal(s.app.in) {
		return false, "", false
	}
	s.mu.Lock()
	s.asking = true
	if s.live {
		s.screen.draw(s.tree.lines(s.state, time.Now()))
	}
	p := s.tree.paint
	fmt.Fprintf(s.app.out, "\n%s %s\n  %s\n  %s ", p.yellow(p.bold("Gate")), p.bold(view.Clip(g.Description, 200)), p.dim("because "+view.Clip(g.Reason, 200)), p.bold("Approve? [y]es, [n]o, [l]eave it waiting:"))
	s.mu.Unlock()
	line, err := readLine(ctx, s.app.in)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking, s.screen.drawn = false, 0
	fmt.Fprintln(s.app.out)
	switch answer := strings.ToLower(strings.TrimSpace(line)); {
	case err != nil, answer == "", strings.HasPrefix(answer, "l"):
		return false, "", false
	case strings.HasPrefix(answer, "y"):
		return true, "", true
	}
	return false, "rejected at the terminal", true
}

// readLine reads one line unless ctx ends first; the reader may then take one line more.
func readLine(ctx context.Context, in interface{ Read([]byte) (int, error) }) (string, error) {
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1) // the reader never waits for us
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
